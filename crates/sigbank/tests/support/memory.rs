//! A dataset in memory for tests and measurements of the loader: records of an id, a trace and a note, all computed from
//! their unit and their place in it.
#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]

use sigbank::format::model::{Field, FieldType, Metadata, Schema};
use sigbank::layout::{RowSink, Source, Split, Units, Verified};
use sigbank::{Error, Result};
use std::fmt;
use std::sync::Arc;

type Hook = Box<dyn Fn(usize, &[u32]) -> Result<()> + Send + Sync>;

/// The dataset; its only split is `train`.
pub struct Memory {
    units: Arc<Units>,
    schema: Schema,
    metadata: Metadata,
    random_access: bool,
    trace: usize,
    pattern: Vec<u8>,
    hook: Hook,
}

/// The positions of the fields.
pub const ID: usize = 0;
pub const TRACE: usize = 1;
pub const NOTE: usize = 2;

impl Memory {
    pub fn new(counts: &[u64], trace: usize, random_access: bool) -> Self {
        let array = |dtype: &str, n| FieldType::Array { dtype: dtype.parse().unwrap(), shape: vec![n] };
        let field = |name: &str, ty| Field { name: name.into(), ty, metadata: Metadata::new() };
        let fields = vec![field("id", array("<u4", 2)), field("trace", array("|u1", trace)), field("note", FieldType::Str)];
        let pattern = (0..trace + 256).map(|i| (i * 7 % 251) as u8).collect();
        Self {
            units: Units::from_counts(counts.iter().copied()).into(),
            schema: Schema { fields },
            metadata: Metadata::new(),
            random_access,
            trace,
            pattern,
            hook: Box::new(|_, _| Ok(())),
        }
    }
    /// Calls this before each read.
    pub fn before_read(mut self, hook: impl Fn(usize, &[u32]) -> Result<()> + Send + Sync + 'static) -> Self {
        self.hook = Box::new(hook);
        self
    }
    pub fn id(unit: u32, index: u32) -> [u8; 8] {
        let mut id = [0; 8];
        id[..4].copy_from_slice(&unit.to_le_bytes());
        id[4..].copy_from_slice(&index.to_le_bytes());
        id
    }
    pub fn trace(&self, unit: u32, index: u32) -> &[u8] {
        let at = (unit as usize * 31 + index as usize) % 256;
        &self.pattern[at..at + self.trace]
    }
    pub fn note(unit: u32, index: u32) -> String {
        format!("{unit}/{index}").repeat(index as usize % 3)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Source for Memory {
    fn layout(&self) -> &'static str {
        "memory"
    }
    fn location(&self) -> String {
        "mem".into()
    }
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn splits(&self) -> Vec<Split> {
        vec![Split { name: "train".into(), records: self.units.records(), units: self.units.len() as u64 }]
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        if split == "train" { Ok(self.units.clone()) } else { Err(Error::not_found(format!("split '{split}'"))) }
    }
    fn unit_name(&self, _: &str, unit: usize) -> Result<String> {
        Ok(format!("shard-{unit}"))
    }
    fn unit_metadata(&self, _: &str, _: usize) -> Result<Metadata> {
        Ok(Metadata::new())
    }
    fn random_access(&self) -> bool {
        self.random_access
    }
    fn read_unit(&self, _: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        (self.hook)(unit, records)?;
        assert!(records.is_sorted() && records.last().is_none_or(|&r| u64::from(r) < self.units.count(unit)));
        for (row, &index) in records.iter().enumerate() {
            for (at, &field) in fields.iter().enumerate() {
                match field {
                    ID => out.place(row, at, 8)?.copy_from_slice(&Self::id(unit as u32, index)),
                    TRACE => out.place(row, at, self.trace)?.copy_from_slice(self.trace(unit as u32, index)),
                    _ => {
                        let note = Self::note(unit as u32, index);
                        out.place(row, at, note.len())?.copy_from_slice(note.as_bytes());
                    }
                }
            }
        }
        Ok(())
    }
    fn verify(&self, _: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        Ok(Verified::default())
    }
    fn root_digest(&self) -> Result<String> {
        Ok("memory".into())
    }
}
