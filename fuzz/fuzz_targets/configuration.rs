//! KubeSchedulerConfiguration in YAML: parsed, defaulted, validated and written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use supercargo_config::{Effective, Flags};

fuzz_target!(|text: &str| {
    match Effective::parse(Path::new("config.yaml"), text, &Flags::default()) {
        Ok(effective) => drop((effective.to_yaml(), effective.to_json())),
        Err(error) => drop(error.to_string()),
    }
});
