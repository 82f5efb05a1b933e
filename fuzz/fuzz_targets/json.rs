//! Objects in JSON, of the kind that they name, and their conversion into the engine's model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use supercargo_core::model::intern::Tables;
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched;
use supercargo_objects::of_any_kind;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice(data) else { return };
    let Ok(object) = Object::from_value(value) else { return };
    let mut tables = Tables::new();
    of_any_kind!(&object, it => drop(it.applied(&mut tables)));
});
