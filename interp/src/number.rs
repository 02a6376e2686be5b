//! Rounding to the number formats of storage.

use shardc_ir::dtype::DType;

/// How exactly numbers are kept between operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Every result as computed, in f64, whatever its element type.
    #[default]
    Exact,
    /// Every result rounded to its element type; sums inside an operator are f64.
    Stored,
}

/// A binary floating-point format.
struct Float {
    /// Stored bits of the significand.
    mantissa: i32,
    /// Exponent of the smallest normal number.
    least: i32,
    /// Largest finite number.
    max: f64,
    /// Whether larger numbers become the largest, not infinity.
    saturates: bool,
}

/// The formats narrower than f32: bfloat16, IEEE half, OCP 8-bit floats (OFP8) and OCP MX E2M1.
/// Conversions to 8 and 4 bits saturate, as engines convert.
fn float(dtype: DType) -> Option<Float> {
    let (mantissa, least, max, saturates) = match dtype {
        DType::Bf16 => (7, -126, 3.3895313892515355e38, false),
        DType::F16 => (10, -14, 65504.0, false),
        DType::F8E4M3 => (3, -6, 448.0, true),
        DType::F8E5M2 => (2, -14, 57344.0, true),
        DType::F4E2M1 => (1, 0, 6.0, true),
        _ => return None,
    };
    Some(Float { mantissa, least, max, saturates })
}

/// The largest finite number of a format.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::I4 => 7.0,
        DType::I8 => 127.0,
        DType::U8 => 255.0,
        DType::I32 => f64::from(i32::MAX),
        _ => float(dtype).map_or(f64::from(f32::MAX), |f| f.max),
    }
}

/// The number of a format nearest to `x`: floats to even in a tie, integers towards zero and
/// limited to their range, truth values 0 and 1.
pub fn round(x: f64, dtype: DType) -> f64 {
    let whole = |lo: f64, hi: f64| x.trunc().clamp(lo, hi);
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F8E8M0 => power_of_two(x),
        DType::I4 => whole(-8.0, 7.0),
        DType::I8 => whole(-128.0, 127.0),
        DType::U8 => whole(0.0, 255.0),
        DType::I32 => whole(f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::I64 => x.trunc(),
        DType::Bool => f64::from(u8::from(x != 0.0)),
        _ => float(dtype).map_or(x, |format| format.round(x)),
    }
}

/// `x` as a number of [`Precision`].
pub(crate) fn kept(x: f64, dtype: DType, precision: Precision) -> f64 {
    if precision == Precision::Exact && dtype.is_float() { x } else { round(x, dtype) }
}

impl Float {
    fn round(&self, x: f64) -> f64 {
        if x == 0.0 || !x.is_finite() {
            return if x.is_infinite() { self.beyond(x) } else { x };
        }
        let quantum = exp2(exponent(x).max(self.least) - self.mantissa);
        let y = (x / quantum).round_ties_even() * quantum;
        if y.abs() > self.max { self.beyond(x) } else { y }
    }

    fn beyond(&self, x: f64) -> f64 {
        if self.saturates { self.max.copysign(x) } else { f64::INFINITY.copysign(x) }
    }
}

/// `⌊log2 |x|⌋` of a normal number.
fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

fn exp2(n: i32) -> f64 {
    f64::from(n).exp2()
}

/// The nearest power of two from 2⁻¹²⁷ to 2¹²⁷.
fn power_of_two(x: f64) -> f64 {
    if x.is_nan() { x } else { x.abs().log2().round().clamp(-127.0, 127.0).exp2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_round_as_specified() {
        let cases = [
            (1.00390625, DType::Bf16, 1.0),
            (1.01171875, DType::Bf16, 1.015625),
            (65520.0, DType::F16, f64::INFINITY),
            (65519.0, DType::F16, 65504.0),
            (5.960464477539063e-8, DType::F16, 5.960464477539063e-8),
            (500.0, DType::F8E4M3, 448.0),
            (0.001953125, DType::F8E4M3, 0.001953125),
            (0.0009765625, DType::F8E4M3, 0.0),
            (-2.4, DType::F4E2M1, -2.0),
            (2.5, DType::F4E2M1, 2.0),
            (3.1, DType::F8E8M0, 4.0),
            (-2.7, DType::I32, -2.0),
            (0.1, DType::F32, 0.10000000149011612),
        ];
        for (x, dtype, rounded) in cases {
            assert_eq!(round(x, dtype), rounded, "{x} to {dtype}");
        }
        assert!(round(f64::NAN, DType::Bf16).is_nan());
    }
}
