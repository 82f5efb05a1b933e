//! Devices as the recorder `tests/upstream/cel` writes them.

use serde_json::Value as Json;
use std::sync::Arc;
use supercargo_cel::{Attribute, Device};

/// Builds the device of a recorded line; null stands for a device without a driver.
pub(crate) fn device(json: &Json) -> Device {
    let mut builder = Device::builder(json["driver"].as_str().unwrap_or_default())
        .allow_multiple_allocations(json["multiple"].as_bool().unwrap_or_default());
    for (name, attribute) in json["attributes"].as_object().into_iter().flatten() {
        builder = builder.attribute(name, attribute_of(attribute));
    }
    for (name, quantity) in json["capacity"].as_object().into_iter().flatten() {
        builder = builder.capacity(name, quantity.as_str().expect("a quantity"));
    }
    builder.build()
}

fn attribute_of(json: &Json) -> Attribute {
    let (kind, value) = json.as_object().and_then(|fields| fields.iter().next()).expect("one variant");
    let text = |value: &Json| Arc::from(value.as_str().expect("a text"));
    let texts = || value.as_array().expect("a list").iter().map(text).collect();
    match kind.as_str() {
        "int" => Attribute::Int(value.as_i64().expect("an integer")),
        "bool" => Attribute::Bool(value.as_bool().expect("a truth value")),
        "string" => Attribute::String(text(value)),
        "version" => Attribute::Version(text(value)),
        "ints" => {
            Attribute::Ints(value.as_array().expect("a list").iter().filter_map(Json::as_i64).collect())
        }
        "bools" => {
            Attribute::Bools(value.as_array().expect("a list").iter().filter_map(Json::as_bool).collect())
        }
        "strings" => Attribute::Strings(texts()),
        "versions" => Attribute::Versions(texts()),
        other => panic!("unknown variant {other}"),
    }
}
