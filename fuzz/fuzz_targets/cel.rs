//! CEL expressions: compiled, estimated and evaluated for a device, within the limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use supercargo_cel::{Attribute, COST_MAX, Device, compile};

fuzz_target!(|text: &str| {
    let Ok(program) = compile(text) else { return };
    let device = Device::builder("driver.example")
        .attribute("model", Attribute::String("a".into()))
        .attribute("index", Attribute::Int(3))
        .attribute("version", Attribute::Version("1.2.3".into()))
        .capacity("memory", "40Gi")
        .build();
    let evaluation = program.evaluate(&device);
    assert!(evaluation.cost <= COST_MAX || evaluation.result.is_err(), "the cost exceeds the limit");
});
