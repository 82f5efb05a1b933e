//! Quantities, from the engine's model.

pub use supercargo_core::model::quantity::{Amount, Format, Quantity, QuantityError};

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    /// Upstream's results for some 4,300 texts, 1,200 sums and 1,200 comparisons, written by
    /// `tests/upstream/quantities`.
    const UPSTREAM: &str = include_str!("../../../../tests/fixtures/quantities.txt");

    fn answer(line: &str) -> String {
        let fields: Vec<&str> = line.split('\t').collect();
        let quantity = |at: usize| {
            let text: String = serde_json::from_str(fields[at]).unwrap();
            Quantity::parse(&text)
        };
        let amounts = |q: Quantity| format!("{}\t{}", q.milli_value(), q.value());
        match fields[0] {
            "=" | "!" => match quantity(1) {
                Ok(q) => format!("=\t{}\t{}", fields[1], amounts(q)),
                Err(error) => format!("!\t{}\t{error}", fields[1]),
            },
            "+" => {
                let sum = quantity(1).unwrap().plus(quantity(2).unwrap());
                format!("+\t{}\t{}\t{}", fields[1], fields[2], amounts(sum))
            }
            "?" => {
                let order = quantity(1).unwrap().compare(quantity(2).unwrap());
                format!("?\t{}\t{}\t{}", fields[1], fields[2], order as i8)
            }
            other => panic!("unknown type of line: {other}"),
        }
    }

    #[test]
    fn parsing_sums_and_comparisons_equal_upstream() {
        let wrong: Vec<_> = UPSTREAM
            .lines()
            .map(|line| (line, answer(line)))
            .filter(|(line, answer)| line != answer)
            .map(|(line, answer)| format!("upstream: {line}\nhere:     {answer}"))
            .collect();
        assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
        assert!(UPSTREAM.lines().count() > 6_000);
    }

    #[test]
    fn clamped_amounts_equal_upstream_within_i64() {
        let q = |text| Quantity::parse(text).unwrap();
        let of = |text| (q(text).clamped_milli_value(), q(text).clamped_value());
        assert_eq!(of("1500m"), (1500, 2));
        assert_eq!(of("10P"), (i64::MAX, 10_000_000_000_000_000));
        assert_eq!((q("10P").milli_value(), q("10E").value()), (0, 0), "upstream's");
        assert_eq!(of("10E"), (i64::MAX, i64::MAX));
        assert_eq!(of("-10E"), (i64::MIN, i64::MIN));
        assert_eq!(of("9223372036854775807"), (i64::MAX, i64::MAX));
        assert_eq!(q("9223372036854775807").milli_value(), -1000, "upstream's");
        assert_eq!(of("9223372036854775.807"), (i64::MAX, 9_223_372_036_854_776));
        assert_eq!(of("1e2147483647"), (i64::MAX, i64::MAX));
        assert_eq!(of("1e-30"), (1, 1));
    }

    #[test]
    fn huge_exponents_are_parsed_in_constant_time() {
        assert_eq!(Quantity::parse("1e-2147483647").unwrap().milli_value(), 1);
        assert_eq!(Quantity::parse("12345678901234567890e2147483647").unwrap().value(), i64::MAX);
        let huge = Quantity::parse("1e2147483600").unwrap();
        assert_eq!(huge.plus(Quantity::whole(1)).value(), i64::MAX);
        assert_eq!(huge.compare(Quantity::whole(1)), Ordering::Greater);
    }
}
