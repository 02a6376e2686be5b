//! Stored numbers as f32.

use safetensors::tensor::Dtype;

/// The numbers of `bytes`; `None` for formats that are not read.
pub fn decode(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match dtype {
        Dtype::F32 => chunks(bytes).map(f32::from_le_bytes).collect(),
        Dtype::F64 => chunks(bytes).map(|b| f64::from_le_bytes(b) as f32).collect(),
        Dtype::BF16 => chunks(bytes).map(|[a, b]| f32::from_le_bytes([0, 0, a, b])).collect(),
        Dtype::F16 => chunks(bytes).map(|b| half(u16::from_le_bytes(b))).collect(),
        Dtype::F8_E4M3 => bytes.iter().map(|&b| e4m3(b)).collect(),
        Dtype::F8_E5M2 => bytes.iter().map(|&b| half(u16::from(b) << 8)).collect(),
        Dtype::F8_E8M0 => bytes.iter().map(|&b| e8m0(b)).collect(),
        Dtype::I64 => chunks(bytes).map(|b| i64::from_le_bytes(b) as f32).collect(),
        Dtype::I32 => chunks(bytes).map(|b| i32::from_le_bytes(b) as f32).collect(),
        _ => return None,
    })
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks().0.iter().copied()
}

/// IEEE half precision; the 8-bit format E5M2 is its upper byte.
fn half(bits: u16) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = match exponent {
        0 => mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1024.0 + mantissa) * 2f32.powi(e - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// OCP E4M3: no infinity, the largest code is not a number.
fn e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let size = match (exponent, bits & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa * 2f32.powi(-9),
        (e, _) => (8.0 + mantissa) * 2f32.powi(e - 10),
    };
    if bits >> 7 == 1 { -size } else { size }
}

/// OCP E8M0: a power of two; the largest code is not a number.
pub fn e8m0(bits: u8) -> f32 {
    if bits == 255 { f32::NAN } else { 2f32.powi(i32::from(bits) - 127) }
}

/// OCP E2M1, by its four bits.
pub fn e2m1(bits: u8) -> f32 {
    const SIZES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let size = SIZES[usize::from(bits & 7)];
    if bits & 8 == 8 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hold_their_extremes() {
        assert_eq!(half(0x7bff), 65504.0);
        assert_eq!(half(0x8001), -2f32.powi(-24));
        assert_eq!(e4m3(0x7e), 448.0);
        assert_eq!(e4m3(0x01), 2f32.powi(-9));
        assert_eq!(e4m3(0x38), 1.0);
        assert!(e4m3(0xff).is_nan() && half(0x7c01).is_nan());
        assert_eq!(decode(Dtype::F8_E5M2, &[0x7b]), Some(vec![57344.0]));
        assert_eq!(decode(Dtype::BF16, &[0x80, 0x3f]), Some(vec![1.0]));
        assert_eq!(e2m1(0xf), -6.0);
        assert_eq!(e8m0(130), 8.0);
    }
}
