//! How fast a signal-dataset is written and read, and how much memory that takes.
//!
//!     cargo run --release -p sigbank --example signal_dataset_speed -- FOLDER small|large [THREADS]
//!
//! `small`: 100,000 records of one complex64 field [2, 128]. `large`: 4,000 of [4, 4096], compressible about 2:1.

use bytes::Bytes;
use sigbank::Result;
use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
use sigbank::layout::signal_dataset::{Dataset, Options, Publication, Record, publish, write_shard};
use sigbank::store::LocalStore;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn record(i: u64, shape: [usize; 2]) -> Result<Record> {
    let mut state = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // Twelve random bits in each float of 32.
    let sample = |_| (((random(&mut state) & 0xfff) as f32 - 2048.0) / 256.0).to_le_bytes();
    let samples: Vec<u8> = (0..shape[0] * shape[1] * 2).flat_map(sample).collect();
    let axes = vec![Axis::new("channel", shape[0] as u64), Axis::new("time", shape[1] as u64)];
    let field = FieldMetadata { axes, ..FieldMetadata::new("iq", "complex64".parse()?, shape.to_vec()) };
    Ok(Record { metadata: RecordMetadata::new(format!("record-{i:08}"), vec![field]), data: vec![Bytes::from(samples)] })
}

fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0) / 1024
}

fn timed<T>(what: &str, records: u64, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let done = run()?;
    let seconds = start.elapsed().as_secs_f64();
    let (rss, peak) = (memory("VmRSS"), memory("VmHWM"));
    println!("{what:32} {:10.2} us a record   ({rss} MB, peak {peak} MB)", seconds / records as f64 * 1e6);
    Ok(done)
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let folder = args.get(1).map_or("signal_speed", String::as_str);
    let large = args.get(2).is_some_and(|word| word == "large");
    let threads = args.get(3).and_then(|n| n.parse().ok()).unwrap_or(2);
    let (count, shape) = if large { (4000, [4, 4096]) } else { (100_000, [2, 128]) };
    let options = Options { threads, ..Options::default() };
    let root = Path::new(folder).join(if large { "large" } else { "small" });
    if !root.join("root.json").exists() {
        let store: Arc<dyn sigbank::store::Store> = Arc::new(LocalStore::create(&root)?);
        let made: Vec<Record> = (0..count / 4).map(|i| record(i, shape)).collect::<Result<_>>()?;
        let mut shards = Vec::new();
        for part in 0..4 {
            let records = made.iter().cloned().map(Ok);
            shards.push(timed("write_shard", count / 4, || write_shard(&*store, records, &format!("w{part}"), 0, &options))?);
        }
        timed("publish", count, || publish(&store, &shards, &Publication::new("speed", "v1"), &options))?;
    }
    let dataset = timed("open", 1, || Dataset::open(&root, options.clone()))?;
    let mut state = 7;
    let some: Vec<u64> = (0..count.min(20_000)).map(|_| random(&mut state) % count).collect();
    for turn in 0..2 {
        timed(&format!("record, turn {turn}"), some.len() as u64, || some.iter().try_for_each(|&i| dataset.record(i).map(drop)))?;
    }
    timed("read of 64 at random", some.len() as u64, || some.chunks(64).try_for_each(|chunk| dataset.read(chunk).map(drop)))?;
    timed("record_metadata", some.len() as u64, || some.iter().try_for_each(|&i| dataset.record_metadata(i).map(drop)))?;
    timed("batches", count, || dataset.batches(0..count).try_for_each(|batch| batch.map(drop)))?;
    timed("metadata_batches", count, || dataset.metadata_batches(0..count).try_for_each(|batch| batch.map(drop)))?;
    timed("verify", count, || dataset.verify(&mut |_, _| true))?;
    Ok(())
}
