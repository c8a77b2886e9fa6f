use super::*;
use crate::array::{self, Format};
use crate::error::FormatErrorKind;
use bytes::Bytes;
use proptest::prelude::*;

fn array(dtype: &str, shape: &[usize], data: Vec<u8>) -> Array {
    Array::new(dtype.parse().unwrap(), shape.to_vec(), data.into()).unwrap()
}

fn back(name: &str, a: &Array) -> Array {
    read(Arc::new(Bytes::from(to_bytes(name, a).unwrap())), name).unwrap()
}

#[test]
fn shapes_become_those_of_matlab() {
    for (shape, expected) in [
        (vec![], vec![1, 1]),
        (vec![3], vec![1, 3]),
        (vec![0], vec![0, 0]),
        (vec![2, 0], vec![2, 0]),
        (vec![1, 2, 3], vec![1, 2, 3]),
    ] {
        let n = shape.iter().product::<usize>();
        let a = array("|u1", &shape, (0..n as u8).collect());
        let read = back("x", &a);
        assert_eq!((read.shape(), read.data()), (&expected[..], a.data()));
    }
}

#[test]
fn half_precision_is_widened_exactly() {
    // 1.5, the smallest subnormal, -infinity, 65504.
    let a = array("<f2", &[4], [0x3e00u16, 1, 0xfc00, 0x7bff].iter().flat_map(|b| b.to_le_bytes()).collect());
    let wide: Vec<f64> = back("x", &a).data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    assert_eq!(wide, [1.5, 2f64.powi(-24), f64::NEG_INFINITY, 65504.0]);
}

#[test]
fn what_is_no_array_of_level_5_is_named() {
    let refused = |bytes: &[u8]| array::open(Arc::new(Bytes::copy_from_slice(bytes)), Format::Mat).err().unwrap();
    let good = to_bytes("x", &array("<i2", &[2], vec![1, 0, 2, 0])).unwrap();
    let mut seven = b"MATLAB 7.3 MAT-file".to_vec();
    seven.resize(600, b' ');
    assert!(refused(&seven).to_string().contains("7.3"), "{}", refused(&seven));
    assert!(refused(&[0; 64]).to_string().contains("level 4"));
    assert_eq!(refused(b"nothing like it").kind(), FormatErrorKind::Corrupt);
    assert!(refused(&good[..128]).to_string().contains("holds none"));
    for cut in [100, 130, 150, good.len() - 9] {
        assert_eq!(refused(&good[..cut]).kind(), FormatErrorKind::Corrupt, "{cut}");
    }
    // A structure, a cell array and a sparse matrix, by their class.
    for (class, word) in [(1, "cell"), (2, "structure"), (5, "sparse"), (17, "class 17")] {
        let mut other = good.clone();
        other[144] = class;
        assert!(refused(&other).to_string().contains(word), "{}", refused(&other));
    }
    // More elements than there are bytes for.
    let mut bomb = good.clone();
    bomb[160..168].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert_eq!(refused(&bomb).kind(), FormatErrorKind::Limit);
    bomb[160..168].copy_from_slice(&[0xff, 0xff, 0xff, 0, 1, 0, 0, 0]);
    let e = array::open(Arc::new(Bytes::from(bomb)), Format::Mat).unwrap().read_all().unwrap_err();
    assert_eq!(e.kind(), FormatErrorKind::Corrupt);
    let e = to_bytes("x", &array("<U1", &[1], vec![65, 0, 0, 0])).unwrap_err();
    assert_eq!(e.kind(), FormatErrorKind::Unsupported);
}

#[test]
fn one_of_several_variables_is_found_by_its_name() {
    let (a, b) = (array("|i1", &[1, 1], vec![1]), array("|i1", &[1, 1], vec![2]));
    let mut both = to_bytes("a", &a).unwrap();
    both.extend_from_slice(&to_bytes("1 b", &b).unwrap()[HEADER..]);
    let src: Arc<Bytes> = Arc::new(both.into());
    for name in ["é", "日", "_r", &"x".repeat(64)] {
        assert_eq!(back(name, &a), a);
    }
    assert_eq!(to_bytes("é", &a).unwrap()[HEADER + 40..HEADER + 49], [1, 0, 0, 0, 1, 0, 0, 0, 0xe9]);
    assert_eq!((read(src.clone(), "a").unwrap(), read(src.clone(), "1 b").unwrap()), (a, b));
    assert!(read(src, "c").unwrap_err().to_string().contains("(a, 1 b)"));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        shape in prop::collection::vec(0usize..4, 2..5),
        dtype in prop::sample::select(vec!["|b1", "|i1", "|u1", "<i2", ">u2", "<i4", "<u4", "<i8", ">u8", "<f4", "<f8", "<c8", ">c16"]),
        seed in any::<u64>(),
    ) {
        let dtype: crate::model::DType = dtype.parse().unwrap();
        let n = shape.iter().product::<usize>() * dtype.itemsize();
        let data: Vec<u8> = (0..n as u64).map(|i| (seed.wrapping_mul(i + 1) >> 40) as u8 & if dtype.name() == "bool" { 1 } else { 0x3f }).collect();
        let a = Array::new(dtype.clone(), shape.clone(), data.into()).unwrap();
        let read = back("name", &a);
        prop_assert_eq!(read.shape(), &shape[..]);
        prop_assert_eq!(read.dtype(), &dtype.clone().with_order(crate::model::ByteOrder::Little));
        let mut expected = a.data().to_vec();
        if dtype.is_big_endian() {
            crate::array::npy::swap(&mut expected, dtype.swap_width());
        }
        prop_assert_eq!(&read.data()[..], &expected[..]);
    }

    #[test]
    fn damage_is_an_error_or_another_value(at in 0usize..400, bit in 0u8..8) {
        let mut file = to_bytes("x", &array("<f8", &[2, 3], (0..48).collect())).unwrap();
        let at = at % file.len();
        file[at] ^= 1 << bit;
        if let Ok(mut reader) = array::open(Arc::new(Bytes::from(file)), Format::Mat) {
            let _ = reader.read_all();
        }
    }
}
