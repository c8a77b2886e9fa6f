//! What the tests of npz shards share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use sigbank_format::Result;
use sigbank_format::container::Places;
use sigbank_format::container::npz::{ShardBuilder, ShardReader};
use sigbank_format::model::{Field, FieldType, Schema};
use sigbank_format::read_at::ReadAt;
use std::sync::Arc;

/// One value as it was handed over, with its stored type where that differs.
pub type Value = (Option<FieldType>, Vec<u8>);

/// Collects values.
pub struct Collected(pub Vec<Vec<Option<Value>>>);

impl Collected {
    pub fn new(rows: usize, fields: usize) -> Self {
        Self(vec![vec![None; fields]; rows])
    }
    fn put(&mut self, row: usize, field: usize, ty: Option<&FieldType>, len: usize) -> &mut [u8] {
        let slot = &mut self.0[row][field];
        assert!(slot.is_none(), "value {row}, {field} is asked for twice");
        &mut slot.insert((ty.cloned(), vec![0xaa; len])).1
    }
    pub fn values(self) -> Vec<Vec<Value>> {
        self.0.into_iter().map(|row| row.into_iter().map(|v| v.expect("each value is placed")).collect()).collect()
    }
}

impl Places for Collected {
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        Ok(self.put(row, field, None, len))
    }
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> Result<&mut [u8]> {
        Ok(self.put(row, field, Some(stored), len))
    }
}

pub fn field(name: &str, ty: FieldType) -> Field {
    Field { name: name.into(), ty, metadata: Default::default() }
}

pub fn array(dtype: &str, shape: &[usize]) -> FieldType {
    FieldType::Array { dtype: dtype.parse().unwrap(), shape: shape.to_vec() }
}

pub fn open(file: impl Into<bytes::Bytes>, schema: &Schema) -> Result<ShardReader> {
    let file: bytes::Bytes = file.into();
    ShardReader::open(Arc::new(file), schema)
}

/// Some records' fields.
pub fn read(shard: &mut ShardReader, records: &[u32], fields: &[usize]) -> Result<Vec<Vec<Value>>> {
    let mut out = Collected::new(records.len(), fields.len());
    shard.read(records, fields, &mut out)?;
    Ok(out.values())
}

/// Everything in a shard.
pub fn read_all(shard: &mut ShardReader, fields: usize) -> Result<Vec<Vec<Value>>> {
    let records: Vec<u32> = (0..shard.records()? as u32).collect();
    read(shard, &records, &(0..fields).collect::<Vec<_>>())
}

pub fn build(schema: &Schema, records: &[Vec<Vec<u8>>], zip: bool) -> Vec<u8> {
    let mut builder = ShardBuilder::new(schema).unwrap();
    for record in records {
        builder.push(&record.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    }
    builder.finish(zip).unwrap().concat()
}

/// A source that counts its reads.
pub struct Counting {
    pub bytes: Vec<u8>,
    pub reads: std::sync::atomic::AtomicUsize,
    pub read: std::sync::atomic::AtomicUsize,
}

impl ReadAt for Counting {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        self.reads.fetch_add(1, Relaxed);
        self.read.fetch_add(buf.len(), Relaxed);
        self.bytes[..].read_at(offset, buf)
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<ShardReader>();
    is_send::<ShardBuilder>();
};

pub type Named = (&'static str, FieldType);

/// An npy file of a dtype that may be none.
pub fn member(dtype: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend_from_slice(format!("{text:117}\n").as_bytes());
    file.extend_from_slice(data);
    file
}

/// An archive made by the `zip` crate.
pub fn zip_of(members: &[(&str, Vec<u8>)], deflated: bool) -> Vec<u8> {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let method = if deflated { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    for (name, bytes) in members {
        zip.start_file(*name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
