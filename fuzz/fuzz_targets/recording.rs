//! Recordings: the header and each line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use supercargo_whatif::recording::Entries;

fuzz_target!(|data: &[u8]| {
    let Ok((_, mut entries)) = Entries::open(data) else { return };
    while let Ok(Some(_)) = entries.read() {}
});
