//! The natural logarithm, bit for bit as Go's `math.Log` computes it on amd64.
//!
//! PodTopologySpread weighs a topology by the logarithm of its size and rounds sums of such products, so one
//! last bit can change a score. Rust's `f64::ln` uses the platform's libm and may differ. This is the
//! algorithm of FreeBSD's `__ieee754_log`, in the order of operations of Go's `src/math/log_amd64.s`: no
//! fused multiply-add. Subnormal numbers are not scaled first; counts of domains never reach them.

use std::f64::consts::FRAC_1_SQRT_2;

/// The upper bits of ln 2: few enough that its product with any exponent is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// The remainder of ln 2 after [`LN2_HIGH`].
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

/// Coefficients of the polynomial that approximates `(ln(1 + s) - ln(1 - s) - 2s) / s`, by powers of `s^2`.
const L: [f64; 7] = [
    f64::from_bits(0x3fe5_5555_5555_5593),
    f64::from_bits(0x3fd9_9999_9997_fa04),
    f64::from_bits(0x3fd2_4924_9422_9359),
    f64::from_bits(0x3fcc_71c5_1d8e_78af),
    f64::from_bits(0x3fc7_4664_96cb_03de),
    f64::from_bits(0x3fc3_9a09_d078_c69f),
    f64::from_bits(0x3fc2_f112_df3e_5244),
];

const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
const EXPONENT: u64 = 0x7ff;
const HALF: u64 = 0x3fe << 52;

/// Go's `math.Log(x)` on amd64: −∞ for zero, NaN for negative numbers, else within one unit in the last
/// place.
pub(super) fn ln(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x < 0.0 {
        return f64::NAN;
    }
    if !x.is_finite() {
        return x;
    }
    // x = 2^k * (1 + f), with 1 + f between the root of a half and the root of two.
    let mut fraction = f64::from_bits(x.to_bits() & MANTISSA | HALF);
    let mut k = (x.to_bits() >> 52 & EXPONENT) as f64 - 1022.0;
    if fraction <= FRAC_1_SQRT_2 {
        fraction *= 2.0;
        k -= 1.0;
    }
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let even = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let r = odd + even;
    let half_square = 0.5 * f * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + r) + k * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `tests/upstream/lntable`: a number and the bits of its logarithm on each line.
    const TABLE: &str = include_str!("../../../tests/tables/spread-ln.txt");

    #[test]
    fn logarithm_equals_go_bit_for_bit() {
        let mut checked = 0;
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (x, bits) = line.split_once(' ').expect("a number and the bits of its logarithm");
            let x: f64 = x.parse().expect("a number");
            let bits = u64::from_str_radix(bits, 16).expect("bits in hexadecimal");
            assert_eq!(ln(x).to_bits(), bits, "of {x}");
            checked += 1;
        }
        assert!(checked > 2000, "the table holds {checked} rows");
    }

    #[test]
    fn logarithm_of_special_values_equals_go() {
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(-0.0), f64::NEG_INFINITY);
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan());
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert_eq!(ln(1.0), 0.0);
    }
}
