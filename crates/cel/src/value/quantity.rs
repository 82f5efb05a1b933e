//! Kubernetes quantities, such as `10Gi` or `1500m`, as exact decimal numbers.
//!
//! Upstream: `apimachinery/pkg/api/resource/quantity.go`.

use std::cmp::Ordering;
use std::fmt;

use crate::error::Error;

/// A quantity. Numbers that overflow an `i128` (38 digits always fit) are rejected; upstream has no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The value is `digits · 10^exponent`.
    digits: i128,
    exponent: i32,
    /// Whether upstream stores the number as `inf.Dec`, which `isInteger` never accepts.
    slow: bool,
}

const FORMAT: Error = Error::fixed(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
);
const NUMERIC: Error = Error::fixed("unable to parse numeric part of quantity");
const SUFFIX: Error = Error::fixed("unable to parse quantity's suffix");
const TOO_LARGE: Error = Error::fixed("quantity has more than 38 digits");

/// Number of digits that always fit an `i64` (`maxInt64Factors` in `apimachinery/pkg/api/resource/math.go`).
const SAFE_DIGITS: usize = 18;
/// Exponent of the smallest unit that is kept.
const NANO: i32 = -9;

/// The parts of a quantity string.
struct Parts<'t> {
    positive: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
    /// The number as written, with its sign and without its suffix.
    number: &'t str,
}

/// The factor that a suffix stands for.
enum Scale {
    Decimal(i32),
    Binary(u32),
}

impl Quantity {
    /// Parses a quantity as Kubernetes does.
    ///
    /// # Errors
    ///
    /// Returns Kubernetes' error text if the text is not a quantity, or an error if it has more than 38
    /// digits.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(FORMAT);
        }
        let parts = split(text)?;
        let scale = scale_of(parts.suffix)?;
        if let Some(quick) = quick(&parts, &scale)? {
            return Ok(quick);
        }
        slow(&parts, &scale)
    }

    /// Compares two quantities.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let (mine, others) = (self.sign(), other.sign());
        if mine != others || mine == 0 {
            return mine.cmp(&others);
        }
        let magnitude = |q: &Self| i64::from(q.digits.unsigned_abs().ilog10()) + i64::from(q.exponent);
        let order = magnitude(self).cmp(&magnitude(other)).then_with(|| {
            let shift = self.exponent.abs_diff(other.exponent);
            let widen = |digits: i128| {
                10_u128.checked_pow(shift).and_then(|factor| digits.unsigned_abs().checked_mul(factor))
            };
            let (a, b) = (self.digits.unsigned_abs(), other.digits.unsigned_abs());
            // A product that overflows is larger than any number that does not.
            match self.exponent.cmp(&other.exponent) {
                Ordering::Equal => a.cmp(&b),
                Ordering::Greater => widen(self.digits).map_or(Ordering::Greater, |a| a.cmp(&b)),
                Ordering::Less => widen(other.digits).map_or(Ordering::Less, |b| a.cmp(&b)),
            }
        });
        if mine < 0 { order.reverse() } else { order }
    }

    /// Returns -1, 0 or 1.
    pub(crate) fn sign(&self) -> i64 {
        self.digits.signum() as i64
    }

    /// Returns the value if it is an integer that fits an `i64`, and upstream stores it as one.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        if self.slow || self.exponent < 0 {
            return None;
        }
        let digits = i64::try_from(self.digits).ok()?;
        if digits == 0 {
            return Some(0);
        }
        10_i64.checked_pow(u32::try_from(self.exponent).ok()?)?.checked_mul(digits)
    }

    /// Returns the value as a double, computed as upstream does.
    pub(crate) fn as_double(&self) -> f64 {
        let mut exponent = self.exponent;
        let mut digits = Some(self.digits);
        if self.slow && exponent > NANO {
            // Upstream stores these as multiples of 10^-9.
            digits = 10_i128
                .checked_pow(exponent.abs_diff(NANO))
                .and_then(|factor| self.digits.checked_mul(factor));
            exponent = if digits.is_some() { NANO } else { exponent };
        }
        let base = digits.unwrap_or(self.digits) as f64;
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    pub(crate) fn of_integer(value: i64) -> Self {
        Self { digits: value.into(), exponent: 0, slow: false }
    }

    pub(crate) fn negated(&self) -> Self {
        Self { digits: -self.digits, ..self.clone() }
    }

    /// Returns the sum of two quantities.
    pub(crate) fn plus(&self, other: &Self) -> Result<Self, Error> {
        if !self.slow && !other.slow {
            if other.digits == 0 {
                return Ok(self.clone());
            }
            if self.digits == 0 {
                return Ok(other.clone());
            }
        }
        let exponent = self.exponent.min(other.exponent);
        let widen = |q: &Self| {
            let factor = 10_i128.checked_pow(q.exponent.abs_diff(exponent));
            if q.digits == 0 { Some(0) } else { factor.and_then(|factor| q.digits.checked_mul(factor)) }
        };
        let digits = widen(self).zip(widen(other)).and_then(|(a, b)| a.checked_add(b)).ok_or(TOO_LARGE)?;
        let fits = |q: &Self| widen(q).is_some_and(|digits| i64::try_from(digits).is_ok());
        let slow = self.slow || other.slow || !fits(self) || !fits(other) || i64::try_from(digits).is_err();
        Ok(Self { digits, exponent, slow })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut digits, mut exponent) = (self.digits, self.exponent);
        while digits != 0 && digits % 10 == 0 && exponent < 0 {
            digits /= 10;
            exponent += 1;
        }
        match exponent {
            _ if digits == 0 => f.write_str("0"),
            0 => write!(f, "{digits}"),
            1..1000 if self.slow => write!(f, "{digits}{}", "0".repeat(exponent.unsigned_abs() as usize)),
            _ => write!(f, "{digits}e{exponent}"),
        }
    }
}

fn split(text: &str) -> Result<Parts<'_>, Error> {
    let (positive, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (false, &text[1..]),
        Some(b'+') => (true, &text[1..]),
        _ => (true, text),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let trimmed = unsigned.trim_start_matches('0');
    if trimmed.is_empty() {
        return Ok(Parts { positive, whole: "0", fraction: "", suffix: "", number: "0" });
    }
    let (whole, mut rest) = trimmed.split_at(digits(trimmed));
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = after.split_at(digits(after));
    }
    let number = &text[..text.len() - rest.len()];
    let letters = rest.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let mut end = letters;
    end += usize::from(matches!(rest.as_bytes().get(end), Some(b'+' | b'-')));
    end += rest.bytes().skip(end).take_while(u8::is_ascii_digit).count();
    if end != rest.len() {
        return Err(FORMAT);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { positive, whole, fraction, suffix: rest, number })
}

fn scale_of(suffix: &str) -> Result<Scale, Error> {
    Ok(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(SUFFIX)?;
            // Upstream keeps the lower 32 bits.
            Scale::Decimal(exponent.parse::<i64>().map_err(|_| SUFFIX)? as i32)
        }
    })
}

/// Parses a number that fits upstream's fast form (`int64Amount`). Returns `None` for others.
fn quick(parts: &Parts<'_>, scale: &Scale) -> Result<Option<Quantity>, Error> {
    let (room, exponent, factor) = match scale {
        Scale::Decimal(exponent) => {
            (SAFE_DIGITS as i64 - (parts.whole.len() + parts.fraction.len()) as i64, *exponent, 1)
        }
        Scale::Binary(bits)
            if parts.fraction.is_empty() && !parts.number.ends_with('.') || parts.fraction.is_empty() =>
        {
            (15 - parts.whole.len() as i64 - i64::from(*bits) * 3 / 10 - 1, 0, 1_i64 << bits)
        }
        Scale::Binary(_) => return Ok(None),
    };
    if room < 0 {
        return Ok(None);
    }
    let exponent = exponent.wrapping_sub(i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX));
    if exponent < NANO {
        return Ok(None);
    }
    let digits: i64 = format!("{}{}", parts.whole, parts.fraction).parse().map_err(|_| NUMERIC)?;
    let Some(digits) = digits.checked_mul(factor) else { return Ok(None) };
    let digits = i128::from(if parts.positive { digits } else { -digits });
    Ok(Some(Quantity { digits, exponent, slow: false }))
}

/// Parses any other number: rounds it up to 10^-9, and caps it at 2^63 - 1 if its suffix is binary.
fn slow(parts: &Parts<'_>, scale: &Scale) -> Result<Quantity, Error> {
    if !parts.number.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(NUMERIC);
    }
    let fraction = parts.fraction.trim_end_matches('0');
    let whole = if fraction.is_empty() { parts.whole.trim_end_matches('0') } else { parts.whole };
    let written: i128 = format!("0{whole}{fraction}").parse().map_err(|_| TOO_LARGE)?;
    let dropped = i32::try_from(parts.whole.len() - whole.len()).map_err(|_| TOO_LARGE)?;
    let shift = dropped - i32::try_from(fraction.len()).map_err(|_| TOO_LARGE)?;
    let limit = Quantity { digits: i64::MAX.into(), exponent: 0, slow: true };
    let (digits, exponent) = match scale {
        Scale::Decimal(exponent) => round_up(written, exponent.wrapping_add(shift)),
        Scale::Binary(bits) => {
            let rounded = match shift < NANO {
                true => nanos(written, *bits, shift.abs_diff(NANO)).map(|digits| (digits, NANO)),
                false => written.checked_mul(1_i128 << bits).map(|digits| (digits, shift)),
            };
            // Without more than nine fraction digits, a product that overflows is above the cap.
            match rounded {
                Some((digits, exponent))
                    if (Quantity { digits, exponent, slow: true }).compare(&limit).is_le() =>
                {
                    (digits, exponent)
                }
                _ => (limit.digits, 0),
            }
        }
    };
    Ok(Quantity { digits: if parts.positive { digits } else { -digits }, exponent, slow: true })
}

/// Returns `digits · 2^bits / 10^places`, rounded up; `None` if it overflows.
///
/// The product alone may overflow, so twos are cancelled first, and the others are multiplied one by one.
fn nanos(digits: i128, bits: u32, places: u32) -> Option<i128> {
    // 5^54 is the largest power of five of which twice a remainder fits.
    const FIVES_MAX: u32 = 54;
    let divisor = 5_i128.pow(places.min(FIVES_MAX));
    let (mut quotient, mut rest) = (digits / divisor, digits % divisor);
    for _ in places..bits {
        let carry = 2 * rest >= divisor;
        quotient = quotient.checked_mul(2)?.checked_add(i128::from(carry))?;
        rest = 2 * rest - if carry { divisor } else { 0 };
    }
    let up = |number: i128, divisor: Option<i128>| match divisor {
        Some(divisor) => number / divisor + i128::from(number % divisor != 0),
        None => i128::from(number > 0),
    };
    let quotient = quotient + i128::from(rest > 0);
    let quotient = up(quotient, 5_i128.checked_pow(places.saturating_sub(FIVES_MAX)));
    Some(up(quotient, 2_i128.checked_pow(places.saturating_sub(bits))))
}

fn round_up(digits: i128, exponent: i32) -> (i128, i32) {
    if digits == 0 || exponent >= NANO {
        return (digits, exponent);
    }
    let rounded = 10_i128
        .checked_pow(exponent.abs_diff(NANO))
        .map_or(1, |factor| digits / factor + i128::from(digits % factor != 0));
    (rounded, NANO)
}

/// Returns a power of ten as Go's `math.Pow10` does: a product of rounded powers.
fn power_of_ten(exponent: i32) -> f64 {
    const POSITIVE: [f64; 10] = [1e0, 1e32, 1e64, 1e96, 1e128, 1e160, 1e192, 1e224, 1e256, 1e288];
    const NEGATIVE: [f64; 11] =
        [1e0, 1e-32, 1e-64, 1e-96, 1e-128, 1e-160, 1e-192, 1e-224, 1e-256, 1e-288, 1e-320];
    const SMALL: [f64; 32] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
    ];
    let size = exponent.unsigned_abs() as usize;
    match exponent {
        0..=308 => POSITIVE[size / 32] * SMALL[size % 32],
        -323..0 => NEGATIVE[size / 32] / SMALL[size % 32],
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).expect("a quantity")
    }

    #[test]
    fn equal_amounts_compare_equal() {
        for (a, b) in [
            ("1", "1000m"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("0.5n", "1n"),
            ("1Ei", "1152921504606846976"),
            ("1.0000000000000000000000000000000000001Gi", "1073741824000000001n"),
            ("1.1234567890123456789012345678901234567Ki", "1150419751949n"),
            ("0.0000000000000000000000000000000000000000000000000000000000000000000001Ei", "1n"),
            ("0.00000000000000000000000000000000000000000000000000009999999999Ki", "1n"),
            ("0.1234567890123456789012345678901234567Ei", "142335986942043633765524428n"),
            ("7.9999999999999999999999999999999999999Ei", "9223372036854775807"),
            ("100.5Ei", "9223372036854775807"),
        ] {
            assert_eq!(quantity(a).compare(&quantity(b)), Ordering::Equal, "{a} {b}");
        }
        assert_eq!(quantity("1e2147483647").compare(&quantity("9e2147483646")), Ordering::Greater);
        assert_eq!(quantity("-1e2147483647").compare(&quantity("1n")), Ordering::Less);
    }

    #[test]
    fn only_numbers_in_fast_form_are_integers() {
        assert_eq!(quantity("10Gi").as_integer(), Some(10 << 30));
        assert_eq!(quantity("1.5Gi").as_integer(), None);
        assert_eq!(quantity("1Ei").as_integer(), None);
        assert_eq!(quantity("1e18").as_integer(), Some(1_000_000_000_000_000_000));
        assert_eq!(quantity("1e19").as_integer(), None);
    }

    #[test]
    fn texts_that_are_no_quantities_are_refused() {
        for (text, error) in [
            ("", FORMAT),
            ("abc", FORMAT),
            ("1x", FORMAT),
            ("1ee", SUFFIX),
            ("1Kii", SUFFIX),
            ("Ei", NUMERIC),
        ] {
            assert_eq!(Quantity::parse(text), Err(error), "{text}");
        }
    }
}
