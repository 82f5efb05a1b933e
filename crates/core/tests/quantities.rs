//! Laws of quantities against exact integers: parsing, sums, order, rounding, and the ends of their range.

use proptest::prelude::*;
use std::cmp::Ordering;
use supercargo_core::model::quantity::Quantity;

/// Suffixes with their factors in billionths.
const SUFFIXES: [(&str, i128); 12] = [
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("", 1_000_000_000),
    ("e3", 1_000_000_000_000),
    ("k", 1_000_000_000_000),
    ("M", 1_000_000_000_000_000),
    ("G", 1_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000_000_000),
    ("Ki", (1 << 10) * 1_000_000_000),
    ("Mi", (1 << 20) * 1_000_000_000),
    ("Ti", (1 << 40) * 1_000_000_000),
];
const NANO: i128 = 1_000_000_000;
const MICRO: i128 = 1_000_000;

/// A text, and its amount in billionths, rounded away from zero.
fn texts() -> impl Strategy<Value = (String, i128)> {
    let fraction = prop_oneof![Just(None), (0_u32..1_000).prop_map(Some)];
    (any::<bool>(), 0_u32..10_000, fraction, prop::sample::select(&SUFFIXES)).prop_map(
        |(is_negative, whole, fraction, (suffix, factor))| {
            let sign = if is_negative { "-" } else { "" };
            let point = fraction.map_or(String::new(), |fraction| format!(".{fraction:03}"));
            let thousandths = i128::from(whole) * 1_000 + i128::from(fraction.unwrap_or(0));
            let amount = (thousandths * factor + 999) / 1_000;
            (format!("{sign}{whole}{point}{suffix}"), if is_negative { -amount } else { amount })
        },
    )
}

fn parse(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns an amount in units of so many billionths, rounded up and limited to the range of i64.
fn rounded_up(amount: i128, unit: i128) -> i64 {
    i64::try_from((amount + unit - 1) / unit).unwrap_or(i64::MAX)
}

proptest! {
    #[test]
    fn arithmetic_is_exact((a, exact_a) in texts(), (b, exact_b) in texts()) {
        let (p, q) = (parse(&a), parse(&b));
        prop_assert_eq!(p.nano_value(), exact_a, "{}", a);
        prop_assert_eq!(p.is_zero(), exact_a == 0, "{}", a);
        prop_assert_eq!(p.plus(q).nano_value(), exact_a + exact_b, "{} + {}", a, b);
        prop_assert_eq!(p.minus(q).nano_value(), exact_a - exact_b, "{} - {}", a, b);
        prop_assert_eq!(p.compare(q), exact_a.cmp(&exact_b), "{} against {}", a, b);
        prop_assert_eq!(p.max(q).nano_value(), exact_a.max(exact_b), "{} and {}", a, b);
    }

    #[test]
    fn value_is_rounded_up_and_stays_in_range((text, exact) in texts()) {
        let (text, exact) = (text.trim_start_matches('-'), exact.abs());
        let quantity = parse(text);
        prop_assert_eq!(quantity.clamped_value(), rounded_up(exact, NANO), "{}", text);
        prop_assert_eq!(quantity.clamped_milli_value(), rounded_up(exact, MICRO), "{}", text);
    }
}

#[test]
fn value_beyond_the_range_is_its_end() {
    let cases =
        [("1e19", i64::MAX), ("-1e19", i64::MIN), ("9223372036854775808", i64::MAX), ("1e9", 1_000_000_000)];
    for (text, value) in cases {
        assert_eq!(parse(text).clamped_value(), value, "{text}");
    }
    let cases = [("1e16", i64::MAX), ("-1e16", i64::MIN), ("1e15", 1_000_000_000_000_000_000)];
    for (text, value) in cases {
        assert_eq!(parse(text).clamped_milli_value(), value, "{text}");
    }
    assert_eq!(Quantity::whole(i64::MIN).clamped_value(), i64::MIN);
    assert_eq!(Quantity::whole(i64::MAX).clamped_value(), i64::MAX);
}

#[test]
fn amounts_of_very_different_size_are_ordered() {
    let ascending = ["-1e30", "-1", "-1n", "0", "1n", "1", "1e30"];
    for (at, a) in ascending.iter().enumerate() {
        for (other, b) in ascending.iter().enumerate() {
            assert_eq!(parse(a).compare(parse(b)), at.cmp(&other), "{a} against {b}");
        }
    }
    assert_eq!(parse("1e30").compare(parse("1000e27")), Ordering::Equal);
}

/// `==` compares forms, which decide how later sums overflow: upstream keeps integers as integers.
#[test]
fn sum_of_integers_keeps_their_form() {
    assert_eq!(Quantity::whole(2).plus(Quantity::whole(3)), Quantity::whole(5));
    assert_eq!(Quantity::whole(2).plus(Quantity::milli(500)), Quantity::milli(2_500));
    assert_eq!(Quantity::whole(2).plus(Quantity::milli(0)), Quantity::whole(2));
    assert_eq!(Quantity::whole(0).plus(Quantity::milli(5)), Quantity::milli(5));
}
