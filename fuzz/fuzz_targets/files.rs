//! Files of `simulate` and the other commands: YAML, JSON, lists and compressed ones, and the cluster that they
//! describe.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use supercargo_whatif::cluster::{Cluster, Setup};
use supercargo_whatif::load::files::Files;
use supercargo_whatif::load::input::InputLimit;

fuzz_target!(|data: &[u8]| {
    let limit = InputLimit::parse("1Mi").expect("a size");
    let mut files = Files::within(limit, |_| ());
    let Ok(items) = files.read(Path::new("-"), &mut &data[..]) else { return };
    let objects: Vec<_> = items.into_iter().map(|item| item.unpacked().value).collect();
    let _ = Cluster::from_objects(objects, &Setup::default());
});
