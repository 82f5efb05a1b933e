//! Quantities: whatever parses equals itself, and its rounded values are in order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cmp::Ordering;
use supercargo_core::model::quantity::Quantity;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = Quantity::parse(text) {
        assert_eq!(quantity.compare(quantity), Ordering::Equal);
        assert_eq!(quantity.max(quantity.minus(quantity)).is_zero(), quantity.compare(Quantity::whole(0)).is_le());
        let _ = (quantity.value(), quantity.milli_value(), quantity.nano_value(), quantity.approximately());
    }
});
