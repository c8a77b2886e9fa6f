//! The header of an npy file: a Python dict literal, of which exactly what NumPy writes is taken.

use super::literal::{self, Literal};
use crate::error::{FormatError, Result};
use crate::limits::{MAX_ARRAY_BYTES, MAX_NPY_HEADER};
use crate::model::{DType, Kind};
use crate::read_at::ReadAt;

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy starts the data at a multiple of this.
const ALIGN: usize = 64;
/// NumPy leaves room for the first axis to grow to so many digits without moving the data.
const GROWTH_DIGITS: usize = 21;

/// What a header says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub dtype: DType,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
    /// Where the elements start.
    pub data_start: u64,
}

impl Header {
    pub(super) fn read(src: &dyn ReadAt) -> Result<Self> {
        let (text, data_start) = text(src)?;
        let Literal::Dict(entries) = literal::parse(&text)? else {
            return Err(FormatError::corrupt(format!("the npy header is not a dict but: {}", excerpt(&text))));
        };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        for (key, value) in &entries {
            let slot = match key {
                Literal::Str(k) if k == "descr" => &mut descr,
                Literal::Str(k) if k == "fortran_order" => &mut fortran_order,
                Literal::Str(k) if k == "shape" => &mut shape,
                other => return Err(FormatError::corrupt(format!("the npy header holds the unknown key {other}"))),
            };
            if slot.replace(value).is_some() {
                return Err(FormatError::corrupt(format!("the npy header holds the key {key} twice")));
            }
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(FormatError::corrupt(format!(
                "the npy header lacks one of descr, fortran_order and shape: {}",
                excerpt(&text)
            )));
        };
        let Literal::Bool(fortran_order) = *fortran_order else {
            return Err(FormatError::corrupt(format!(
                "the npy header's fortran_order is neither True nor False but {fortran_order}"
            )));
        };
        Ok(Self { dtype: dtype(descr)?, fortran_order, shape: lengths(shape)?, data_start })
    }
}

/// The header's text, and where the data start.
fn text(src: &dyn ReadAt) -> Result<(String, u64)> {
    let head = crate::array::source::read_up_to(src, 0, 12)?;
    let cut = || {
        FormatError::corrupt(format!(
            "an npy file starts with a header of at least {ALIGN} bytes, but {} bytes are there: the file was cut short",
            src.size()
        ))
    };
    if !head.starts_with(MAGIC.get(..head.len().min(MAGIC.len())).unwrap_or(MAGIC)) {
        return Err(FormatError::corrupt("this is no npy file: it does not start with \\x93NUMPY"));
    }
    // Byte 6 is the major version, 7 the minor; the length of the text follows in two bytes or, from version 2 on, in four.
    let (len, start) = match head.get(MAGIC.len()..) {
        Some([1, 0, a, b, ..]) => (usize::from(u16::from_le_bytes([*a, *b])), 10),
        Some([2 | 3, 0, a, b, c, d, ..]) => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12),
        Some([1..=3, 0, ..]) | Some([] | [_]) | None => return Err(cut()),
        Some([major, minor, ..]) => {
            return Err(FormatError::unsupported(format!("npy format version {major}.{minor}; 1.0, 2.0 and 3.0 are read")));
        }
    };
    if len > MAX_NPY_HEADER {
        return Err(FormatError::limit(format!("an npy header of {len} bytes (at most {MAX_NPY_HEADER} are read)")));
    }
    let bytes = crate::array::source::read_up_to(src, start, len)?;
    if bytes.len() < len {
        return Err(FormatError::corrupt(format!(
            "an npy header of {len} bytes is expected at offset {start}, but the file has {} bytes: it was cut short",
            src.size()
        )));
    }
    let utf8 = head.get(MAGIC.len()) == Some(&3);
    let text = match utf8 {
        true => String::from_utf8(bytes).map_err(|e| FormatError::corrupt(format!("the npy header is not UTF-8: {e}")))?,
        false => bytes.into_iter().map(char::from).collect(),
    };
    Ok((text, start + len as u64))
}

/// The start of a text, for messages.
fn excerpt(text: &str) -> String {
    text.trim_end().chars().take(200).collect()
}

fn lengths(shape: &Literal) -> Result<Vec<usize>> {
    let wrong = || FormatError::corrupt(format!("the npy header's shape is not a tuple of lengths but {shape}"));
    let Literal::Tuple(items) = shape else { return Err(wrong()) };
    items
        .iter()
        .map(|item| match item {
            Literal::Int(n) => usize::try_from(*n).map_err(|_| wrong()),
            _ => Err(wrong()),
        })
        .collect()
}

fn dtype(descr: &Literal) -> Result<DType> {
    let text = match descr {
        Literal::Str(text) => text,
        Literal::List(fields) => return Err(structured(fields)),
        Literal::Tuple(_) => {
            return Err(FormatError::unsupported(format!("the subarray dtype {descr}; store an array of one more axis")));
        }
        _ => return Err(FormatError::corrupt(format!("the npy header's descr is no dtype but {descr}"))),
    };
    let base = text.strip_prefix(['<', '>', '|', '=']).unwrap_or(text);
    if base.starts_with('O') {
        return Err(FormatError::unsupported(
            "an object array, whose elements are pickled Python objects: reading them could run any code. \
             Store numbers, strings of fixed width (dtype S or U), or one array for each element",
        ));
    }
    // NumPy writes a letter and a size, and a unit for times; DType's parser alone would take names too.
    let letter = base.chars().next().unwrap_or(' ');
    let digits = base.get(letter.len_utf8()..).unwrap_or("").split('[').next().unwrap_or("");
    if !"biufcSUVMm".contains(letter) || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FormatError::unsupported(format!(
            "the npy header's dtype '{text}' is not one of b, i, u, f, c, S, U, V, M, m with a size"
        )));
    }
    // Strings of no width exist in NumPy, though the parser refuses them.
    let empty = digits.bytes().all(|b| b == b'0');
    let parse = || text.parse::<DType>().map_err(|e| e.within(format!("the npy header's dtype '{text}'")));
    let dtype = match letter {
        'S' if empty => DType::new(Kind::Bytes, 0),
        'U' if empty => DType::new(Kind::Unicode, 0),
        'V' if empty => DType::new(Kind::Void, 0),
        'M' | 'm' => {
            let dtype = parse()?;
            match dtype.unit() {
                Some(unit) if !is_time_unit(unit) => {
                    Err(FormatError::unsupported(format!("'{text}': '{unit}' is no unit of time")))
                }
                _ => Ok(dtype),
            }
        }
        _ => parse(),
    }?;
    match dtype.itemsize() as u64 {
        ..=MAX_ARRAY_BYTES => Ok(dtype),
        _ => Err(FormatError::limit(format!("elements of '{text}' (at most {MAX_ARRAY_BYTES} bytes are read)"))),
    }
}

/// Whether a unit is one of NumPy's, with or without a multiple before it.
fn is_time_unit(unit: &str) -> bool {
    let name = unit.trim_start_matches(|c: char| c.is_ascii_digit());
    let multiple = unit.get(..unit.len() - name.len()).unwrap_or("");
    let counted = multiple.is_empty() || multiple.parse::<i32>().is_ok_and(|n| n > 0);
    counted && matches!(name, "Y" | "M" | "W" | "D" | "h" | "m" | "s" | "ms" | "us" | "ns" | "ps" | "fs" | "as")
}

/// The refusal of a structured dtype, naming its fields and the padding between them.
fn structured(fields: &[Literal]) -> FormatError {
    let names: Vec<String> = fields
        .iter()
        .map(|field| match field {
            Literal::Tuple(parts) => match parts.as_slice() {
                [Literal::Str(name), Literal::Str(ty), ..] if name.is_empty() => format!("padding ({ty})"),
                [Literal::Str(name), ty, ..] => format!("'{name}' ({ty})"),
                [name, ..] => format!("{name}"),
                [] => "()".into(),
            },
            other => other.to_string(),
        })
        .collect();
    FormatError::unsupported(format!(
        "a structured dtype with {}; store one array for each field, as array['name']",
        names.join(", ")
    ))
}

/// The header that NumPy writes before the elements of a C-ordered array, byte for byte: magic, version, length and text.
pub(super) fn write(dtype: &DType, shape: &[usize]) -> Result<Vec<u8>> {
    let mut lengths: String = shape.iter().map(|n| format!("{n}, ")).collect();
    lengths.truncate(lengths.len().saturating_sub(if shape.len() == 1 { 1 } else { 2 }));
    let growth = shape.first().map_or(0, |n| GROWTH_DIGITS.saturating_sub(n.to_string().len()));
    frame(&format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({lengths}), }}{:growth$}", ""))
}

/// A header around its text, in the lowest version that can hold it: 1.0 up to 64 KiB, 2.0 above, 3.0 for what is not Latin-1.
pub(super) fn frame(text: &str) -> Result<Vec<u8>> {
    let latin1: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
    let (unicode, text) = match latin1 {
        Some(bytes) => (false, bytes),
        None => (true, text.as_bytes().to_vec()),
    };
    // One to sixty-four spaces: NumPy pads by a whole unit where none would be needed.
    let padded = |prefix: usize| text.len() + 1 + ALIGN - (prefix + text.len() + 1) % ALIGN;
    let mut out = MAGIC.to_vec();
    match u16::try_from(padded(10)) {
        Ok(len) if !unicode => {
            out.extend([1, 0]);
            out.extend(len.to_le_bytes());
        }
        _ => {
            let len = u32::try_from(padded(12)).map_err(|_| FormatError::limit("an npy header of 4 GiB or more"))?;
            out.extend([if unicode { 3 } else { 2 }, 0]);
            out.extend(len.to_le_bytes());
        }
    }
    let total = out.len() + padded(out.len());
    out.extend(text);
    out.resize(total - 1, b' ');
    out.push(b'\n');
    Ok(out)
}
