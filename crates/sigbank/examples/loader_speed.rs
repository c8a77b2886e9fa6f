//! How fast the loader hands out records that lie in memory: `cargo run --release --example loader_speed [THREADS]`.

use sigbank::format::model::{DType, Field, FieldType, Kind, Metadata, Schema};
use sigbank::layout::{RowSink, Source, Split, Units, Verified};
use sigbank::loader::{Loader, Options, Shuffle};
use sigbank::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

/// Records of a trace and a label. Each unit is the same memory, which is larger than a cache.
#[derive(Debug)]
struct Plain {
    units: Arc<Units>,
    schema: Schema,
    metadata: Metadata,
    trace: usize,
    data: Vec<u8>,
    random_access: bool,
}

const UNIT_BYTES: usize = 64 << 20;

impl Plain {
    fn new(records: usize, trace: usize, random_access: bool) -> Result<Self> {
        let dtype = DType::new(Kind::UInt, 1)?;
        let field = |name: &str, n| {
            let ty = FieldType::Array { dtype: dtype.clone(), shape: vec![n] };
            Field { name: name.into(), ty, metadata: Metadata::new() }
        };
        let per_unit = (UNIT_BYTES / trace).min(records / 4).max(1);
        Ok(Self {
            units: Units::from_counts(std::iter::repeat_n(per_unit as u64, records / per_unit)).into(),
            schema: Schema { fields: vec![field("trace", trace), field("label", 1)] },
            metadata: Metadata::new(),
            trace,
            data: (0..per_unit * trace).map(|i| i as u8).collect(),
            random_access,
        })
    }
}

impl Source for Plain {
    fn layout(&self) -> &'static str {
        "plain"
    }
    fn location(&self) -> String {
        String::new()
    }
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn splits(&self) -> Vec<Split> {
        Vec::new()
    }
    fn units(&self, _: &str) -> Result<Arc<Units>> {
        Ok(self.units.clone())
    }
    fn unit_name(&self, _: &str, unit: usize) -> Result<String> {
        Ok(unit.to_string())
    }
    fn unit_metadata(&self, _: &str, _: usize) -> Result<Metadata> {
        Ok(Metadata::new())
    }
    fn random_access(&self) -> bool {
        self.random_access
    }
    fn read_unit(&self, _: &str, _: usize, records: &[u32], _: &[usize], out: &mut dyn RowSink) -> Result<()> {
        for (row, &index) in records.iter().enumerate() {
            let at = index as usize * self.trace;
            let value = self.data.get(at..at + self.trace).ok_or_else(|| Error::invalid("past the end"))?;
            out.place(row, 0, self.trace)?.copy_from_slice(value);
            out.place(row, 1, 1)?.fill(index as u8);
        }
        Ok(())
    }
    fn verify(&self, _: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        Ok(Verified::default())
    }
    fn root_digest(&self) -> Result<String> {
        Ok(String::new())
    }
}

fn main() -> Result<()> {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    let from = vec![1u8; 64 << 20];
    let mut to = vec![2u8; 4 << 20];
    let began = Instant::now();
    for _ in 0..16 {
        for part in from.chunks(4 << 20) {
            to.copy_from_slice(part);
            std::hint::black_box(&mut to);
        }
    }
    println!("copying alone, one thread, into 4 MiB again and again: {:.1} GB/s", 1.073 / began.elapsed().as_secs_f64());
    println!("{threads} threads; record bytes, batch, units as a whole?, shuffle: million records/s, GB/s");
    for (records, trace, batch) in
        [(4_000_000, 784, 256), (2_000_000, 784, 32), (4_000_000, 784, 4096), (20_000, 160_000, 32), (20_000, 160_000, 256)]
    {
        for random_access in [true, false] {
            let source = Arc::new(Plain::new(records, trace, random_access)?);
            let buffer = if trace > 1000 { 512 } else { 10_000 };
            for shuffle in [Shuffle::None, Shuffle::Buffer(buffer), Shuffle::Global] {
                if shuffle == Shuffle::Global && !random_access {
                    continue;
                }
                let began = Instant::now();
                let options = Options { threads, shuffle, ..Options::new("train", batch) };
                let mut rows = 0;
                for batch in Loader::new(source.clone(), options)? {
                    rows += batch?.rows;
                }
                let seconds = began.elapsed().as_secs_f64();
                let (rate, bytes) = (rows as f64 / seconds / 1e6, rows as f64 * (trace + 1) as f64 / seconds / 1e9);
                println!("{trace:7} {batch:5} {:5} {:14}: {rate:7.3} {bytes:6.2}", !random_access, format!("{shuffle:?}"));
            }
        }
    }
    Ok(())
}
