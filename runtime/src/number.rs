//! Numbers as they are stored: any format to f32 and back.

use shardc_ir::dtype::DType;
use std::sync::OnceLock;

/// A binary floating-point format narrower than f32.
struct Float {
    /// Stored bits of the significand.
    mantissa: u32,
    /// Stored bits of the exponent.
    exponent: u32,
    /// Largest finite number.
    max: f32,
    /// Whether larger numbers become the largest, not infinity, as engines convert to 8 and 4 bits.
    saturates: bool,
}

/// IEEE half, OCP 8-bit floats (OFP8) and OCP MX E2M1.
fn float(dtype: DType) -> Option<Float> {
    let (exponent, mantissa, max, saturates) = match dtype {
        DType::F16 => (5, 10, 65504.0, false),
        DType::F8E4M3 => (4, 3, 448.0, true),
        DType::F8E5M2 => (5, 2, 57344.0, true),
        DType::F4E2M1 => (2, 1, 6.0, true),
        _ => return None,
    };
    Some(Float { mantissa, exponent, max, saturates })
}

/// The largest finite number of a format.
pub fn largest(dtype: DType) -> f32 {
    match dtype {
        DType::I4 => 7.0,
        DType::I8 => 127.0,
        DType::U8 => 255.0,
        DType::I32 => i32::MAX as f32,
        _ => float(dtype).map_or(f32::MAX, |f| f.max),
    }
}

/// Bytes of `count` elements.
pub fn bytes_of(dtype: DType, count: usize) -> usize {
    (count.saturating_mul(dtype.bits() as usize)).div_ceil(8)
}

/// bf16 nearest to `x`, ties to even.
fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Powers of two from 2⁻¹⁴⁹ to 2¹²⁷.
fn exp2(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

impl Float {
    fn bias(&self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The code of the nearest number, ties to even.
    fn encode(&self, x: f32) -> u16 {
        let sign = u16::from(x.is_sign_negative()) << (self.mantissa + self.exponent);
        let infinity = ((1u16 << self.exponent) - 1) << self.mantissa;
        if x.is_nan() {
            return sign | infinity | ((1 << self.mantissa) - 1);
        }
        let size = f64::from(x.abs());
        let least = 1 - self.bias();
        let exponent = (((size.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(least);
        let steps = (size / exp2(exponent - self.mantissa as i32)).round_ties_even();
        let rounded = steps * exp2(exponent - self.mantissa as i32);
        if rounded > f64::from(self.max) {
            let beyond = if self.saturates { self.encode(self.max) } else { infinity };
            return sign | beyond;
        }
        // Steps of a normal number begin at 2^mantissa, which is the next exponent's first code.
        let code = steps as u32 + (((exponent - least) as u32) << self.mantissa);
        sign | code as u16
    }

    fn decode(&self, code: u16) -> f32 {
        let mantissa = u32::from(code) & ((1 << self.mantissa) - 1);
        let exponent = (u32::from(code) >> self.mantissa) & ((1 << self.exponent) - 1);
        let negative = code >> (self.mantissa + self.exponent) & 1 == 1;
        let last = exponent == (1 << self.exponent) - 1;
        let least = 1 - self.bias();
        let ieee = !self.saturates || self.mantissa == 2;
        let size = match (exponent, mantissa) {
            (_, 0) if last && ieee => f32::INFINITY,
            _ if last && ieee => f32::NAN,
            (15, 7) if self.mantissa == 3 => f32::NAN,
            (0, m) => (f64::from(m) * exp2(least - self.mantissa as i32)) as f32,
            (e, m) => {
                let steps = f64::from(m + (1 << self.mantissa));
                (steps * exp2(e as i32 - 1 + least - self.mantissa as i32)) as f32
            }
        };
        if negative { -size } else { size }
    }
}

/// Widens stored elements; `out` says how many. Integers and truth values become numbers too.
///
/// `first` is the number of the first element: formats of 4 bits may begin inside a byte.
pub fn widen(dtype: DType, bytes: &[u8], first: usize, out: &mut [f32]) {
    let past = first + out.len();
    let at = |size: usize| &bytes[first * size..past * size];
    match dtype {
        DType::Bf16 => {
            for (x, b) in out.iter_mut().zip(at(2).as_chunks::<2>().0) {
                *x = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
            }
        }
        DType::F32 => {
            for (x, b) in out.iter_mut().zip(at(4).as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*b);
            }
        }
        DType::F8E4M3 | DType::F8E5M2 => {
            let numbers = bytes_as_numbers(dtype);
            out.iter_mut().zip(at(1)).for_each(|(x, &b)| *x = numbers[usize::from(b)]);
        }
        _ => {
            for (i, x) in out.iter_mut().enumerate() {
                *x = one(dtype, bytes, first + i);
            }
        }
    }
}

/// The numbers of all codes of an 8-bit float.
fn bytes_as_numbers(dtype: DType) -> &'static [f32; 256] {
    static TABLES: [OnceLock<[f32; 256]>; 2] = [const { OnceLock::new() }; 2];
    let table = &TABLES[usize::from(dtype == DType::F8E5M2)];
    table.get_or_init(|| std::array::from_fn(|code| one(dtype, &[code as u8], 0)))
}

/// Element `i` of stored elements.
fn one(dtype: DType, bytes: &[u8], i: usize) -> f32 {
    let code = || match dtype.bits() {
        4 => u16::from(bytes[i / 2] >> (4 * (i % 2)) & 15),
        8 => u16::from(bytes[i]),
        _ => u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]),
    };
    if let Some(format) = float(dtype) {
        return format.decode(code());
    }
    match dtype {
        DType::F8E8M0 if bytes[i] == 255 => f32::NAN,
        DType::F8E8M0 => exp2(i32::from(bytes[i]) - 127) as f32,
        _ => integer(dtype, bytes, i) as f32,
    }
}

fn integer(dtype: DType, bytes: &[u8], i: usize) -> i64 {
    match dtype {
        DType::I4 => {
            let code = (bytes[i / 2] >> (4 * (i % 2)) & 15) as i8;
            i64::from(code << 4 >> 4)
        }
        DType::I8 => i64::from(bytes[i] as i8),
        DType::I32 => bytes.as_chunks::<4>().0.get(i).map_or(0, |&b| i32::from_le_bytes(b).into()),
        DType::I64 => bytes.as_chunks::<8>().0.get(i).map_or(0, |&b| i64::from_le_bytes(b)),
        _ => i64::from(bytes[i]),
    }
}

/// Stored elements as whole numbers; floats towards zero.
pub fn integers(dtype: DType, bytes: &[u8], count: usize) -> Vec<i64> {
    match dtype {
        _ if dtype.is_float() || dtype == DType::F8E8M0 => {
            (0..count).map(|i| one_of(dtype, bytes, i) as i64).collect()
        }
        _ => (0..count).map(|i| integer(dtype, bytes, i)).collect(),
    }
}

fn one_of(dtype: DType, bytes: &[u8], i: usize) -> f32 {
    let mut x = [0.0];
    widen(dtype, bytes, i, &mut x);
    x[0]
}

/// Stores numbers: floats to the nearest, even in a tie; integers towards zero and limited to their
/// range; truth values 0 and 1.
pub fn narrow(dtype: DType, numbers: &[f32], bytes: &mut [u8]) {
    match dtype {
        DType::Bf16 => {
            for (b, &x) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
                *b = bf16(x).to_le_bytes();
            }
        }
        DType::F32 => {
            for (b, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
                *b = x.to_le_bytes();
            }
        }
        _ => {
            for (i, &x) in numbers.iter().enumerate() {
                match float(dtype) {
                    Some(format) => put(dtype, bytes, i, i64::from(format.encode(x))),
                    None if dtype == DType::F8E8M0 => put(dtype, bytes, i, exponent(x)),
                    None if dtype == DType::Bool => put(dtype, bytes, i, i64::from(x != 0.0)),
                    None => put(dtype, bytes, i, limited(dtype, x as i64)),
                }
            }
        }
    }
}

/// Code of the power of two nearest to `x`.
fn exponent(x: f32) -> i64 {
    if x.is_nan() { 255 } else { (x.abs().log2().round().clamp(-127.0, 127.0) as i64) + 127 }
}

/// Stores whole numbers, limited to the format's range.
pub fn store_integers(dtype: DType, numbers: &[i64], bytes: &mut [u8]) {
    if dtype.is_float() {
        let numbers: Vec<f32> = numbers.iter().map(|&n| n as f32).collect();
        return narrow(dtype, &numbers, bytes);
    }
    for (i, &n) in numbers.iter().enumerate() {
        put(dtype, bytes, i, limited(dtype, n));
    }
}

fn limited(dtype: DType, n: i64) -> i64 {
    match dtype {
        DType::I4 => n.clamp(-8, 7),
        DType::I8 => n.clamp(-128, 127),
        DType::I32 => n.clamp(i32::MIN.into(), i32::MAX.into()),
        DType::U8 => n.clamp(0, 255),
        DType::Bool => i64::from(n != 0),
        _ => n,
    }
}

/// Writes the low bits of a code.
fn put(dtype: DType, bytes: &mut [u8], i: usize, code: i64) {
    match dtype.bits() {
        4 => {
            let shift = 4 * (i % 2);
            bytes[i / 2] = bytes[i / 2] & !(15 << shift) | (code as u8 & 15) << shift;
        }
        bits => {
            let size = bits as usize / 8;
            bytes[i * size..(i + 1) * size].copy_from_slice(&code.to_le_bytes()[..size]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(dtype: DType, x: f32) -> f32 {
        let mut bytes = vec![0; 8];
        narrow(dtype, &[x], &mut bytes);
        one_of(dtype, &bytes, 0)
    }

    #[test]
    fn formats_round_as_specified() {
        let cases = [
            (1.003_906_3, DType::Bf16, 1.0),
            (1.011_718_8, DType::Bf16, 1.015625),
            (65520.0, DType::F16, f32::INFINITY),
            (65519.0, DType::F16, 65504.0),
            (5.960_464_5e-8, DType::F16, 5.960_464_5e-8),
            (2.0e-8, DType::F16, 0.0),
            (500.0, DType::F8E4M3, 448.0),
            (0.001953125, DType::F8E4M3, 0.001953125),
            (0.0009765625, DType::F8E4M3, 0.0),
            (70000.0, DType::F8E5M2, 57344.0),
            (-2.4, DType::F4E2M1, -2.0),
            (2.5, DType::F4E2M1, 2.0),
            (3.1, DType::F8E8M0, 4.0),
            (-2.7, DType::I32, -2.0),
            (-9.0, DType::I4, -8.0),
            (0.1, DType::F32, 0.1),
        ];
        for (x, dtype, rounded) in cases {
            assert_eq!(stored(dtype, x), rounded, "{x} to {dtype}");
        }
        for dtype in [DType::Bf16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F32] {
            assert!(stored(dtype, f32::NAN).is_nan(), "{dtype}");
        }
    }

    #[test]
    fn formats_hold_their_extremes() {
        let cases: [(DType, &[u8], f32); 8] = [
            (DType::F16, &[0xff, 0x7b], 65504.0),
            (DType::F16, &[0x01, 0x80], -5.960_464_5e-8),
            (DType::F8E4M3, &[0x7e], 448.0),
            (DType::F8E4M3, &[0x01], 0.001_953_125),
            (DType::F8E5M2, &[0x7b], 57344.0),
            (DType::Bf16, &[0x80, 0x3f], 1.0),
            (DType::F4E2M1, &[0x0f], -6.0),
            (DType::F8E8M0, &[130], 8.0),
        ];
        for (dtype, bytes, number) in cases {
            assert_eq!(one_of(dtype, bytes, 0), number, "{dtype}");
        }
        assert!(one_of(DType::F8E4M3, &[0xff], 0).is_nan());
        assert!(one_of(DType::F16, &[0x01, 0x7c], 0).is_nan());
    }

    #[test]
    fn every_code_survives() {
        for dtype in [DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F4E2M1] {
            let format = float(dtype).map(|f| (f.mantissa + f.exponent + 1, f));
            let Some((bits, format)) = format else { continue };
            for code in 0..(1u32 << bits) as usize {
                let x = format.decode(code as u16);
                if x.is_finite() {
                    assert_eq!(format.encode(x), code as u16, "{dtype} {code:x} {x}");
                }
            }
        }
    }
}
