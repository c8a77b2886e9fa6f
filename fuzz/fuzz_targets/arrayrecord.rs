//! ArrayRecord files. The input is a list of chunks; they are laid out in blocks with right hashes, which would keep the fuzzer from all
//! that is behind them, and with an index and a postscript around them.
#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use highway::{HighwayHash, HighwayHasher, Key};
use libfuzzer_sys::fuzz_target;
use sigbank_format::Result;
use sigbank_format::container::arrayrecord::{Compression, Decoder, Options, Reader, Writer, recover};

const BLOCK: usize = 1 << 16;

fn hash(bytes: &[u8]) -> u64 {
    let words = [b"Riegeli/", b"records\n"].map(|word| u64::from_le_bytes(*word));
    HighwayHasher::new(Key([words[0], words[1], words[0], words[1]])).hash64(bytes)
}

fn varint(input: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = input.split_first() else { break };
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    value
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a chunk. Returns its place.
fn append(file: &mut Vec<u8>, kind: u8, records: u64, decoded: u64, data: &[u8]) -> u64 {
    let mut payload = vec![0; 8];
    payload.extend((data.len() as u64).to_le_bytes());
    payload.extend(hash(data).to_le_bytes());
    payload.extend((u64::from(kind) | records << 8).to_le_bytes());
    payload.extend(decoded.to_le_bytes());
    let hashed = hash(&payload[8..]);
    payload[..8].copy_from_slice(&hashed.to_le_bytes());
    payload.extend_from_slice(data);
    // As long as it has records, in reason.
    let begin = file.len();
    let least = begin + records.min(1 << 17) as usize;
    let mut headers = Vec::new();
    let mut payload = &payload[..];
    while !payload.is_empty() || file.len() < least || (1..25).contains(&(file.len() % BLOCK)) {
        if file.len() % BLOCK == 0 {
            headers.push(file.len());
            file.extend([0; 24]);
        }
        let (piece, rest) = payload.split_at(payload.len().min(BLOCK - file.len() % BLOCK));
        file.extend_from_slice(piece);
        if payload.is_empty() {
            file.push(0);
        }
        payload = rest;
    }
    let end = file.len();
    for at in headers {
        let links = [(at - begin) as u64, (end - at) as u64].map(u64::to_le_bytes).concat();
        file[at..at + 8].copy_from_slice(&hash(&links).to_le_bytes());
        file[at + 8..at + 24].copy_from_slice(&links);
    }
    begin as u64
}

fn pad(file: &mut Vec<u8>) {
    if file.len() % BLOCK != 0 {
        let left = BLOCK - file.len() % BLOCK;
        let len = if left < 40 { left + BLOCK - 24 - 40 } else { left - 40 };
        append(file, b'p', 0, 0, &vec![0; len]);
        assert_eq!(file.len() % BLOCK, 0);
    }
}

/// The data of an uncompressed chunk.
fn simple(records: &[Vec<u8>]) -> Vec<u8> {
    let mut sizes = Vec::new();
    records.iter().for_each(|record| put_varint(record.len() as u64, &mut sizes));
    let mut out = vec![0];
    put_varint(sizes.len() as u64, &mut out);
    [out, sizes, records.concat()].concat()
}

fn message(fields: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        out.push((i as u8 + 1) << 3);
        put_varint(*field, &mut out);
    }
    out
}

/// A file of the chunks that the input describes. Its first byte says whether the last of them is the index, and whether each begins a
/// block.
fn file(input: &[u8]) -> Vec<u8> {
    let (flags, mut input) = input.split_first().map_or((0, input), |(flags, rest)| (*flags, rest));
    let mut file = Vec::new();
    append(&mut file, b's', 0, 0, b"");
    let mut footer = 0;
    let mut entries = Vec::new();
    while let Some((kind, rest)) = input.split_first() {
        input = rest;
        let records = varint(&mut input) & ((1 << 56) - 1);
        let decoded = varint(&mut input);
        let len = varint(&mut input).min(input.len() as u64);
        let (data, rest) = input.split_at(len as usize);
        input = rest;
        footer = append(&mut file, *kind, records, decoded, data);
        if records > 0 {
            entries.push([footer, decoded, records]);
        }
        if flags & 2 != 0 {
            pad(&mut file);
        }
    }
    if flags & 1 == 0 || footer == 0 {
        let metadata = message(&[1, entries.len() as u64, entries.iter().fold(0, |sum, e| sum.wrapping_add(e[2]))]);
        let mut footers = vec![[vec![10, metadata.len() as u8], metadata].concat()];
        footers.extend(entries.iter().map(|entry| message(entry)));
        footer = append(&mut file, b'r', footers.len() as u64, footers.concat().len() as u64, &simple(&footers));
    }
    pad(&mut file);
    let mut postscript = message(&[footer]);
    postscript.push(16);
    put_varint(0x7193_0e70_4fda_e05e, &mut postscript);
    append(&mut file, b'r', 3, 3 * postscript.len() as u64, &simple(&vec![postscript; 3]));
    pad(&mut file);
    file
}

/// The file's records, read in several ways.
fn read(file: &Bytes) -> Result<Vec<Result<Vec<u8>>>> {
    let reader = Reader::open(Arc::new(file.clone()))?;
    let (mut forth, mut back) = (Decoder::default(), Decoder::default());
    let last = reader.len().min(200);
    let mut one = |i| {
        let mut out = Vec::new();
        forth.read(&reader, i, &mut out).map(|()| out)
    };
    let all: Vec<_> = (0..last).map(&mut one).collect();
    let mut out = Vec::new();
    for i in (0..last).rev() {
        let span = reader.span(i).expect("is in the file");
        let result = back.decode(&reader, i, &file[span.start as usize..span.end as usize], &mut out);
        match (result, &all[i as usize]) {
            (Ok(()), Ok(record)) => assert_eq!(&out, record),
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
            other => panic!("{other:?}"),
        }
    }
    Ok(all)
}

fuzz_target!(|input: &[u8]| {
    // Alone, and as the last block of something.
    let _ = read(&Bytes::copy_from_slice(input)).is_ok();
    let _ = recover(Arc::new(Bytes::copy_from_slice(input))).is_ok();
    let made = Bytes::from(file(input));
    let Ok(all) = read(&made) else {
        let _ = recover(Arc::new(made)).map(|found| found.reader.len());
        return;
    };
    let Ok(records) = all.into_iter().collect::<Result<Vec<_>>>() else { return };
    // The chunks one by one say the same, where the index names all of them.
    let found = recover(Arc::new(made)).expect("begins rightly");
    if found.fault.is_none() {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        for (i, record) in records.iter().enumerate() {
            decoder.read(&found.reader, i as u64, &mut out).expect("was read");
            assert_eq!(&out, record);
        }
    }
    // And what was read can be written.
    let byte = input.last().copied().unwrap_or_default();
    let options = Options {
        compression: [Compression::None, Compression::default(), Compression::Snappy, Compression::Brotli { level: 1 }]
            [byte as usize % 4],
        group_size: u32::from(byte / 4 % 8) + 1,
        pad_to_block_boundary: byte > 127,
    };
    let mut writer = Writer::new(Vec::new(), options).expect("can be");
    records.iter().for_each(|record| writer.push(record).expect("can be written"));
    let again = read(&writer.finish().expect("can be written").0.into()).expect("was written");
    assert_eq!(again.into_iter().map(|record| record.expect("was written")).collect::<Vec<_>>(), records);
});
