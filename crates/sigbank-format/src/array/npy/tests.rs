use super::*;
use crate::array::open;
use crate::error::FormatErrorKind;
use bytes::Bytes;
use proptest::prelude::*;

fn read(bytes: impl Into<Bytes>) -> Result<Array> {
    open(Arc::new(bytes.into()), Format::Npy)?.read_all()
}

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = header::frame(header).unwrap();
    out.extend_from_slice(data);
    out
}

fn refusal(header: &str) -> (FormatErrorKind, String) {
    let e = read(file(header, &[0; 64])).unwrap_err();
    (e.kind(), e.to_string())
}

#[test]
fn headers_of_other_writers_are_read() {
    for text in [
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }",
        "{\"shape\":(2L,),\"descr\":\"<i2\",\"fortran_order\":False}",
        "  { 'fortran_order' : True ,\n'shape' : ( 2 , ) , 'descr' : '=i2' } ",
    ] {
        assert_eq!(&read(file(text, &[1, 0, 2, 0])).unwrap().data()[..], [1, 0, 2, 0], "{text}");
    }
}

#[test]
fn malformed_headers_are_corrupt() {
    for text in [
        "{'descr': '<i2', 'fortran_order': False}",
        "{'descr': '<i2', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': [2]}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2.0,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), 'extra': 1}",
        "{'descr': '<i2', 'descr': '<i4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<i2' 'fortran_order': False, 'shape': (2,)}",
        "{'descr': 3, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (0x2,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (02,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (1+1,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,)",
        "('<i2', False, (2,))",
        "",
    ] {
        assert_eq!(refusal(text).0, FormatErrorKind::Corrupt, "{text}");
    }
    assert_eq!(read(file(&"(".repeat(100), &[])).unwrap_err().kind(), FormatErrorKind::Corrupt);
}

#[test]
fn dtypes_that_are_not_handled_say_why() {
    let with = |descr: &str| refusal(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}"));
    for (descr, word) in [
        ("'|O'", "pickled"),
        ("'O8'", "pickled"),
        ("[('a', '<u4'), ('b', '|u1'), ('', '|V3')]", "'a' ('<u4')"),
        ("[('a', '<u4'), ('b', '|u1'), ('', '|V3')]", "padding (|V3)"),
        ("[('x', [('y', '<f4', (2,))])]", "[('y', '<f4', (2,))]"),
        ("('<f4', (2,))", "subarray"),
        ("'float64'", "float64"),
        ("'<<f4'", "<<f4"),
        ("'<f3'", "<f3"),
        ("'<i2[s]'", "<i2[s]"),
        ("'<M8[fortnight]'", "fortnight"),
        ("'<M8[0s]'", "0s"),
    ] {
        let (kind, message) = with(descr);
        assert!(kind == FormatErrorKind::Unsupported && message.contains(word), "{descr}: {message}");
    }
}

#[test]
fn too_much_is_a_limit() {
    for shape in ["(9223372036854775807,)", "(4294967296, 4294967296, 0)", "(99999999999,)"] {
        assert_eq!(refusal(&format!("{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}")).0, FormatErrorKind::Limit);
    }
    let text = format!("{{'descr': '|V0', 'fortran_order': False, 'shape': {}}}", "(9999999999999, 2)");
    assert_eq!(refusal(&text).0, FormatErrorKind::Limit);
    for descr in ["|V11698522746056547434", "|S18446744073709551615", "<U4611686018427387903"] {
        assert_eq!(
            refusal(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,)}}")).0,
            FormatErrorKind::Limit,
            "{descr}"
        );
    }
    let ones = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}), }}", "1, ".repeat(65));
    assert_eq!(refusal(&ones).0, FormatErrorKind::Limit);
    let huge = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes(), &[b' '; 99]].concat();
    assert_eq!(read(huge).unwrap_err().kind(), FormatErrorKind::Limit);
    let version = read(b"\x93NUMPY\x04\x00v\x00{}".to_vec()).unwrap_err();
    assert_eq!((version.kind(), version.to_string().contains("4.0")), (FormatErrorKind::Unsupported, true));
}

#[test]
fn cut_files_say_how_much_is_missing() {
    let whole = to_bytes(&Array::new("<f8".parse().unwrap(), vec![10], vec![1; 80].into()).unwrap()).unwrap();
    for len in 0..whole.len() {
        let e = read(whole[..len].to_vec()).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{len}");
        assert!(e.to_string().contains(&format!("{len} bytes")) || e.to_string().contains(&format!("has {len}")), "{len}: {e}");
        if len >= 128 {
            assert!(e.to_string().contains("208"), "{e}");
        }
    }
    let mut longer = whole.clone();
    longer.extend([9; 5]);
    assert_eq!(open(Arc::new(Bytes::from(longer)), Format::Npy).unwrap().info().trailing_bytes, 5);
}

#[test]
fn windows_are_checked() {
    let mut r = open(
        Arc::new(Bytes::from(to_bytes(&Array::new("<i2".parse().unwrap(), vec![3, 2], vec![1; 12].into()).unwrap()).unwrap())),
        Format::Npy,
    )
    .unwrap();
    let mut buf = [0; 12];
    assert!(r.read_rows(0, 3, &mut buf).is_ok() && r.read_rows(3, 0, &mut []).is_ok());
    for (start, count, len) in [(0, 4, 12), (2, 2, 8), (0, 2, 7), (0, 2, 12), (usize::MAX, 2, 8)] {
        assert_eq!(r.read_rows(start, count, &mut buf[..len]).unwrap_err().kind(), FormatErrorKind::Invalid);
    }
}

/// Elements in the order of a Fortran-ordered file, from C order, by arithmetic on whole indices.
fn to_fortran(shape: &[usize], item: usize, c: &[u8]) -> Vec<u8> {
    let mut out = vec![0; c.len()];
    for (i, element) in c.chunks_exact(item).enumerate() {
        let (mut rest, mut index) = (i, vec![0; shape.len()]);
        for axis in (0..shape.len()).rev() {
            index[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        let place = (0..shape.len()).rev().fold(0, |place, axis| place * shape[axis] + index[axis]);
        out[place * item..][..item].copy_from_slice(element);
    }
    out
}

fn dtypes() -> impl Strategy<Value = DType> {
    const NAMES: &[&str] = &[
        "|b1", "|i1", "<i2", ">i4", "<u8", ">f2", "<f4", ">f8", "<f16", ">f16", "<c8", ">c16", ">c32", "|S3", ">U2", "<M8[ns]",
        ">m8[25s]", "|V5",
    ];
    prop::sample::select(NAMES).prop_map(|n| n.parse().unwrap())
}

proptest! {
    #[test]
    fn what_is_written_is_read(dtype in dtypes(), shape in prop::collection::vec(0usize..5, 0..4), fortran: bool, seed: u8, window: (usize, usize)) {
        let len = byte_len(&dtype, &shape).unwrap();
        let stored: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
        // The values wanted: little-endian, number by number.
        let mut wanted = stored.clone();
        if dtype.is_big_endian() {
            wanted.chunks_exact_mut(dtype.swap_width()).for_each(|n| n.reverse());
        }
        let bytes = if fortran {
            let text: String = shape.iter().map(|n| format!("{n},")).collect();
            file(&format!("{{'descr': '{dtype}', 'fortran_order': True, 'shape': ({text})}}"), &to_fortran(&shape, dtype.itemsize(), &stored))
        } else {
            to_bytes(&Array::new(dtype.clone(), shape.clone(), stored.into()).unwrap()).unwrap()
        };
        let mut reader = open(Arc::new(Bytes::from(bytes)), Format::Npy).unwrap();
        prop_assert_eq!(&reader.info().stored_dtype, &dtype);
        let all = reader.read_all().unwrap();
        prop_assert_eq!(all.dtype(), &dtype.with_order(ByteOrder::Little));
        prop_assert_eq!(all.shape(), &shape[..]);
        prop_assert_eq!(&all.data()[..], &wanted[..]);
        let (rows, row) = (reader.info().rows(), reader.info().row_bytes());
        let start = window.0 % (rows + 1);
        let count = window.1 % (rows - start + 1);
        let mut part = vec![0; count * row];
        reader.read_rows(start, count, &mut part).unwrap();
        prop_assert_eq!(&part[..], &wanted[if wanted.is_empty() { 0..0 } else { start * row..(start + count) * row }]);
    }

    #[test]
    fn any_header_text_ends_well(text in "[{}()\\[\\]'\",:0-9a-zA-Z<>|. -]{0,80}", data in prop::collection::vec(any::<u8>(), 0..20)) {
        let _ = read(file(&text, &data));
    }
}

#[test]
fn long_columns_are_read_in_pieces() {
    // More than one block in a column, and windows that start and end in the middle.
    let (rows, columns) = (BLOCK + 77, 3);
    let data: Vec<u8> = (0..rows * columns).map(|i| (i % 251) as u8).collect();
    let text = format!("{{'descr': '|u1', 'fortran_order': True, 'shape': ({rows}, {columns})}}");
    let mut reader = open(Arc::new(Bytes::from(file(&text, &data))), Format::Npy).unwrap();
    let (start, count) = (5, BLOCK + 60);
    let mut out = vec![0; count * columns];
    reader.read_rows(start, count, &mut out).unwrap();
    for (i, row) in out.chunks(columns).enumerate() {
        for (c, &v) in row.iter().enumerate() {
            assert_eq!(v, data[c * rows + start + i]);
        }
    }
}
