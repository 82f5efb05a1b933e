//! Frames of protobuf watches and lists: envelopes, events, bookmarks and error statuses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use supercargo_objects::api::core::PodKind;
use supercargo_objects::api::proto::{WatchEvent, bookmark, list, object, raw_object, refusal};

fuzz_target!(|data: &[u8]| {
    let _ = WatchEvent::read(data);
    let _ = bookmark(data);
    let _ = refusal(data);
    let _ = list(data);
    let _ = raw_object(data);
    let _ = object::<PodKind>(data);
});
