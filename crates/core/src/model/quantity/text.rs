//! Quantities with their text form, for quantities that are written back to the API.
//!
//! Upstream: `apimachinery/pkg/api/resource/quantity.go` (`ParseQuantity`, `CanonicalizeBytes`).

use super::{Form, Parts, Quantity, QuantityError, Suffix, shift};
use std::cmp::Ordering;
use std::fmt;

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Exponents, for example `1e3`.
    DecimalExponent,
    /// Powers of 1,024, for example `1Ki`.
    BinarySi,
    /// Powers of 1,000, for example `1k`.
    DecimalSi,
}

/// A quantity and its notation.
///
/// Two are equal if upstream's structs are: number, scale, notation and kept text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The amount.
    pub quantity: Quantity,
    format: Format,
    /// The text it was parsed from, if upstream keeps it because it is canonical.
    text: Option<Box<str>>,
}

impl Amount {
    /// Creates an amount of whole units (upstream `NewQuantity`).
    pub fn whole(value: i64, format: Format) -> Self {
        Self { quantity: Quantity::whole(value), format, text: None }
    }

    /// Parses a quantity (upstream `ParseQuantity`).
    ///
    /// # Errors
    /// If upstream rejects the text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let quantity = Quantity::parse(text)?;
        if text == "0" {
            return Ok(Self { quantity, format: Format::DecimalSi, text: Some(text.into()) });
        }
        let parts = Parts::of(text)?;
        let suffix = Suffix::of(parts.suffix).ok_or(QuantityError::Suffix)?;
        let format = match suffix {
            Suffix::Two(_) if is_fraction(quantity) => Format::DecimalSi,
            Suffix::Two(_) => Format::BinarySi,
            Suffix::Ten(_) if parts.suffix.starts_with(['e', 'E']) && parts.suffix.len() > 1 => {
                Format::DecimalExponent
            }
            Suffix::Ten(_) => Format::DecimalSi,
        };
        let is_kept = parts.as_scaled(suffix).is_some() && is_canonical(&parts, suffix);
        Ok(Self { quantity, format, text: is_kept.then(|| text.into()) })
    }

    /// Returns the notation.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Compares the amounts, whatever their notation.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.quantity.compare(other.quantity)
    }

    /// Whether upstream's `==` holds for the two. It compares pointers of decimals, which are never the same.
    pub fn is_same_struct(&self, other: &Self) -> bool {
        self == other && matches!(self.quantity.0, Form::Scaled { .. })
    }
}

/// Whether a decimal lies between 0 and 1: upstream then shows a binary quantity as a decimal one.
fn is_fraction(quantity: Quantity) -> bool {
    let magnitude = if quantity.compare(Quantity::whole(0)) == Ordering::Less {
        Quantity::whole(0).minus(quantity)
    } else {
        quantity
    };
    matches!(quantity.0, Form::Decimal { .. })
        && !quantity.is_zero()
        && magnitude.compare(Quantity::whole(1)) == Ordering::Less
}

/// Whether upstream keeps the text of a number in the scaled form.
fn is_canonical(parts: &Parts<'_>, suffix: Suffix) -> bool {
    let mut digits = parts.digits();
    let value = parts.digits().fold(0_i64, |value, digit| value.wrapping_mul(10) + i64::from(digit));
    match suffix {
        Suffix::Two(_) => value & 7 != 0,
        Suffix::Ten(exponent) => {
            let scale = exponent.wrapping_sub(parts.fraction.len() as i32);
            let ends_in_thousands = parts.digits().count() >= 3 && value % 1000 == 0;
            scale % 3 == 0 && !ends_in_thousands && digits.next() != Some(0)
        }
    }
}

impl fmt::Display for Amount {
    /// Writes the canonical text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.quantity.is_zero() {
            return f.write_str("0");
        }
        let within = |bound: i64, order| self.quantity.compare(Quantity::whole(bound)) == order;
        let is_small = within(-1024, Ordering::Greater) && within(1024, Ordering::Less);
        if self.format == Format::BinarySi
            && !is_small
            && let Some(whole) = self.quantity.exact_whole()
        {
            return write_binary(f, whole);
        }
        write_decimal(f, self.quantity, self.format == Format::DecimalExponent)
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, whole: i128) -> fmt::Result {
    let (mut value, mut times) = (whole, 0);
    while value != 0 && value % 1024 == 0 {
        value /= 1024;
        times += 1;
    }
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    match suffixes.get(times) {
        Some(suffix) => write!(f, "{value}{suffix}"),
        None => write!(f, "{value}"),
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, quantity: Quantity, exponential: bool) -> fmt::Result {
    let (mut value, scale) = quantity.decimal();
    let mut exponent = -i64::from(scale);
    while value != 0 && value % 10 == 0 {
        value /= 10;
        exponent += 1;
    }
    let missing = exponent.rem_euclid(3);
    value = shift(value, missing);
    exponent -= missing;
    let suffix = match exponent {
        0 => Some(""),
        -9 => Some("n"),
        -6 => Some("u"),
        -3 => Some("m"),
        3 => Some("k"),
        6 => Some("M"),
        9 => Some("G"),
        12 => Some("T"),
        15 => Some("P"),
        18 => Some("E"),
        _ => None,
    };
    match suffix {
        Some("") => write!(f, "{value}"),
        Some(suffix) if !exponential => write!(f, "{value}{suffix}"),
        _ if exponential => write!(f, "{value}e{exponent}"),
        // Upstream has no suffix for such a number and writes none.
        _ => write!(f, "{value}"),
    }
}

impl Quantity {
    /// Returns the amount in whole units if it is a whole number.
    fn exact_whole(self) -> Option<i128> {
        let (value, scale) = self.decimal();
        if scale <= 0 {
            return Some(shift(value, -i64::from(scale)));
        }
        let divisor = 10_i128.checked_pow(scale.unsigned_abs())?;
        (value % divisor == 0).then(|| value / divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_canonical_in_its_notation() {
        let cases = [
            ("0", "0"),
            ("0.5G", "500M"),
            ("1500M", "1500M"),
            ("1000M", "1G"),
            ("1e9", "1e9"),
            ("1.5e9", "1500e6"),
            ("1700m", "1700m"),
            ("0.5", "500m"),
            ("1024Ki", "1Mi"),
            ("2.5Gi", "2560Mi"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1.5", "1500m"),
            ("-1024", "-1024"),
            ("100", "100"),
            ("80Gi", "80Gi"),
        ];
        for (text, canonical) in cases {
            assert_eq!(Amount::parse(text).unwrap().to_string(), canonical, "{text}");
        }
        assert_eq!(Amount::whole(2_000_000_000, Format::BinarySi).to_string(), "1953125Ki");
        assert_eq!(Amount::whole(1000, Format::BinarySi).to_string(), "1k");
    }

    #[test]
    fn binary_suffix_of_a_fraction_below_one_is_shown_as_decimal() {
        let cases = [
            ("0.0001Ki", Format::DecimalSi),
            ("-0.0001Ki", Format::DecimalSi),
            ("1.5Ki", Format::BinarySi),
            ("-1.5Ki", Format::BinarySi),
            ("0Ki", Format::BinarySi),
            ("0.0Ki", Format::BinarySi),
            ("1Ki", Format::BinarySi),
            ("0.5", Format::DecimalSi),
            ("5e2", Format::DecimalExponent),
        ];
        for (text, format) in cases {
            assert_eq!(Amount::parse(text).unwrap().format(), format, "{text}");
        }
    }

    #[test]
    fn same_struct_needs_number_notation_and_kept_text() {
        let amount = |text| Amount::parse(text).unwrap();
        assert!(amount("1Gi").is_same_struct(&amount("1Gi")));
        assert!(!amount("1Gi").is_same_struct(&amount("1024Mi")));
        assert!(!amount("1G").is_same_struct(&Amount::whole(1_000_000_000, Format::DecimalSi)));
        assert!(!amount("2.5Gi").is_same_struct(&amount("2.5Gi")), "decimals are compared by pointer");
    }
}
