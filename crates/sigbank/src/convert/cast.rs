//! From the elements of a file to the elements that are stored.

use crate::error::{Error, Result};
use half::f16;
use sigbank_format::model::{DType, Kind};

/// Which channels of a recording are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channels {
    /// All of them; the files must agree in their number.
    #[default]
    All,
    /// Their mean, as one.
    Mono,
    /// One, counted from 0.
    One(usize),
}

/// Turns rows of one dtype into rows of another, and channels into those kept. Every value must be representable: an
/// integer out of range or between two floats, a fraction that would become an integer and a number that would become
/// infinite are refused; rounding of floats is not.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    from: DType,
    to: DType,
    channels: Channels,
    /// Elements of one row of the file.
    width: usize,
}

/// One element on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl Cast {
    /// A cast of rows of `width` elements; with [`Channels::All`], `width` may be anything.
    pub(super) fn new(from: &DType, to: &DType, channels: Channels, width: usize) -> Result<Self> {
        let number = |t: &DType| {
            matches!(t.kind(), Kind::Int | Kind::UInt | Kind::Float | Kind::Complex) && t.itemsize() <= 16 && !is_long_double(t)
        };
        if from != to && !(number(from) && number(to)) {
            return Err(Error::invalid(format!("{} is not turned into {}", from.name(), to.name()))
                .remedy("leave --dtype out to keep the dtype of the files"));
        }
        if channels == Channels::Mono && !(number(from) && matches!(to.kind(), Kind::Float | Kind::Complex)) {
            return Err(Error::invalid(format!("the mean of the channels is no {}", to.name()))
                .remedy("take one channel with --channel, or choose --dtype float32"));
        }
        match channels {
            Channels::One(c) if c >= width => {
                Err(Error::invalid(format!("channel {c} is asked for, but there are {width}, counted from 0"))
                    .remedy("choose another with --channel"))
            }
            _ => Ok(Self { from: from.clone(), to: to.clone(), channels, width: width.max(1) }),
        }
    }

    /// Appends the rows in `bytes` to `out`, as they are stored. The error names the element; its caller the file.
    pub(super) fn apply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if self.from == self.to && self.channels == Channels::All {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let size = self.from.itemsize();
        let put = |number: Number, out: &mut Vec<u8>| {
            encode(&self.to, number, out).ok_or_else(|| {
                let value = match number {
                    Number::Int(i) => i.to_string(),
                    Number::Float(f) if f.abs() >= 1e16 => format!("{f:e}"),
                    Number::Float(f) => f.to_string(),
                    Number::Complex(re, im) => format!("{re}{im:+}j"),
                };
                Error::invalid(format!("the value {value} ({}) does not fit {}", self.from.name(), self.to.name()))
                    .remedy("choose a dtype that holds every value with --dtype")
            })
        };
        for row in bytes.chunks_exact(size * self.width) {
            match self.channels {
                Channels::All => {
                    for element in row.chunks_exact(size) {
                        put(decode(&self.from, element), out)?;
                    }
                }
                Channels::One(c) => {
                    let element = row.get(c * size..(c + 1) * size).unwrap_or_default();
                    if self.from == self.to {
                        out.extend_from_slice(element);
                    } else {
                        put(decode(&self.from, element), out)?;
                    }
                }
                Channels::Mono => {
                    let mut sum = (0.0, 0.0);
                    for element in row.chunks_exact(size) {
                        let (re, im) = parts(decode(&self.from, element));
                        sum = (sum.0 + re, sum.1 + im);
                    }
                    let n = self.width as f64;
                    let complex = self.from.kind() == Kind::Complex;
                    put(if complex { Number::Complex(sum.0 / n, sum.1 / n) } else { Number::Float(sum.0 / n) }, out)?;
                }
            }
        }
        Ok(())
    }
}

/// The values of numbers as float64, for looking at them: of a complex number its magnitude, of a bool 0 or 1. None for
/// text, dates and raw bytes.
///
/// ```
/// let bytes: Vec<u8> = [-2i16, 7].iter().flat_map(|v| v.to_le_bytes()).collect();
/// assert_eq!(sigbank::convert::magnitudes(&"int16".parse()?, &bytes), Some(vec![-2.0, 7.0]));
/// assert_eq!(sigbank::convert::magnitudes(&"S2".parse()?, b"ab"), None);
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn magnitudes(dtype: &DType, bytes: &[u8]) -> Option<Vec<f64>> {
    let numeric = matches!(dtype.kind(), Kind::Bool | Kind::Int | Kind::UInt | Kind::Float | Kind::Complex);
    if !numeric || is_long_double(dtype) {
        return None;
    }
    // Those of which there are many.
    if !dtype.is_big_endian() {
        match (dtype.kind(), dtype.itemsize()) {
            (Kind::Float, 8) => return Some(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
            (Kind::Float, 4) => return Some(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()),
            (Kind::Int, 2) => return Some(bytes.as_chunks().0.iter().map(|b| f64::from(i16::from_le_bytes(*b))).collect()),
            _ => {}
        }
    }
    let value = |element| match decode(dtype, element) {
        Number::Int(i) => i as f64,
        Number::Float(f) => f,
        Number::Complex(re, im) => re.hypot(im),
    };
    Some(bytes.chunks_exact(dtype.itemsize()).map(value).collect())
}

/// 16 bytes that mean something else on each platform.
fn is_long_double(t: &DType) -> bool {
    (t.kind() == Kind::Float && t.itemsize() == 16) || (t.kind() == Kind::Complex && t.itemsize() == 32)
}

fn parts(number: Number) -> (f64, f64) {
    match number {
        Number::Int(i) => (i as f64, 0.0),
        Number::Float(f) => (f, 0.0),
        Number::Complex(re, im) => (re, im),
    }
}

/// The first bytes as an array, zeros where there are too few.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().zip(bytes).for_each(|(o, b)| *o = *b);
    out
}

fn decode(t: &DType, bytes: &[u8]) -> Number {
    let mut element: [u8; 16] = array(bytes);
    if t.is_big_endian() {
        let width = t.swap_width();
        element.chunks_exact_mut(width).take(t.itemsize() / width).for_each(<[u8]>::reverse);
    }
    let float = |bytes: &[u8], size| match size {
        2 => f64::from(f16::from_le_bytes(array(bytes))),
        4 => f64::from(f32::from_le_bytes(array(bytes))),
        _ => f64::from_le_bytes(array(bytes)),
    };
    match (t.kind(), t.itemsize()) {
        (Kind::Int, n) => {
            let shift = 64 - 8 * n as u32;
            Number::Int(i128::from((u64::from_le_bytes(array(&element)) << shift) as i64 >> shift))
        }
        (Kind::Complex, n) => {
            let (re, im) = element.split_at(n / 2);
            Number::Complex(float(re, n / 2), float(im, n / 2))
        }
        (Kind::Float, n) => Number::Float(float(&element, n)),
        _ => Number::Int(i128::from(u64::from_le_bytes(array(&element)))),
    }
}

/// Appends a number as little-endian `t`; none where it does not fit.
fn encode(t: &DType, number: Number, out: &mut Vec<u8>) -> Option<()> {
    let size = t.itemsize();
    let float = |f: f64, size: usize, out: &mut Vec<u8>| {
        let stored = match size {
            2 => f64::from(f16::from_f64(f)),
            4 => f64::from(f as f32),
            _ => f,
        };
        if f.is_finite() && !stored.is_finite() {
            return None;
        }
        // 2^64 and what else is out of an integer's range is in that of i128, so that the cast is exact.
        if matches!(number, Number::Int(whole) if stored as i128 != whole) {
            return None;
        }
        match size {
            2 => out.extend(f16::from_f64(f).to_le_bytes()),
            4 => out.extend((f as f32).to_le_bytes()),
            _ => out.extend(f.to_le_bytes()),
        }
        Some(())
    };
    match (t.kind(), number) {
        (Kind::Int | Kind::UInt, n) => {
            let whole = match n {
                Number::Int(i) => i,
                // Both bounds are far outside 64 bits and exact, so the cast cannot saturate unnoticed.
                Number::Float(f) if f.fract() == 0.0 && f.abs() < 1e30 => f as i128,
                _ => return None,
            };
            let bits = 8 * size as u32;
            let (low, high) = if t.kind() == Kind::Int {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            } else {
                (0, (1i128 << bits) - 1)
            };
            if !(low..=high).contains(&whole) {
                return None;
            }
            out.extend(whole.to_le_bytes().iter().take(size));
            Some(())
        }
        (Kind::Complex, Number::Complex(re, im)) => {
            float(re, size / 2, out)?;
            float(im, size / 2, out)
        }
        (Kind::Complex, n) => {
            float(parts(n).0, size / 2, out)?;
            out.extend(std::iter::repeat_n(0, size / 2));
            Some(())
        }
        (_, Number::Complex(..)) => None,
        (_, n) => float(parts(n).0, size, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(from: &str, to: &str, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Cast::new(&from.parse().unwrap(), &to.parse().unwrap(), Channels::All, 1)?.apply(bytes, &mut out)?;
        Ok(out)
    }
    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn values_are_kept() {
        assert_eq!(cast(">i2", "float32", &[0xff, 0xfe, 0x01, 0x00]).unwrap(), f32s(&[-2.0, 256.0]));
        assert_eq!(cast("float32", "int8", &f32s(&[-128.0, 127.0])).unwrap(), [0x80, 0x7f]);
        assert_eq!(cast("uint64", "uint32", &0xffff_ffffu64.to_le_bytes()).unwrap(), [0xff; 4]);
        let large = u64::MAX << 11;
        assert_eq!(cast("uint64", "float64", &large.to_le_bytes()).unwrap(), (large as f64).to_le_bytes());
        assert_eq!(cast("int16", "complex64", &(-7i16).to_le_bytes()).unwrap(), f32s(&[-7.0, 0.0]));
        assert_eq!(cast("float16", "float32", &[0x00, 0xc0]).unwrap(), f32s(&[-2.0]));
        assert_eq!(cast("float64", "float16", &0.5f64.to_le_bytes()).unwrap(), [0x00, 0x38]);
        assert_eq!(cast("float32", "complex64", &f32s(&[3.0])).unwrap(), f32s(&[3.0, 0.0]));
        assert_eq!(cast(">c8", "complex64", &[0x3f, 0x80, 0, 0, 0xbf, 0x80, 0, 0]).unwrap(), f32s(&[1.0, -1.0]));
        assert!(
            f32::from_le_bytes(cast("float64", "float32", &f64::NAN.to_le_bytes()).unwrap()[..].try_into().unwrap()).is_nan()
        );
        assert_eq!(cast("float64", "float32", &f64::INFINITY.to_le_bytes()).unwrap(), f32s(&[f32::INFINITY]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (from, to, bytes, shown) in [
            ("int16", "int8", 128i16.to_le_bytes().to_vec(), "128 (int16)"),
            ("int8", "uint8", vec![0xff], "-1"),
            ("float32", "int32", f32s(&[0.5]), "0.5"),
            ("float32", "int64", f32s(&[f32::NAN]), "NaN"),
            ("float32", "int64", f32s(&[1e20]), "1.0000000200408773e20"),
            ("float64", "float32", 1e300f64.to_le_bytes().to_vec(), "float32"),
            ("float32", "float16", f32s(&[70000.0]), "70000"),
            ("complex64", "float32", f32s(&[1.0, 0.0]), "1+0j"),
            ("uint64", "float64", u64::MAX.to_le_bytes().to_vec(), "18446744073709551615 (uint64) does not fit float64"),
            ("int64", "float64", (-(1i64 << 53) - 1).to_le_bytes().to_vec(), "-9007199254740993"),
            ("int32", "float32", ((1i32 << 24) + 1).to_le_bytes().to_vec(), "16777217"),
            ("uint16", "float16", 2049u16.to_le_bytes().to_vec(), "2049"),
            ("int32", "complex64", i32::MAX.to_le_bytes().to_vec(), "2147483647"),
        ] {
            let e = cast(from, to, &bytes).unwrap_err();
            assert!(e.message().contains(shown), "{from} to {to}: {e}");
        }
        for (from, to) in
            [("S5", "float32"), ("bool", "uint8"), ("float32", "bool"), ("M8[ns]", "int64"), ("longdouble", "float32")]
        {
            assert!(cast(from, to, &[]).is_err(), "{from} to {to}");
        }
        assert_eq!(cast("S2", "S2", b"ab").unwrap(), b"ab");
    }

    #[test]
    fn channels_are_mixed_or_picked() {
        let stereo = f32s(&[1.0, 3.0, -1.0, 0.0]);
        let of = |channels, to: &str| {
            let mut out = Vec::new();
            Cast::new(&"float32".parse().unwrap(), &to.parse().unwrap(), channels, 2)
                .and_then(|c| c.apply(&stereo, &mut out))
                .map(|()| out)
        };
        assert_eq!(of(Channels::Mono, "float32").unwrap(), f32s(&[2.0, -0.5]));
        assert_eq!(of(Channels::One(1), "float32").unwrap(), f32s(&[3.0, 0.0]));
        assert_eq!(of(Channels::One(0), "int8").unwrap(), [1, 0xff]);
        assert!(of(Channels::One(2), "float32").unwrap_err().message().contains("there are 2"));
        assert!(of(Channels::Mono, "int8").is_err());
    }
}
