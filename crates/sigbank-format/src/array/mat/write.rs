//! Writing one variable, uncompressed.

use super::{COMPLEX, HEADER, LOGICAL, class, element, variable_name};
use crate::array::npy::{ColumnOrder, swap};
use crate::error::{FormatError, Result};
use crate::model::{Array, Kind};
use std::borrow::Cow;

/// Most bytes of a variable's elements (MATLAB reads no more from a level 5 file).
const MOST: usize = (1 << 31) - 1;

/// An array as the bytes of a MAT-file that holds it as one variable: of the name that [`variable_name`] gives.
///
/// A scalar has the shape (1, 1) there, a vector of n (1, n), an empty one (0, 0); float16 is stored as double.
///
/// # Errors
/// Unsupported for dtypes that MATLAB has not, Limit for 2 GiB and more.
pub fn to_bytes(name: &str, array: &Array) -> Result<Vec<u8>> {
    let dtype = array.dtype();
    let numbers = native(array);
    let (class, ty, flags, width, parts): (u8, u32, u8, usize, usize) = match (dtype.kind(), dtype.itemsize()) {
        (Kind::Bool, 1) => (class::UINT8, element::UINT8, LOGICAL, 1, 1),
        (Kind::Int, 1) => (class::INT8, element::INT8, 0, 1, 1),
        (Kind::UInt, 1) => (class::UINT8, element::UINT8, 0, 1, 1),
        (Kind::Int, 2) => (class::INT16, element::INT16, 0, 2, 1),
        (Kind::UInt, 2) => (class::UINT16, element::UINT16, 0, 2, 1),
        (Kind::Int, 4) => (class::INT32, element::INT32, 0, 4, 1),
        (Kind::UInt, 4) => (class::UINT32, element::UINT32, 0, 4, 1),
        (Kind::Int, 8) => (class::INT64, element::INT64, 0, 8, 1),
        (Kind::UInt, 8) => (class::UINT64, element::UINT64, 0, 8, 1),
        (Kind::Float, 4) => (class::SINGLE, element::SINGLE, 0, 4, 1),
        (Kind::Float, 2 | 8) => (class::DOUBLE, element::DOUBLE, 0, 8, 1),
        (Kind::Complex, 8) => (class::SINGLE, element::SINGLE, COMPLEX, 4, 2),
        (Kind::Complex, 16) => (class::DOUBLE, element::DOUBLE, COMPLEX, 8, 2),
        _ => {
            return Err(FormatError::unsupported(format!("mat files hold no {} arrays: cast it, or write npy", dtype.name())));
        }
    };
    let shape = matlab_shape(array.shape());
    let count: usize = array.count();
    if count.saturating_mul(width) > MOST || shape.iter().any(|&n| i32::try_from(n).is_err()) {
        return Err(FormatError::limit(format!(
            "an array of shape {:?} and {} bytes, where a variable of a mat file has at most {MOST}: write npy",
            array.shape(),
            array.data().len()
        )));
    }
    let ordered = column_major(&numbers, array.shape(), width * parts);
    let mut matrix = Vec::with_capacity(ordered.len() + 256);
    put(&mut matrix, element::UINT32, &[u32::from(class) | u32::from(flags) << 8, 0].map(u32::to_le_bytes).concat());
    let dimensions: Vec<u8> = shape.iter().flat_map(|&n| (n as i32).to_le_bytes()).collect();
    put(&mut matrix, element::INT32, &dimensions);
    // As SciPy writes names: Latin-1, which `variable_name` gives.
    put(&mut matrix, element::INT8, &variable_name(name).chars().map(|c| c as u8).collect::<Vec<u8>>());
    for part in 0..parts {
        match parts {
            1 => put(&mut matrix, ty, &ordered),
            _ => {
                let half: Vec<u8> = ordered.chunks_exact(width).skip(part).step_by(2).flatten().copied().collect();
                put(&mut matrix, ty, &half);
            }
        }
    }
    let mut file = Vec::with_capacity(HEADER + 8 + matrix.len());
    file.extend_from_slice(b"MATLAB 5.0 MAT-file, written by sigbank");
    file.resize(HEADER - 12, b' ');
    file.resize(HEADER - 4, 0);
    file.extend_from_slice(&[0x00, 0x01, b'I', b'M']);
    put(&mut file, element::MATRIX, &matrix);
    Ok(file)
}

fn put(out: &mut Vec<u8>, ty: u32, bytes: &[u8]) {
    out.extend_from_slice(&ty.to_le_bytes());
    // Bounded by MOST, twice, and the little before.
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// As MATLAB has shapes: at least two axes.
fn matlab_shape(shape: &[usize]) -> Vec<usize> {
    match *shape {
        [] => vec![1, 1],
        [0] => vec![0, 0],
        [n] => vec![1, n],
        _ => shape.to_vec(),
    }
}

/// The elements little-endian, float16 as float64.
fn native(array: &Array) -> Cow<'_, [u8]> {
    let (data, dtype) = (array.data(), array.dtype());
    let mut out = Cow::Borrowed(&data[..]);
    if dtype.is_big_endian() {
        swap(out.to_mut(), dtype.swap_width());
    }
    if (dtype.kind(), dtype.itemsize()) == (Kind::Float, 2) {
        let wide = out.as_chunks::<2>().0.iter().flat_map(|h| half_to_f64(u16::from_le_bytes(*h)).to_le_bytes());
        out = Cow::Owned(wide.collect());
    }
    out
}

/// IEEE 754 half precision, exactly.
fn half_to_f64(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Elements in C order as MATLAB's, first axis fastest.
fn column_major<'a>(data: &'a [u8], shape: &[usize], item: usize) -> Cow<'a, [u8]> {
    if shape.iter().filter(|&&n| n != 1).count() < 2 || data.is_empty() {
        return Cow::Borrowed(data);
    }
    let tail = shape.get(1..).unwrap_or_default();
    let columns: usize = tail.iter().product();
    let mut order = ColumnOrder::new(tail);
    let mut out = Vec::with_capacity(data.len());
    for _ in 0..columns {
        let column = data.chunks_exact(item).skip(order.next_place()).step_by(columns);
        out.extend(column.flatten());
    }
    Cow::Owned(out)
}
