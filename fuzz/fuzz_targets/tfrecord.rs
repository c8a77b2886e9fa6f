//! TFRecord shards: any bytes, read and passed over in pieces of any size, and their records as examples. Checksums are mended, for
//! they would keep the fuzzer from all that is behind them.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use sigbank_format::Result;
use sigbank_format::container::Places;
use sigbank_format::container::tfrecord::{Records, frame};
use sigbank_format::model::{Field, FieldType, Schema};
use sigbank_format::record::tf_example::Codec;

/// Hands out a few bytes at once.
struct Dribble<'a>(&'a [u8], usize);
impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(buf.len());
        self.0.read(&mut buf[..n])
    }
}

#[derive(Default)]
struct Value(Vec<u8>);
impl Places for Value {
    fn place(&mut self, _row: usize, _field: usize, len: usize) -> Result<&mut [u8]> {
        self.0 = vec![0; len];
        Ok(&mut self.0)
    }
}

/// The fields of the seeds.
const FIELDS: [(&str, &str, &[usize]); 20] = [
    ("int8", "int8", &[2, 2]),
    ("uint8", "uint8", &[5, 60]),
    ("byte", "uint8", &[]),
    ("int32", "int32", &[3]),
    ("int64", "int64", &[1, 3]),
    ("float16", "float16", &[2, 3]),
    ("half", "float16", &[]),
    ("float32", "float32", &[2, 3]),
    ("single", "float32", &[]),
    ("number", "int", &[]),
    ("text", "str", &[]),
    ("blob", "bytes", &[]),
    ("octets", "bytes", &[4]),
    ("piece", "bytes", &[4]),
    ("int16", "int16", &[2]),
    ("uint32", "uint32", &[2]),
    ("unpacked", "int32", &[4]),
    ("unpacked_float", "float64", &[3]),
    ("splat", "float16", &[2, 2]),
    ("uint64", "uint64", &[1]),
];

fn field((name, dtype, shape): (&str, &str, &[usize])) -> Field {
    let ty = match dtype {
        "int" => FieldType::Int,
        "str" => FieldType::Str,
        "bytes" => FieldType::Bytes { len: shape.first().copied() },
        dtype => FieldType::Array { dtype: dtype.parse().expect("a dtype"), shape: shape.to_vec() },
    };
    Field { name: name.into(), ty, metadata: Default::default() }
}

/// The same file with right checksums, as far as its lengths are possible.
fn mended(file: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = file;
    while let Some((length, after)) = rest.split_first_chunk::<8>() {
        let length = u64::from_le_bytes(*length) as usize;
        let Some(data) = after.get(4..).and_then(|a| a.get(..length)) else { break };
        frame(data, &mut out);
        rest = after.get(4 + length + 4..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

fn framing(file: &[u8], at_once: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut records = Records::new(Dribble(file, at_once));
    let mut skipping = Records::new(file);
    loop {
        match (records.next(), skipping.skip()) {
            (Ok(Some(record)), Ok(true)) => all.push(record.to_vec()),
            (Ok(None), Ok(false)) => break,
            (Err(a), Err(b)) => {
                assert_eq!(a.to_string(), b.to_string());
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

fuzz_target!(|input: &[u8]| {
    let (at_once, file) = input.split_last().map_or((1, input), |(n, file)| (usize::from(*n) + 1, file));
    framing(file, at_once);
    let codec = Codec::new(&Schema { fields: FIELDS.map(field).to_vec() }).expect("all are read");
    for record in framing(&mended(file), at_once) {
        for (place, one) in FIELDS.into_iter().enumerate() {
            let mut value = Value::default();
            if codec.decode(&record, 0, &[place], &mut value).is_err() {
                continue;
            }
            let alone = Codec::new(&Schema { fields: vec![field(one)] }).expect("is read");
            if alone.writable().is_ok() {
                let (mut written, mut again) = (Vec::new(), Value::default());
                alone.encode(&[&value.0], &mut written).expect("was read");
                alone.decode(&written, 0, &[0], &mut again).expect("was written");
                assert_eq!(again.0, value.0);
            }
        }
    }
});
