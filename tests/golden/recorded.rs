//! Reads files of vectors: one JSON object per line, plain (`.jsonl`, `.json`) or compressed (`.jsonl.gz`).

use flate2::read::GzDecoder;
use std::io::Read as _;
use std::path::Path;

/// Returns the text of each file in `golden/`, or in the folder `GOLDEN_DIR`, in name order.
pub(crate) fn read() -> Vec<String> {
    std::env::var_os("GOLDEN_DIR").map_or_else(own, |folder| of_folder(Path::new(&folder)))
}

/// Returns the text of each file in `golden/`, in name order.
pub(crate) fn own() -> Vec<String> {
    of_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"))
}

pub(crate) fn of_folder(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("the folder is here");
    let mut files: Vec<_> = files.map(|entry| entry.expect("it can be listed").path()).collect();
    files.sort();
    files.iter().filter_map(|path| text(path)).collect()
}

/// Returns the content of a file of vectors; `None` for other files.
pub(crate) fn text(path: &Path) -> Option<String> {
    let bytes = || std::fs::read(path).expect("a vector can be read");
    let mut text = String::new();
    match path.extension()?.to_str()? {
        "jsonl" | "json" => text = String::from_utf8(bytes()).expect("a vector is text"),
        "gz" => {
            GzDecoder::new(bytes().as_slice()).read_to_string(&mut text).expect("a vector is text");
        }
        _ => return None,
    }
    Some(text)
}
