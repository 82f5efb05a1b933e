//! Queries of HTTP requests about pods: parameters, and label selectors in them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use supercargo_whatif::pending::{LabelQuery, parameters};

fuzz_target!(|text: &str| {
    if let Ok(found) = parameters(text, &["namespace", "labelSelector", "pod", "limit"]) {
        for (_, value) in found {
            let _ = LabelQuery::parse(&value).map(|query| query.matches(|_| Some("x")));
        }
    }
});
