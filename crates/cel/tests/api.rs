//! What the public interface promises.

use supercargo_cel::{Attribute, Device, Parts, compile};

fn some(names: &[(&str, &str)]) -> Parts {
    Parts::Some(names.iter().map(|(domain, id)| ((*domain).to_owned(), (*id).to_owned())).collect())
}

#[test]
fn reads_names_the_attributes_of_literal_paths() {
    let reads = |expression: &str| compile(expression).expect("it compiles").reads().clone();
    let both = reads(
        "device.attributes['b'].y == 1 && has(device.attributes['a'].x) && device.capacity[?'a'].?m.hasValue() && device.driver == 'd'",
    );
    assert_eq!(both.attributes, some(&[("a", "x"), ("b", "y")]));
    assert_eq!(both.capacity, some(&[("a", "m")]));
    assert!(both.driver && !both.allow_multiple_allocations);
    for expression in [
        "device.attributes[device.driver].x == 1",
        "device.attributes.exists(d, d == 'a')",
        "cel.bind(a, device.attributes['a'], a.x == 1)",
        "'x' in device.attributes['a']",
        "device == device",
    ] {
        assert_eq!(reads(expression).attributes, Parts::All, "{expression}");
    }
    assert_eq!(reads("device.allowMultipleAllocations").attributes, Parts::None);
}

#[test]
fn qualified_name_replaces_a_bare_one_of_the_same_domain() {
    let device =
        Device::builder("d").attribute("d/x", Attribute::Int(2)).attribute("x", Attribute::Int(1)).build();
    assert_eq!(compile("device.attributes['d'].x == 2").expect("it compiles").matches(&device), Ok(true));
}

#[test]
fn values_that_do_not_parse_fail_the_evaluation() {
    let program = compile("true").expect("it compiles");
    let text = |device: Device| program.evaluate(&device).result.expect_err("an error").to_string();
    let version = Device::builder("d").attribute("v", Attribute::Version("1.2".into())).build();
    assert_eq!(text(version), "attribute v: parse semantic version: No Major.Minor.Patch elements found");
    let list = Device::builder("d").attribute("l", Attribute::Ints(vec![1])).build();
    assert_eq!(text(list), "attribute l: unsupported attribute value");
    let quantity = Device::builder("d").capacity("c", "x").build();
    assert!(text(quantity).starts_with("capacity c: quantities must match"));
}

#[test]
fn result_must_be_bool_or_unknown() {
    let error = compile("1 + 1").expect_err("an int").to_string();
    assert_eq!(error, "must evaluate to bool or the unknown type, not int");
    assert_eq!(
        compile("device.attributes['d'].x").expect("it compiles").result_type().to_string(),
        "google.protobuf.Any"
    );
}
