//! Quantities, bit-compatible with parsing, addition, comparison and rounding of `apimachinery/pkg/api/resource`.
//!
//! Upstream stores a quantity in one of two forms, and the form decides what happens when a result leaves the range
//! of i64. So both forms are kept. A decimal of more than about 10^29 units saturates instead of growing without
//! bound; upstream returns the low bits of such a number, which are meaningless.

mod text;

pub use text::{Amount, Format};

use std::cmp::Ordering;
use std::fmt;

/// An amount of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantity(Form);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `value * 10^scale`: upstream's `int64Amount`.
    Scaled { value: i64, scale: i32 },
    /// `unscaled / 10^scale`: upstream's `inf.Dec`, whose scale points the other way.
    Decimal { unscaled: i128, scale: i32 },
}

impl Default for Form {
    fn default() -> Self {
        Self::Scaled { value: 0, scale: 0 }
    }
}

/// Error: invalid quantity text, with upstream's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// The format is invalid.
    Format,
    /// There are no digits.
    Numeric,
    /// The suffix is unknown.
    Suffix,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Numeric => "unable to parse numeric part of quantity",
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for QuantityError {}

/// Decimal places of the smallest amount.
const NANO: i32 = 9;
/// Upstream's `maxInt64Factors`: this many decimal digits always fit an i64.
const I64_DIGITS: i64 = 18;
/// Cap of the decimal form with a binary suffix, in billionths.
const MAX_BINARY_NANO: i128 = i64::MAX as i128 * 1_000_000_000;

impl Quantity {
    /// Creates a quantity of whole units (upstream `NewQuantity`).
    pub fn whole(value: i64) -> Self {
        Self::scaled(value, 0)
    }

    /// Creates a quantity of thousandths (upstream `NewMilliQuantity`).
    pub fn milli(value: i64) -> Self {
        Self::scaled(value, -3)
    }

    fn scaled(value: i64, scale: i32) -> Self {
        Self(Form::Scaled { value, scale })
    }

    /// Parses a quantity (upstream `ParseQuantity`).
    ///
    /// # Errors
    /// If upstream rejects the text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = Parts::of(text)?;
        let suffix = Suffix::of(parts.suffix).ok_or(QuantityError::Suffix)?;
        match parts.as_scaled(suffix) {
            Some(quantity) => Ok(quantity),
            None => parts.as_decimal(suffix),
        }
    }

    /// Returns the amount in whole units, rounded up (upstream `Value`).
    pub fn value(self) -> i64 {
        self.at_scale(0)
    }

    /// Returns the amount in thousandths, rounded up (upstream `MilliValue`).
    pub fn milli_value(self) -> i64 {
        self.at_scale(-3)
    }

    /// Returns the exact amount in billionths, the smallest unit. Saturates.
    pub fn nano_value(self) -> i128 {
        let (unscaled, scale) = self.decimal();
        let places = i64::from(NANO) - i64::from(scale);
        if places >= 0 {
            shift(unscaled, places)
        } else {
            let divisor = u32::try_from(-places).ok().and_then(|places| 10_i128.checked_pow(places));
            divisor.map_or(0, |divisor| unscaled / divisor)
        }
    }

    /// Returns the amount as a float (upstream `AsApproximateFloat64`, including both roundings).
    pub fn approximately(self) -> f64 {
        let (base, exponent) = match self.0 {
            Form::Scaled { value, scale } => (value as f64, scale),
            Form::Decimal { unscaled, scale } => (unscaled as f64, scale.wrapping_neg()),
        };
        if exponent == 0 {
            return base;
        }
        base * format!("1e{exponent}").parse::<f64>().expect("a power of ten is a number")
    }

    /// Like [`Self::value`], but saturates where upstream's value wraps around or becomes 0. A request too large to
    /// represent must not count as zero or negative. Negative requests, which the API server refuses, may wrap.
    pub fn clamped_value(self) -> i64 {
        self.clamped(Self::whole, Self::value)
    }

    /// Like [`Self::milli_value`], but saturates.
    pub fn clamped_milli_value(self) -> i64 {
        self.clamped(Self::milli, Self::milli_value)
    }

    fn clamped(self, from: impl Fn(i64) -> Self, to: impl Fn(Self) -> i64) -> i64 {
        let over = |end| self.compare(from(end));
        match (over(i64::MAX), over(i64::MIN)) {
            (Ordering::Greater, _) => i64::MAX,
            (_, Ordering::Less) => i64::MIN,
            _ => to(self),
        }
    }

    /// Returns the amount in units of `10^scale`, rounded up (upstream `ScaledValue`). Outside the range of i64, it
    /// wraps or becomes 0, as upstream's does.
    fn at_scale(self, target: i32) -> i64 {
        match self.0 {
            Form::Scaled { value, scale } if scale < target => {
                divide_away_from_zero(value, target.abs_diff(scale))
            }
            Form::Scaled { value, scale } => scale_up(value, scale.wrapping_sub(target)).0,
            Form::Decimal { unscaled, .. } if unscaled.unsigned_abs() >= i128::MAX.unsigned_abs() => {
                if unscaled > 0 {
                    i64::MAX
                } else {
                    i64::MIN
                }
            }
            Form::Decimal { unscaled, scale } => decimal_at(unscaled, scale, target),
        }
    }

    /// Returns the sum (upstream `Add`).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        if let (Form::Scaled { value: a, scale: e }, Form::Scaled { value: b, scale: f }) = (self.0, other.0)
            && let Some(sum) = add_scaled((a, e), (b, f))
        {
            return sum;
        }
        let ((a, e), (b, f)) = (self.decimal(), other.decimal());
        let scale = e.max(f);
        let unscaled = shift(a, i64::from(scale) - i64::from(e));
        Self(Form::Decimal {
            unscaled: unscaled.saturating_add(shift(b, i64::from(scale) - i64::from(f))),
            scale,
        })
    }

    /// Returns the difference (upstream `Sub`).
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let negated = match other.0 {
            Form::Scaled { value, scale } if value != i64::MIN => Form::Scaled { value: -value, scale },
            Form::Scaled { value, scale } => {
                Form::Decimal { unscaled: -i128::from(value), scale: scale.wrapping_neg() }
            }
            Form::Decimal { unscaled, scale } => Form::Decimal { unscaled: unscaled.saturating_neg(), scale },
        };
        self.plus(Self(negated))
    }

    /// Whether the amount is zero.
    pub fn is_zero(self) -> bool {
        self.decimal().0 == 0
    }

    /// Returns the larger amount, or `self` if both are equal.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.compare(self) == Ordering::Greater { other } else { self }
    }

    /// Compares amounts (upstream `Cmp`). `==` compares forms instead.
    pub fn compare(self, other: Self) -> Ordering {
        let ((a, e), (b, f)) = (self.decimal(), other.decimal());
        if a.signum() != b.signum() || a == 0 {
            return a.cmp(&b);
        }
        let scale = e.max(f);
        let a = shift(a, i64::from(scale) - i64::from(e));
        a.cmp(&shift(b, i64::from(scale) - i64::from(f)))
    }

    fn decimal(self) -> (i128, i32) {
        match self.0 {
            Form::Scaled { value, scale } => (i128::from(value), scale.wrapping_neg()),
            Form::Decimal { unscaled, scale } => (unscaled, scale),
        }
    }
}

/// Returns `value * 10^places`, saturating.
fn shift(value: i128, places: i64) -> i128 {
    if value == 0 {
        return 0;
    }
    let factor = u32::try_from(places).ok().and_then(|places| 10_i128.checked_pow(places));
    factor.map_or(if value > 0 { i128::MAX } else { i128::MIN }, |factor| value.saturating_mul(factor))
}

/// Upstream's `negativeScaleInt64`.
fn divide_away_from_zero(value: i64, places: u32) -> i64 {
    let Some(divisor) = 10_i64.checked_pow(places) else { return value.signum() };
    let whole = value / divisor;
    if value % divisor == 0 { whole } else { whole + value.signum() }
}

/// Upstream's `positiveScaleInt64`: returns the product and whether it fits. An overflowed product depends on the
/// power.
fn scale_up(value: i64, places: i32) -> (i64, bool) {
    if places <= 0 || value == 0 {
        return (value, true);
    }
    let factor = u32::try_from(places).ok().and_then(|places| 10_i64.checked_pow(places));
    match factor.and_then(|factor| value.checked_mul(factor)) {
        Some(product) => (product, true),
        None if matches!(places, 1 | 2 | 3 | 6 | 9) && value != i64::MIN => {
            (value.wrapping_mul(10_i64.pow(places.unsigned_abs())), false)
        }
        None => (0, false),
    }
}

/// Upstream's `int64Amount.Add`; `None` if the sum needs the decimal form.
fn add_scaled((a, e): (i64, i32), (b, f): (i64, i32)) -> Option<Quantity> {
    if b == 0 {
        return Some(Quantity::scaled(a, e));
    }
    if a == 0 {
        return Some(Quantity::scaled(b, f));
    }
    let raised = |value, places| match scale_up(value, places) {
        (value, true) => Some(value),
        (_, false) => None,
    };
    let scale = e.min(f);
    let sum = raised(a, e.wrapping_sub(scale))?.checked_add(raised(b, f.wrapping_sub(scale))?)?;
    Some(Quantity::scaled(sum, scale))
}

/// Upstream's `scaledValue` of a decimal in units of `10^target`, including its rounding of negative amounts.
fn decimal_at(unscaled: i128, scale: i32, target: i32) -> i64 {
    let places = i64::from(scale) + i64::from(target);
    if places <= 0 {
        let power = u32::try_from(-places).ok().and_then(|places| 10_i64.checked_pow(places));
        return (unscaled as i64).wrapping_mul(power.unwrap_or(i64::MIN));
    }
    let divisor = 10_i128.pow(u32::try_from(places).expect("no decimal is finer than a billionth"));
    if unscaled < i128::from(i64::MAX) {
        let unscaled = i128::from(unscaled as i64);
        return (unscaled / divisor) as i64 + i64::from(unscaled % divisor != 0);
    }
    (unscaled.div_euclid(divisor) as i64).wrapping_add(i64::from(unscaled % divisor != 0))
}

/// The factor of a suffix.
#[derive(Clone, Copy)]
enum Suffix {
    /// A power of ten.
    Ten(i32),
    /// A power of two.
    Two(u8),
}

impl Suffix {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Ten(0),
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            // Upstream silently truncates the exponent to 32 bits.
            _ => Self::Ten(text.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32),
        })
    }
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, or "0".
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether there are any digits.
    has_digits: bool,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let rest = unsigned.trim_start_matches('0');
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !digits(exponent).1.is_empty() {
            return Err(QuantityError::Format);
        }
        Ok(Self {
            negative: text.starts_with('-'),
            whole: if whole.is_empty() { "0" } else { whole },
            fraction,
            suffix,
            has_digits: unsigned.starts_with('0') || !whole.is_empty() || !fraction.is_empty(),
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + 'a {
        self.whole.bytes().chain(self.fraction.bytes()).map(|digit| digit - b'0')
    }

    /// Returns the scaled form if upstream uses it for this text.
    fn as_scaled(&self, suffix: Suffix) -> Option<Quantity> {
        let (whole, fraction) = (self.whole.len() as i64, self.fraction.len() as i64);
        let (spare_digits, multiplier, scale) = match suffix {
            Suffix::Ten(exponent) => (I64_DIGITS - whole - fraction, 1, exponent),
            Suffix::Two(exponent) if fraction == 0 => {
                (15 - whole - i64::from(exponent) * 3 / 10 - 1, 1_i64 << exponent, 0)
            }
            Suffix::Two(_) => return None,
        };
        let scale = scale.wrapping_sub(fraction as i32);
        if spare_digits < 0 || scale < -NANO {
            return None;
        }
        let value = self.digits().fold(0_i64, |value, digit| value * 10 + i64::from(digit));
        let value = value.checked_mul(multiplier)?;
        Some(Quantity::scaled(if self.negative { -value } else { value }, scale))
    }

    /// Returns the decimal form, rounded away from zero to billionths, and capped for a binary suffix.
    fn as_decimal(&self, suffix: Suffix) -> Result<Quantity, QuantityError> {
        if !self.has_digits {
            return Err(QuantityError::Numeric);
        }
        let mut digits: Vec<u8> = self.digits().collect();
        let mut scale = self.fraction.len() as i32;
        match suffix {
            Suffix::Ten(exponent) => scale = scale.wrapping_add(exponent.wrapping_neg()),
            Suffix::Two(exponent) => (0..exponent).for_each(|_| double(&mut digits)),
        }
        let mut unscaled = nanos(&digits, scale);
        // Upstream does not round zero; its number of places later affects the rounding of negative sums.
        scale = if unscaled == 0 { scale.min(NANO) } else { NANO };
        if matches!(suffix, Suffix::Two(_)) && unscaled > MAX_BINARY_NANO {
            (unscaled, scale) = (i128::from(i64::MAX), 0);
        }
        let unscaled = if self.negative { -unscaled } else { unscaled };
        Ok(Quantity(Form::Decimal { unscaled, scale }))
    }
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Doubles a decimal number, most significant digit first.
fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let doubled = *digit * 2 + carry;
        (*digit, carry) = (doubled % 10, doubled / 10);
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

/// Returns `digits / 10^scale` in billionths, rounded up.
fn nanos(digits: &[u8], scale: i32) -> i128 {
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = &digits[zeros..];
    if digits.is_empty() {
        return 0;
    }
    // Number of digits down to billionths. Beyond the last digit, there are zeros.
    let kept = digits.len() as i64 - i64::from(scale) + i64::from(NANO);
    if kept > 39 {
        return i128::MAX;
    }
    let kept = usize::try_from(kept).unwrap_or(0);
    let at = |place: usize| i128::from(digits.get(place).copied().unwrap_or(0));
    let whole = (0..kept).fold(0_i128, |value, place| value.saturating_mul(10).saturating_add(at(place)));
    whole.saturating_add(i128::from(digits.iter().skip(kept).any(|&digit| digit != 0)))
}
