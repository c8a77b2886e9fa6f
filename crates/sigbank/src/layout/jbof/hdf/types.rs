//! Element types of NumPy's as HDF5 has them, as h5py writes and reads them.

use hdf5_pure::{
    CompoundTypeBuilder, Datatype, DatatypeByteOrder, EnumTypeBuilder, FixedPointLayout, FloatingPointLayout, StringPadding,
};
use sigbank_format::model::{ByteOrder, DType, Kind};

/// What begins the tag of an opaque type whose elements are NumPy's; behind it stands the dtype. h5py has it too.
const TAG: &str = "NUMPY:";

/// How a data set's elements become those of an npy file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Elements {
    /// As they stand.
    Plain(DType),
    /// Texts of any length, which become ones of one width.
    Texts,
}

const fn ieee(bits: u16, exponent: u8, mantissa: u8, bias: u32) -> FloatingPointLayout {
    FloatingPointLayout {
        bit_offset: 0,
        bit_precision: bits,
        exponent_location: mantissa,
        exponent_size: exponent,
        mantissa_location: 0,
        mantissa_size: mantissa,
        exponent_bias: bias,
    }
}

/// The formats of floats, by their size in bytes.
const FLOATS: [(u32, FloatingPointLayout); 3] =
    [(2, ieee(16, 5, 10, 15)), (4, ieee(32, 8, 23, 127)), (8, ieee(64, 11, 52, 1023))];
/// The 80 bits of x86, in 16 bytes.
const LONG: FloatingPointLayout = FloatingPointLayout {
    bit_offset: 0,
    bit_precision: 80,
    exponent_location: 64,
    exponent_size: 15,
    mantissa_location: 0,
    mantissa_size: 64,
    exponent_bias: 16383,
};

fn order(dtype: &DType) -> DatatypeByteOrder {
    if dtype.is_big_endian() { DatatypeByteOrder::BigEndian } else { DatatypeByteOrder::LittleEndian }
}

/// The type that HDF5 has for elements of a dtype; none where it has none (elements of no bytes).
pub(super) fn of_dtype(dtype: &DType) -> Option<Datatype> {
    let size = u32::try_from(dtype.itemsize()).ok().filter(|&size| size > 0)?;
    let byte_order = order(dtype);
    Some(match (dtype.kind(), FLOATS.into_iter().find(|(bytes, _)| *bytes == size)) {
        (Kind::Int | Kind::UInt, _) => {
            let bit_precision = u16::try_from(size * 8).ok()?;
            let layout = FixedPointLayout { signed: dtype.kind() == Kind::Int, bit_offset: 0, bit_precision };
            Datatype::FixedPoint { size, byte_order, layout }
        }
        (Kind::Float, Some((_, layout))) => Datatype::FloatingPoint { size, byte_order, layout },
        (Kind::Bool, _) => {
            EnumTypeBuilder::with_base(hdf5_pure::make_i8_type()).value("FALSE", 0).value("TRUE", 1).build().ok()?
        }
        (Kind::Complex, _) if size <= 16 => {
            let half = DType::new(Kind::Float, dtype.itemsize() / 2).ok()?;
            let half = of_dtype(&half.with_order(if dtype.is_big_endian() { ByteOrder::Big } else { ByteOrder::Little }))?;
            CompoundTypeBuilder::new().field("r", half.clone()).field("i", half).build().ok()?
        }
        (Kind::Bytes, _) => Datatype::String { size, padding: StringPadding::NullPad, charset: hdf5_pure::CharacterSet::Ascii },
        // What HDF5 has no type for is raw bytes to others.
        _ => {
            let mut tag = format!("{TAG}{dtype}").into_bytes();
            tag.resize(tag.len().next_multiple_of(8), 0); // Else the HDF5 library refuses it.
            Datatype::Opaque { size, tag }
        }
    })
}

/// What a data set's elements are to NumPy; none for what an npy file of Rust's cannot hold.
pub(super) fn to_dtype(datatype: &Datatype) -> Option<Elements> {
    if let Datatype::VariableLength { is_string: true, .. } = datatype {
        return Some(Elements::Texts);
    }
    plain(datatype).map(Elements::Plain)
}

fn plain(datatype: &Datatype) -> Option<DType> {
    let made = |kind, size: u32, order: Option<&DatatypeByteOrder>| {
        let dtype = DType::new(kind, usize::try_from(size).ok()?).ok()?;
        match order {
            Some(DatatypeByteOrder::Vax) => None,
            Some(DatatypeByteOrder::BigEndian) => Some(dtype.with_order(ByteOrder::Big)),
            _ => Some(dtype),
        }
    };
    match datatype {
        Datatype::FixedPoint { size, byte_order, layout } => {
            let whole = layout.bit_offset == 0 && u64::from(layout.bit_precision) == u64::from(*size) * 8;
            let kind = if layout.signed { Kind::Int } else { Kind::UInt };
            whole.then(|| made(kind, *size, Some(byte_order)))?
        }
        Datatype::FloatingPoint { size, byte_order, layout } => {
            let known = FLOATS.contains(&(*size, *layout))
                || (*size == 16 && *layout == LONG && matches!(byte_order, DatatypeByteOrder::LittleEndian));
            known.then(|| made(Kind::Float, *size, Some(byte_order)))?
        }
        Datatype::Enumeration { base_type, .. } if is_bool(datatype) => made(Kind::Bool, base_type.type_size(), None),
        Datatype::Enumeration { base_type, .. } => plain(base_type),
        Datatype::String { size, padding, .. } if *padding != StringPadding::SpacePad => made(Kind::Bytes, *size, None),
        Datatype::Opaque { size, tag } => {
            let named = std::str::from_utf8(tag).ok().map(|tag| tag.trim_end_matches('\0')).and_then(|tag| tag.strip_prefix(TAG));
            match named {
                Some(name) => name.parse::<DType>().ok().filter(|dtype| dtype.itemsize() as u64 == u64::from(*size)),
                None => made(Kind::Void, *size, None),
            }
        }
        Datatype::Compound { size, members } => {
            let [real, imaginary] = members.as_slice() else { return None };
            let named = matches!(
                (real.name.as_str(), imaginary.name.as_str()),
                ("r", "i") | ("real", "imag") | ("re", "im") | ("real", "imaginary")
            );
            let half = plain(&real.datatype).filter(|half| half.kind() == Kind::Float)?;
            let together = real.datatype == imaginary.datatype
                && (real.byte_offset, imaginary.byte_offset) == (0, half.itemsize() as u64)
                && u64::from(*size) == 2 * half.itemsize() as u64;
            let dtype = DType::new(Kind::Complex, 2 * half.itemsize()).ok()?;
            let order = if half.is_big_endian() { ByteOrder::Big } else { ByteOrder::Little };
            (named && together).then(|| dtype.with_order(order))
        }
        _ => None,
    }
}

/// Whether a type is the one that h5py (as PyTables) has for bool.
pub(super) fn is_bool(datatype: &Datatype) -> bool {
    let Datatype::Enumeration { base_type, members, .. } = datatype else { return false };
    let value = |name: &str| members.iter().find(|m| m.name == name).map(|m| m.value.as_slice());
    base_type.type_size() == 1 && members.len() == 2 && value("FALSE") == Some(&[0]) && value("TRUE") == Some(&[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_comes_back() {
        let names = [
            "bool", "int8", "<i2", ">i2", "<i4", ">i8", "uint8", ">u4", "<u8", "<f2", ">f2", "<f4", ">f8", "<f16", "<c8", ">c16",
            "<c32", "S3", "<U2", ">U2", "<M8[ns]", ">M8[D]", "<m8[5us]", "V5",
        ];
        for name in names {
            let dtype: DType = name.parse().unwrap();
            let datatype = of_dtype(&dtype).unwrap();
            assert_eq!(u64::from(datatype.type_size()), dtype.itemsize() as u64, "{name}");
            assert_eq!(to_dtype(&datatype), Some(Elements::Plain(dtype)), "{name}");
        }
        assert_eq!(of_dtype(&DType::new(Kind::Bytes, 0).unwrap()), None);
    }

    #[test]
    fn types_that_numpy_has_not_are_none() {
        let f4 = of_dtype(&"<f4".parse().unwrap()).unwrap();
        let named = |a, b| CompoundTypeBuilder::new().field(a, f4.clone()).field(b, f4.clone()).build().unwrap();
        assert!(to_dtype(&named("real", "imag")).is_some() && to_dtype(&named("x", "y")).is_none());
        let layout = FixedPointLayout { signed: true, bit_offset: 0, bit_precision: 12 };
        let twelve = Datatype::FixedPoint { size: 2, byte_order: DatatypeByteOrder::LittleEndian, layout };
        assert_eq!(to_dtype(&twelve), None);
        let colors = EnumTypeBuilder::u8_based().value("RED", 0).value("TRUE", 1).build().unwrap();
        assert_eq!(to_dtype(&colors), Some(Elements::Plain("|u1".parse().unwrap())));
    }
}
