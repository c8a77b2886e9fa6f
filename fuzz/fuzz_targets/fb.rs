//! FlatBuffers shards: any bytes, looked at whole, in blocks and as a stream, give the same spans or the same refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sigbank_format::container::flatbuffer::{Attribute, Blocks, Prefix, Sliding, count, reversed, spans};

fuzz_target!(|data: &[u8]| {
    let attributes = [("a", Some(4)), ("b", None), ("c", Some(5000))].map(|(name, len)| Attribute { name: name.into(), len });
    let Ok(n) = count(&mut &data[..]) else { return };
    let records: Vec<u32> = (0..n.min(64) as u32).collect();
    let whole = spans(&mut &data[..], n, &records, &[0, 1, 2], &attributes);
    let blocks = spans(&mut Blocks::new(data, 0), n, &records, &[0, 1, 2], &attributes);
    let stream = spans(&mut Prefix::new(data, 1 << 31, Vec::new()), n, &records, &[0, 1, 2], &attributes);
    assert_eq!(whole.as_ref().ok(), blocks.as_ref().ok());
    assert_eq!(whole.as_ref().ok(), stream.as_ref().ok());
    let mut prefix = Prefix::new(data, 1 << 31, Vec::new());
    if let Some(tables) = reversed(&mut prefix, n) {
        let mut shard = Sliding::new(prefix);
        let mut run = || -> sigbank_format::Result<()> {
            for &record in records.iter().rev() {
                for (table, field) in shard.example(tables[record as usize], &[0, 1, 2], &attributes)? {
                    let span = shard.value(table, &attributes[field])?;
                    shard.read(&mut vec![0; span.len.min(1 << 20)])?;
                }
            }
            Ok(())
        };
        let _ = run();
    }
});
