//! Any bytes as an npz shard of a fixed schema: what is read whole is read the same in parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sigbank_format::container::Places;
use sigbank_format::container::npz::ShardReader;
use sigbank_format::model::{Field, FieldType, Schema};
use sigbank_format::{FormatError, Result};
use std::sync::Arc;

/// Values of up to 64 KiB each.
struct Collected(Vec<[Vec<u8>; 5]>);

impl Places for Collected {
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        if len > 64 << 10 {
            return Err(FormatError::limit("a large value"));
        }
        let value = &mut self.0[row][field];
        assert!(value.is_empty(), "asked for twice");
        value.resize(len, 0xaa);
        Ok(value)
    }
    fn place_as(&mut self, row: usize, field: usize, _: &FieldType, len: usize) -> Result<&mut [u8]> {
        self.place(row, field, len)
    }
}

fn schema() -> Schema {
    let field = |name: &str, ty| Field { name: name.into(), ty, metadata: Default::default() };
    Schema {
        fields: vec![
            field("a", FieldType::Array { dtype: "<i2".parse().expect("a dtype"), shape: vec![2] }),
            field("n", FieldType::Int),
            field("s", FieldType::Str),
            field("b", FieldType::Bytes { len: None }),
            field("k", FieldType::Bytes { len: Some(2) }),
        ],
    }
}

fuzz_target!(|input: &[u8]| {
    let file = Arc::new(bytes::Bytes::copy_from_slice(input));
    let open = || ShardReader::open(file.clone(), &schema());
    let Ok(mut shard) = open() else { return };
    let Ok(n) = shard.records() else { return };
    let differing = shard.differing();
    let records: Vec<u32> = (0..n.min(64) as u32).collect();
    let mut all = Collected(vec![Default::default(); records.len()]);
    if shard.read(&records, &[0, 1, 2, 3, 4], &mut all).is_err() {
        return;
    }
    assert!(differing.is_ok() || n > 64);
    let Ok(mut shard) = open() else { panic!("opened before") };
    let some: Vec<u32> = records.iter().copied().step_by(3).collect();
    let mut part = Collected(vec![Default::default(); some.len()]);
    shard.read(&some, &[4, 2, 0], &mut part).expect("was read");
    for (values, &record) in part.0.iter().zip(&some) {
        for (i, field) in [4, 2, 0].into_iter().enumerate() {
            assert_eq!(values[i], all.0[record as usize][field]);
        }
    }
});
