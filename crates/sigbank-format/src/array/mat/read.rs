//! Finding the variables of a file, and reading one.

use super::{COMPLEX, HEADER, LOGICAL, class, cut_short, element, variable_name};
use crate::array::npy::{ColumnOrder, swap};
use crate::array::{ArrayInfo, ArrayReader, Format};
use crate::error::{FormatError, Result};
use crate::limits::{FIRST_ALLOCATION, MAX_RANK};
use crate::model::array::byte_len;
use crate::model::{Array, ByteOrder, DType, Kind};
use crate::read_at::ReadAt;
use flate2::read::ZlibDecoder;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Longest name of a variable that is read.
const LONGEST_NAME: usize = 4096;
/// Most variables that are looked through for a name.
const MOST_VARIABLES: usize = 10_000;

/// A MAT-file whose variable is known; its elements are decoded when the first of them is asked for.
pub(in crate::array) struct MatReader {
    src: Arc<dyn ReadAt>,
    big_endian: bool,
    variable: Variable,
    info: ArrayInfo,
    elements: Option<Vec<u8>>,
}

/// Where a variable is and what it is, before its elements.
struct Variable {
    /// Where its data element begins.
    at: u64,
    name: String,
    class: u8,
    flags: u8,
    shape: Vec<usize>,
}

impl MatReader {
    pub(in crate::array) fn new(src: Arc<dyn ReadAt>, name: Option<&str>) -> Result<Self> {
        let big_endian = header(&*src)?;
        let mut variables = Vec::new();
        let mut at = HEADER as u64;
        while at < src.size() {
            let (variable, end) = {
                let mut stream = Elements::at(&*src, at, big_endian)?;
                (stream.variable(at)?, stream.end)
            };
            if let Some(variable) = variable {
                if name.is_some_and(|name| variable.name == name) {
                    return Self::of(src, big_endian, variable);
                }
                variables.push(variable);
                if variables.len() > MOST_VARIABLES {
                    return Err(FormatError::limit(format!("a mat file of more than {MOST_VARIABLES} variables")));
                }
            }
            at = end;
        }
        let stored = name.map(variable_name);
        if let Some(found) = variables.iter().position(|v| Some(&v.name) == stored.as_ref()) {
            return Self::of(src, big_endian, variables.swap_remove(found));
        }
        match (variables.pop(), variables.len()) {
            (Some(only), 0) => Self::of(src, big_endian, only),
            (Some(last), _) => {
                let names: Vec<&str> = variables.iter().chain([&last]).map(|v| v.name.as_str()).collect();
                Err(FormatError::invalid(format!(
                    "the mat file holds several variables ({}), none of which is named {:?}: keep one variable a file",
                    names.join(", "),
                    name.unwrap_or("as the array")
                )))
            }
            (None, _) => Err(FormatError::corrupt("a variable is expected, but the mat file holds none")),
        }
    }

    fn of(src: Arc<dyn ReadAt>, big_endian: bool, variable: Variable) -> Result<Self> {
        let (dtype, shape) = delivered(&variable).map_err(|e| e.within(format!("the variable '{}'", variable.name)))?;
        byte_len(&dtype, &shape)?;
        let stored_dtype = dtype.clone().with_order(if big_endian { ByteOrder::Big } else { ByteOrder::Little });
        let info =
            ArrayInfo { format: Format::Mat, dtype, stored_dtype, shape, audio: None, incomplete: None, trailing_bytes: 0 };
        Ok(Self { src, big_endian, variable, info, elements: None })
    }

    fn decode(&self) -> Result<Vec<u8>> {
        let mut stream = Elements::at(&*self.src, self.variable.at, self.big_endian)?;
        stream.variable(self.variable.at)?;
        let count = byte_len(&DType::new(Kind::UInt, 1)?, &self.variable.shape)?;
        let shape = &self.variable.shape;
        if self.variable.class == class::CHAR {
            let letters = stream.letters(count)?;
            let bytes: Vec<u8> = letters.into_iter().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
            return Ok(row_major(bytes, shape, 4));
        }
        let part = self.info.dtype.itemsize() / if self.variable.flags & COMPLEX != 0 { 2 } else { 1 };
        let real = stream.numbers(count, self.variable.class, part)?;
        if self.variable.flags & COMPLEX == 0 {
            return Ok(row_major(real, shape, part));
        }
        let imaginary = stream.numbers(count, self.variable.class, part)?;
        let mut both = Vec::with_capacity(real.len() * 2);
        for (re, im) in real.chunks_exact(part).zip(imaginary.chunks_exact(part)) {
            both.extend_from_slice(re);
            both.extend_from_slice(im);
        }
        Ok(row_major(both, shape, part * 2))
    }
}

impl ArrayReader for MatReader {
    fn info(&self) -> &ArrayInfo {
        &self.info
    }
    fn read_rows(&mut self, start: usize, count: usize, out: &mut [u8]) -> Result<()> {
        self.info.check_window(start, count, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        if self.elements.is_none() {
            self.elements = Some(self.decode().map_err(|e| e.within(format!("the variable '{}'", self.variable.name)))?);
        }
        let row = self.info.row_bytes();
        let rows = self.elements.as_deref().and_then(|all| all.get(start * row..(start + count) * row));
        out.copy_from_slice(rows.ok_or_else(|| cut_short("the elements"))?);
        Ok(())
    }
    fn read_all(&mut self) -> Result<Array> {
        let empty = self.info.shape.contains(&0);
        let data = match self.elements.take() {
            _ if empty => Vec::new(),
            Some(elements) => elements,
            None => self.decode().map_err(|e| e.within(format!("the variable '{}'", self.variable.name)))?,
        };
        Array::new(self.info.dtype.clone(), self.info.shape.clone(), data.into())
    }
}

/// Whether the numbers of the file are big-endian.
fn header(src: &dyn ReadAt) -> Result<bool> {
    let head = crate::array::source::read_up_to(src, 0, HEADER)?;
    if head.starts_with(b"MATLAB 7.3") || head.get(124..126) == Some(&[0, 2]) || head.starts_with(b"\x89HDF\r\n\x1a\n") {
        return Err(FormatError::unsupported(
            "a MATLAB file of version 7.3, which is HDF5 and not read here: save it with -v7, or open it with h5py and store npy",
        ));
    }
    match head.get(124..128) {
        Some([0, 1, b'I', b'M']) => Ok(false),
        Some([1, 0, b'M', b'I']) => Ok(true),
        _ if head.len() >= 20 && matches!(head.first_chunk(), Some([a, b, 0, 0]) if *a < 100 && *b < 20) => {
            Err(FormatError::unsupported("a MATLAB file of level 4, which is not read here: save it with -v7"))
        }
        Some(_) => Err(FormatError::corrupt("a MATLAB file of level 5 is expected, and this is none")),
        None => Err(FormatError::corrupt(format!(
            "a MATLAB file has a header of {HEADER} bytes, and this one has {} in all: it was cut short",
            src.size()
        ))),
    }
}

/// The dtype and shape as which a variable is delivered.
fn delivered(variable: &Variable) -> Result<(DType, Vec<usize>)> {
    let complex = variable.flags & COMPLEX != 0;
    let shape = variable.shape.clone();
    let (kind, size) = match variable.class {
        class::CHAR => {
            // The last axis of a matrix of letters becomes the text.
            let (rows, letters) = match shape.split_last() {
                Some((&letters, rows)) => (rows.to_vec(), letters),
                None => (Vec::new(), 1),
            };
            let empty = if letters == 0 { vec![0] } else { rows };
            return Ok((DType::new(Kind::Unicode, 4 * letters.max(1))?, empty));
        }
        class::DOUBLE if complex => (Kind::Complex, 16),
        class::SINGLE if complex => (Kind::Complex, 8),
        _ if complex => return Err(FormatError::unsupported("complex integers, which no NumPy dtype holds: save it as double")),
        class::UINT8 if variable.flags & LOGICAL != 0 => (Kind::Bool, 1),
        class::DOUBLE => (Kind::Float, 8),
        class::SINGLE => (Kind::Float, 4),
        class::INT8 => (Kind::Int, 1),
        class::UINT8 => (Kind::UInt, 1),
        class::INT16 => (Kind::Int, 2),
        class::UINT16 => (Kind::UInt, 2),
        class::INT32 => (Kind::Int, 4),
        class::UINT32 => (Kind::UInt, 4),
        class::INT64 => (Kind::Int, 8),
        class::UINT64 => (Kind::UInt, 8),
        other => {
            let what = ["", "a cell array", "a structure", "an object", "", "a sparse matrix"]
                .get(usize::from(other))
                .filter(|w| !w.is_empty());
            return Err(FormatError::unsupported(format!(
                "{} is no array: store what is in it as arrays of their own",
                what.map_or_else(|| format!("a value of class {other}"), |w| (*w).to_owned())
            )));
        }
    };
    Ok((DType::new(kind, size)?, shape))
}

/// Elements, first axis fastest, in C order.
fn row_major(data: Vec<u8>, shape: &[usize], item: usize) -> Vec<u8> {
    if shape.iter().filter(|&&n| n != 1).count() < 2 || data.is_empty() {
        return data;
    }
    let (rows, tail) = (shape.first().copied().unwrap_or(1), shape.get(1..).unwrap_or_default());
    let columns: usize = tail.iter().product();
    let mut order = ColumnOrder::new(tail);
    let mut out = vec![0; data.len()];
    for column in data.chunks_exact(rows * item) {
        let targets = out.chunks_exact_mut(item).skip(order.next_place()).step_by(columns);
        column.chunks_exact(item).zip(targets).for_each(|(element, target)| target.copy_from_slice(element));
    }
    out
}

/// The data elements of one variable, one after another, inflated where they are compressed.
struct Elements<'a> {
    stream: Box<dyn Read + 'a>,
    big_endian: bool,
    /// Where the next variable begins.
    end: u64,
    /// The outermost tag's type.
    outer: u32,
}

/// A data element's head.
struct Tag {
    ty: u32,
    bytes: usize,
    /// The data of a small element stand in its tag.
    small: Option<[u8; 4]>,
}

struct Window<'a> {
    src: &'a dyn ReadAt,
    at: u64,
    end: u64,
}

impl Read for Window<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buf.len());
        self.src.read_at(self.at, buf.get_mut(..n).unwrap_or_default()).map_err(io::Error::other)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl<'a> Elements<'a> {
    fn at(src: &'a dyn ReadAt, at: u64, big_endian: bool) -> Result<Self> {
        let mut head = [0; 8];
        if src.size() - at < 8 {
            return Err(cut_short("the head of a variable"));
        }
        src.read_at(at, &mut head)?;
        let word = |bytes: [u8; 4]| if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        let [a, b, c, d, e, f, g, h] = head;
        let (outer, bytes) = (word([a, b, c, d]), u64::from(word([e, f, g, h])));
        let end = at + 8 + bytes;
        if end > src.size() {
            return Err(FormatError::corrupt(format!(
                "a variable of {bytes} bytes is expected at offset {at}, but the file has {} in all: it was cut short",
                src.size()
            )));
        }
        let window = BufReader::with_capacity(1 << 16, Window { src, at: at + 8, end });
        let stream: Box<dyn Read + 'a> = match outer {
            element::COMPRESSED => Box::new(BufReader::with_capacity(1 << 16, ZlibDecoder::new(window))),
            _ => Box::new(window),
        };
        let mut elements = Self { stream, big_endian, end, outer };
        if outer == element::COMPRESSED {
            elements.outer = elements.tag("a variable")?.ty;
        }
        Ok(elements)
    }

    fn fill(&mut self, out: &mut [u8], what: &str) -> Result<()> {
        self.stream.read_exact(out).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => cut_short(what),
            _ => FormatError::corrupt(format!("{what} does not inflate: {e}")),
        })
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn tag(&mut self, what: &str) -> Result<Tag> {
        let (mut first, mut second) = ([0; 4], [0; 4]);
        self.fill(&mut first, what)?;
        self.fill(&mut second, what)?;
        let ty = self.word(first);
        match ty >> 16 {
            0 => Ok(Tag { ty, bytes: self.word(second) as usize, small: None }),
            bytes @ 1..=4 => Ok(Tag { ty: ty & 0xffff, bytes: bytes as usize, small: Some(second) }),
            bytes => Err(FormatError::corrupt(format!("a small element of {bytes} bytes, where it has at most 4, in {what}"))),
        }
    }

    /// A short element whole.
    fn short(&mut self, what: &str, longest: usize) -> Result<(u32, Vec<u8>)> {
        let tag = self.tag(what)?;
        if tag.bytes > longest {
            return Err(FormatError::limit(format!("{what} of {} bytes, where at most {longest} are read", tag.bytes)));
        }
        let mut bytes = vec![0; tag.bytes];
        match tag.small {
            Some(small) => bytes.iter_mut().zip(small).for_each(|(place, byte)| *place = byte),
            None => {
                self.fill(&mut bytes, what)?;
                self.skip_padding(tag.bytes, what)?;
            }
        }
        Ok((tag.ty, bytes))
    }

    fn skip_padding(&mut self, bytes: usize, what: &str) -> Result<()> {
        let mut padding = [0; 8];
        let n = bytes.next_multiple_of(8) - bytes;
        self.fill(padding.get_mut(..n).unwrap_or_default(), what)
    }

    /// What a variable is; none for an element that is no array.
    fn variable(&mut self, at: u64) -> Result<Option<Variable>> {
        if self.outer != element::MATRIX {
            return Ok(None);
        }
        let (ty, flags) = self.short("the flags of a variable", 8)?;
        let Some(&word) = flags.first_chunk::<4>().filter(|_| ty == element::UINT32) else {
            return Err(FormatError::corrupt("a variable's flags are expected, and something else was found"));
        };
        let flags = self.word(word);
        let (ty, dimensions) = self.short("the dimensions of a variable", MAX_RANK * 4)?;
        let dims = dimensions.as_chunks::<4>().0.iter().map(|&d| usize::try_from(self.word(d).cast_signed()).ok());
        // At least two, as the format has it.
        let shape = dims.collect::<Option<Vec<usize>>>().filter(|dims| ty == element::INT32 && dims.len() >= 2);
        let shape = shape.ok_or_else(|| FormatError::corrupt("the dimensions of a variable are no lengths of axes"))?;
        let (_, name) = self.short("the name of a variable", LONGEST_NAME)?;
        // SciPy writes Latin-1, MATLAB ASCII.
        let name = String::from_utf8(name).unwrap_or_else(|e| e.into_bytes().into_iter().map(char::from).collect());
        let name = name.trim_end_matches('\0').to_owned();
        Ok(Some(Variable { at, name, class: flags as u8, flags: (flags >> 8) as u8, shape }))
    }

    /// The bytes of an element of `count` values, each of which has the width of the element's type: (type, bytes, little-endian).
    fn values(&mut self, count: usize) -> Result<(u32, usize, Vec<u8>)> {
        let what = "the elements";
        let tag = self.tag(what)?;
        let width = match tag.ty {
            element::INT8 | element::UINT8 | element::UTF8 => 1,
            element::INT16 | element::UINT16 | element::UTF16 => 2,
            element::INT32 | element::UINT32 | element::SINGLE | element::UTF32 => 4,
            element::DOUBLE | element::INT64 | element::UINT64 => 8,
            other => return Err(FormatError::corrupt(format!("elements of the unknown type {other}"))),
        };
        // UTF-8 has as many bytes as its letters take.
        let right = if tag.ty == element::UTF8 {
            tag.bytes <= count.saturating_mul(4)
        } else {
            Some(tag.bytes) == count.checked_mul(width)
        };
        if !right {
            return Err(FormatError::corrupt(format!(
                "{count} elements of {width} bytes are expected, but {} bytes are stored",
                tag.bytes
            )));
        }
        let mut bytes = Vec::new();
        match tag.small {
            Some(small) => bytes.extend_from_slice(small.get(..tag.bytes).unwrap_or_default()),
            None => {
                // Memory is taken as the bytes arrive.
                while bytes.len() < tag.bytes {
                    let have = bytes.len();
                    bytes.resize(tag.bytes.min(have + have.max(FIRST_ALLOCATION)), 0);
                    self.fill(bytes.get_mut(have..).unwrap_or_default(), what)?;
                }
                // Some writers leave the last padding out.
                let _ = self.skip_padding(tag.bytes, what);
            }
        }
        if self.big_endian && width > 1 {
            swap(&mut bytes, width);
        }
        Ok((tag.ty, width, bytes))
    }

    /// Numbers of a class, each `width` bytes. Files keep them in the smallest type that holds them.
    fn numbers(&mut self, count: usize, class: u8, width: usize) -> Result<Vec<u8>> {
        let (ty, _, bytes) = self.values(count)?;
        let own = match class {
            class::DOUBLE => element::DOUBLE,
            class::SINGLE => element::SINGLE,
            class::INT8 => element::INT8,
            class::UINT8 => element::UINT8,
            class::INT16 => element::INT16,
            class::UINT16 => element::UINT16,
            class::INT32 => element::INT32,
            class::UINT32 => element::UINT32,
            class::INT64 => element::INT64,
            _ => element::UINT64,
        };
        if ty == own {
            return Ok(bytes);
        }
        let floating = matches!(class, class::DOUBLE | class::SINGLE);
        let mut out = Vec::with_capacity(count * width);
        let mut put = |value: Value| -> Result<()> {
            match (value, floating, width) {
                (Value::Float(x), true, 8) => out.extend_from_slice(&x.to_le_bytes()),
                (Value::Float(x), true, _) => out.extend_from_slice(&(x as f32).to_le_bytes()),
                (Value::Int(v), true, 8) => out.extend_from_slice(&(v as f64).to_le_bytes()),
                (Value::Int(v), true, _) => out.extend_from_slice(&(v as f32).to_le_bytes()),
                (Value::Int(v), false, _) => out.extend_from_slice(v.to_le_bytes().get(..width).unwrap_or_default()),
                (Value::Float(_), false, _) => {
                    return Err(FormatError::corrupt("integers are expected, but floats are stored"));
                }
            }
            Ok(())
        };
        fn each<const N: usize>(bytes: &[u8], mut put: impl FnMut([u8; N]) -> Result<()>) -> Result<()> {
            bytes.as_chunks::<N>().0.iter().try_for_each(|&b| put(b))
        }
        match ty {
            element::INT8 => each(&bytes, |b| put(Value::Int(i128::from(i8::from_le_bytes(b)))))?,
            element::UINT8 | element::UTF8 => each(&bytes, |b| put(Value::Int(i128::from(u8::from_le_bytes(b)))))?,
            element::INT16 => each(&bytes, |b| put(Value::Int(i128::from(i16::from_le_bytes(b)))))?,
            element::UINT16 | element::UTF16 => each(&bytes, |b| put(Value::Int(i128::from(u16::from_le_bytes(b)))))?,
            element::INT32 => each(&bytes, |b| put(Value::Int(i128::from(i32::from_le_bytes(b)))))?,
            element::UINT32 | element::UTF32 => each(&bytes, |b| put(Value::Int(i128::from(u32::from_le_bytes(b)))))?,
            element::INT64 => each(&bytes, |b| put(Value::Int(i128::from(i64::from_le_bytes(b)))))?,
            element::UINT64 => each(&bytes, |b| put(Value::Int(i128::from(u64::from_le_bytes(b)))))?,
            element::SINGLE => each(&bytes, |b| put(Value::Float(f64::from(f32::from_le_bytes(b)))))?,
            _ => each(&bytes, |b| put(Value::Float(f64::from_le_bytes(b))))?,
        }
        Ok(out)
    }

    /// The letters of a character array.
    fn letters(&mut self, count: usize) -> Result<Vec<char>> {
        let (ty, width, bytes) = self.values(count)?;
        let bad = || FormatError::corrupt("the letters of a character array are no Unicode text");
        let letters: Vec<char> = match (ty, width) {
            (element::UTF8, _) => String::from_utf8(bytes).map_err(|_| bad())?.chars().collect(),
            (_, 1) => bytes.into_iter().map(char::from).collect(),
            (_, 2) => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| char::from_u32(u32::from(u16::from_le_bytes(*b))))
                .collect::<Option<_>>()
                .ok_or_else(bad)?,
            (_, 4) => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| char::from_u32(u32::from_le_bytes(*b)))
                .collect::<Option<_>>()
                .ok_or_else(bad)?,
            _ => return Err(bad()),
        };
        match letters.len() == count {
            true => Ok(letters),
            false => Err(FormatError::corrupt(format!("{count} letters are expected, but {} are stored", letters.len()))),
        }
    }
}

enum Value {
    Int(i128),
    Float(f64),
}
