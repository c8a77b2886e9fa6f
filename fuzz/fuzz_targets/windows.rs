//! What every array reader must hold to, whatever its bytes.
#![allow(dead_code)] // Each target uses its part.

use sigbank_format::array::{self, ArrayReader, Format, Options, Samples};
use sigbank_format::model::Array;
use std::sync::Arc;

/// Arrays over so many bytes are read by one window only.
const LARGE: usize = 1 << 24;

/// Opens bytes as a format, in the way that the last of them picks, and checks the reader.
pub fn check_format(file: &[u8], format: Format) {
    let Some(&way) = file.last() else { return };
    let samples = [Samples::Float64, Samples::Float32, Samples::Stored][usize::from(way) % 3];
    let options = Options { samples, keep_decodable: way & 0x80 != 0 };
    if let Ok(mut reader) = array::open_with(Arc::new(bytes::Bytes::copy_from_slice(file)), format, options) {
        check_reader(&mut *reader);
    }
}

/// Reads an array in whole and in windows, which must agree. Gives what was read.
pub fn check_reader(reader: &mut dyn ArrayReader) -> Option<Array> {
    let info = reader.info().clone();
    let (rows, row) = (info.rows(), info.row_bytes());
    assert!(!info.dtype.is_big_endian());
    if rows.saturating_mul(row) > LARGE {
        if row <= LARGE {
            let _ = reader.read_rows(rows / 2, 1, &mut vec![0; row]);
        }
        return None;
    }
    let whole = reader.read_all();
    let mut parts = Vec::new();
    let step = (rows / 3).max(1);
    let mut windows = (0..rows).step_by(step).map(|start| {
        let mut part = vec![0; step.min(rows - start) * row];
        reader.read_rows(start, step.min(rows - start), &mut part).map(|()| parts.extend(part))
    });
    let windows = windows.find_map(Result::err);
    match (whole, windows) {
        (Ok(whole), None) => {
            // A whole that has a zero-length axis is read as no rows at all.
            assert!(whole.data()[..] == parts[..] && whole.shape() == info.shape && *whole.dtype() == info.dtype);
            // Going back must give the same again.
            if rows > 1 && row > 0 {
                let mut first = vec![0; row];
                reader.read_rows(0, 1, &mut first).expect("was read before");
                assert!(first == parts[..row]);
            }
            Some(whole)
        }
        (Err(_), Some(_)) => None,
        (whole, windows) => panic!("in whole {:?}, in windows {windows:?}", whole.map(|_| ())),
    }
}
