//! Element types, named as NumPy names them.

use crate::error::{FormatError, Result};
use std::fmt;

/// The family of an element type, by NumPy's one-letter code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `b`: one byte, 0 or 1.
    Bool,
    /// `i`: two's complement.
    Int,
    /// `u`.
    UInt,
    /// `f`: IEEE 754 (16 bytes: the platform's long double).
    Float,
    /// `c`: two floats, real then imaginary.
    Complex,
    /// `S`: bytes of fixed width, padded with NUL.
    Bytes,
    /// `U`: UTF-32 of fixed width, padded with NUL.
    Unicode,
    /// `M`: a point in time, a 64-bit count of the unit.
    DateTime,
    /// `m`: a duration, a 64-bit count of the unit.
    TimeDelta,
    /// `V`: raw bytes of fixed width.
    Void,
}

impl Kind {
    /// NumPy's one-letter code.
    pub fn code(self) -> char {
        match self {
            Kind::Bool => 'b',
            Kind::Int => 'i',
            Kind::UInt => 'u',
            Kind::Float => 'f',
            Kind::Complex => 'c',
            Kind::Bytes => 'S',
            Kind::Unicode => 'U',
            Kind::DateTime => 'M',
            Kind::TimeDelta => 'm',
            Kind::Void => 'V',
        }
    }
}

/// The order of the bytes of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first; also what has no order.
    Little,
    /// Most significant byte first.
    Big,
}

/// The type of one element: a fixed number of bytes and what they mean.
///
/// ```
/// use sigbank_format::model::{DType, Kind};
/// let t: DType = ">f4".parse()?;
/// assert_eq!((t.kind(), t.itemsize(), t.is_big_endian()), (Kind::Float, 4, true));
/// assert_eq!("float16".parse::<DType>()?.to_string(), "<f2");
/// assert_eq!("datetime64[ns]".parse::<DType>()?.to_string(), "<M8[ns]");
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DType {
    kind: Kind,
    itemsize: usize,
    order: ByteOrder,
    unit: Option<String>,
}

impl DType {
    /// A dtype of a kind and a size in bytes, little-endian; refused where NumPy has no such type.
    pub fn new(kind: Kind, itemsize: usize) -> Result<Self> {
        let known = match kind {
            Kind::Bool => itemsize == 1,
            Kind::Int | Kind::UInt => matches!(itemsize, 1 | 2 | 4 | 8),
            Kind::Float => matches!(itemsize, 2 | 4 | 8 | 16),
            Kind::Complex => matches!(itemsize, 8 | 16 | 32),
            Kind::Unicode => itemsize.is_multiple_of(4),
            Kind::Bytes | Kind::Void => true,
            Kind::DateTime | Kind::TimeDelta => itemsize == 8,
        };
        if !known {
            return Err(FormatError::unsupported(format!("there is no dtype of kind '{}' with {itemsize} bytes", kind.code())));
        }
        Ok(Self { kind, itemsize, order: ByteOrder::Little, unit: None })
    }
    /// The family of the type.
    pub fn kind(&self) -> Kind {
        self.kind
    }
    /// Bytes of one element.
    pub fn itemsize(&self) -> usize {
        self.itemsize
    }
    /// Whether each number's most significant byte comes first.
    pub fn is_big_endian(&self) -> bool {
        self.order == ByteOrder::Big
    }
    /// The unit of a datetime or timedelta, such as `ns` or `25s`; none for the generic one and for other kinds.
    pub fn unit(&self) -> Option<&str> {
        self.unit.as_deref()
    }
    /// Bytes that are swapped as one when the byte order changes: 1 for what has no order.
    pub fn swap_width(&self) -> usize {
        match self.kind {
            Kind::Bool | Kind::Bytes | Kind::Void => 1,
            Kind::Complex => self.itemsize / 2,
            Kind::Unicode => 4,
            _ => self.itemsize,
        }
    }
    /// The same type in the other byte order where it has one.
    #[must_use]
    pub fn with_order(mut self, order: ByteOrder) -> Self {
        self.order = if self.swap_width() > 1 { order } else { ByteOrder::Little };
        self
    }
    /// The same type with a unit, for datetimes and timedeltas.
    #[must_use]
    pub fn with_unit(mut self, unit: Option<String>) -> Self {
        self.unit = if matches!(self.kind, Kind::DateTime | Kind::TimeDelta) { unit } else { None };
        self
    }
    /// The name NumPy prints for plain numbers (`float16`, `uint8`, `bool`), the type string for the rest.
    pub fn name(&self) -> String {
        let bits = self.itemsize.saturating_mul(8);
        match self.kind {
            Kind::Bool => "bool".into(),
            _ if self.is_big_endian() => self.to_string(),
            Kind::Int => format!("int{bits}"),
            Kind::UInt => format!("uint{bits}"),
            Kind::Float => format!("float{bits}"),
            Kind::Complex => format!("complex{bits}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for DType {
    /// NumPy's type string, such as `<f4`, `|u1` or `<M8[ns]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.swap_width() > 1, self.order) {
            (false, _) => '|',
            (true, ByteOrder::Little) => '<',
            (true, ByteOrder::Big) => '>',
        };
        let size = if self.kind == Kind::Unicode { self.itemsize / 4 } else { self.itemsize };
        write!(f, "{order}{}{size}", self.kind.code())?;
        match &self.unit {
            Some(unit) => write!(f, "[{unit}]"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for DType {
    type Err = FormatError;

    /// Reads a NumPy type string (`<f4`, `f4`, `S5`, `M8[ns]`) or name (`float16`, `bool`, `datetime64[ns]`).
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || FormatError::unsupported(format!("'{text}' is not a dtype of fixed size that is handled here"));
        let (order, rest) = match text.strip_prefix('>') {
            Some(rest) => (ByteOrder::Big, rest),
            None => (ByteOrder::Little, text.trim_start_matches(['<', '|', '='])),
        };
        let (base, unit) = match rest.split_once('[') {
            Some((base, unit)) => (base, Some(unit.strip_suffix(']').ok_or_else(unknown)?.to_owned())),
            None => (rest, None),
        };
        let letters = base.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = base.get(letters.len()..).unwrap_or("");
        let number = || digits.parse::<usize>().map_err(|_| unknown());
        let named = |kind, bytes| DType::new(kind, bytes);
        let bits = |kind| number().and_then(|n| if n % 8 == 0 { DType::new(kind, n / 8) } else { Err(unknown()) });
        let dtype = match (letters, digits) {
            ("bool" | "bool_" | "?", "") | ("b", "1") => named(Kind::Bool, 1),
            ("byte" | "b", "") => named(Kind::Int, 1),
            ("ubyte" | "B", "") => named(Kind::UInt, 1),
            ("short" | "h", "") => named(Kind::Int, 2),
            ("ushort" | "H", "") => named(Kind::UInt, 2),
            ("intc", "") => named(Kind::Int, 4),
            ("uintc", "") => named(Kind::UInt, 4),
            ("long" | "longlong" | "intp" | "int_" | "q", "") => named(Kind::Int, 8),
            ("ulong" | "ulonglong" | "uintp" | "uint" | "Q", "") => named(Kind::UInt, 8),
            ("half" | "e", "") => named(Kind::Float, 2),
            ("single" | "f", "") => named(Kind::Float, 4),
            ("double" | "float" | "d", "") => named(Kind::Float, 8),
            ("longdouble" | "g", "") => named(Kind::Float, 16),
            ("csingle" | "F", "") => named(Kind::Complex, 8),
            ("cdouble" | "complex" | "D", "") => named(Kind::Complex, 16),
            ("clongdouble" | "G", "") => named(Kind::Complex, 32),
            ("int", _) => bits(Kind::Int),
            ("uint", _) => bits(Kind::UInt),
            ("float", _) => bits(Kind::Float),
            ("complex", _) => bits(Kind::Complex),
            ("i", _) => number().and_then(|n| DType::new(Kind::Int, n)),
            ("u", _) => number().and_then(|n| DType::new(Kind::UInt, n)),
            ("f", _) => number().and_then(|n| DType::new(Kind::Float, n)),
            ("c", _) => number().and_then(|n| DType::new(Kind::Complex, n)),
            ("S", _) => number().and_then(|n| DType::new(Kind::Bytes, n)),
            ("V", _) => number().and_then(|n| DType::new(Kind::Void, n)),
            ("U", _) => number().and_then(|n| DType::new(Kind::Unicode, n.checked_mul(4).ok_or_else(unknown)?)),
            ("datetime", "64") | ("M", "8") => named(Kind::DateTime, 8),
            ("timedelta", "64") | ("m", "8") => named(Kind::TimeDelta, 8),
            _ => Err(unknown()),
        }?;
        if unit.is_some() && !matches!(dtype.kind, Kind::DateTime | Kind::TimeDelta) {
            return Err(unknown());
        }
        if dtype.itemsize == 0 {
            return Err(FormatError::unsupported(format!("dtype '{text}' has no fixed size; give it one, such as '{text}8'")));
        }
        Ok(dtype.with_order(order).with_unit(unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_strings_survive() {
        for t in ["|b1", "|i1", "<i2", ">i4", "<u8", "<f2", ">f8", "<c8", ">c16", "|S5", "<U7", ">U7", "<M8[ns]", "<m8", "|V12"] {
            assert_eq!(t.parse::<DType>().unwrap().to_string(), t);
        }
    }

    #[test]
    fn names_are_numpys() {
        for (name, string) in
            [("float16", "<f2"), ("bool", "|b1"), ("uint8", "|u1"), ("float64", "<f8"), ("complex64", "<c8"), ("int32", "<i4")]
        {
            let t: DType = name.parse().unwrap();
            assert_eq!((t.to_string().as_str(), t.name().as_str()), (string, name));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for t in ["", "O", "object", "f3", "float17", "float8", "i4[ns]", "M8[ns", "int3", "S", "str", "<", "é"] {
            assert!(t.parse::<DType>().is_err(), "{t}");
        }
    }
}
