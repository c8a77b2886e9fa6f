//! ArrayRecord files that the `array_record` package wrote, and ours that it reads (see `testdata/arrayrecord/make.py`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sigbank_format::container::arrayrecord::{Compression, Decoder, EncodedChunk, Encoder, Options, Reader, Writer, recover};
use sigbank_format::error::FormatErrorKind;

const NONE: Compression = Compression::None;
const ZSTD: Compression = Compression::Zstd { level: 3, window_log: 20 };

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/arrayrecord")
}

fn golden(name: &str) -> Bytes {
    let path = dir().join(format!("{name}.arrayrecord.gz"));
    let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut file = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut file).unwrap();
    file.into()
}

fn said() -> Value {
    serde_json::from_slice(&std::fs::read(dir().join("files.json")).unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As make.py makes them.
fn pattern(length: usize, step: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * step + i / 256) % 251) as u8).collect()
}

/// The records of one of make.py's lists: checked against its digests where it gives them, which is before their use.
fn records(list: &str) -> Vec<Vec<u8>> {
    match list {
        "many" => (0..3000).map(|i| i.to_string().into_bytes()).collect(),
        "empty5000" => vec![Vec::new(); 5000],
        "empty200000" => vec![Vec::new(); 200_000],
        "noise" => all(&Reader::open(Arc::new(golden("noise_zstd"))).unwrap()),
        "none" => Vec::new(),
        "empty" => vec![Vec::new()],
        "mixed" => {
            let sizes = [0, 1, 300, 0, 65_512, 7, 65_536, 0, 200_000, 70_000, 1_300_000, 0, 2_000, 1_440_000];
            let mut records: Vec<_> = sizes.into_iter().enumerate().map(|(i, n)| pattern(n, i + 1)).collect();
            records.extend((0..69).map(|i| pattern(17 * i % 1000, i)));
            records.push(Vec::new());
            records
        }
        list => panic!("{list}"),
    }
}

fn all(reader: &Reader) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    let mut out = vec![0xaa; 3];
    (0..reader.len())
        .map(|i| {
            decoder.read(reader, i, &mut out).unwrap();
            out.clone()
        })
        .collect()
}

fn written(records: &[Vec<u8>], compression: Compression, group_size: u32, pad_to_block_boundary: bool) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Options { compression, group_size, pad_to_block_boundary }).unwrap();
    for (i, record) in records.iter().enumerate() {
        assert_eq!(writer.len(), i as u64);
        writer.push(record).unwrap();
    }
    let (file, len) = writer.finish().unwrap();
    assert_eq!(file.len() as u64, len);
    file
}

#[test]
fn the_packages_files() {
    let said = said();
    let files = said["files"].as_object().unwrap();
    assert_eq!(files.len(), 26);
    let mut decoder = Decoder::default();
    for (name, facts) in files {
        let file = golden(name);
        let list = facts["records"].as_str().unwrap();
        let reader = Reader::open(Arc::new(file.clone())).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(reader.writer_options(), facts["writer_options"].as_str().unwrap());
        assert_eq!(reader.len(), said["counts"][list].as_u64().unwrap(), "{name}");
        if name == "transposed" {
            let e = reader.read(3).unwrap_err();
            assert_eq!(e.kind(), FormatErrorKind::Unsupported);
            assert!(e.to_string().contains("transpose:false"), "{e}");
            continue;
        }
        let found = all(&reader);
        if let Some(wanted) = said["records"].get(list) {
            let found: Vec<_> = found.iter().map(|record| json!([record.len(), sha256(record)])).collect();
            assert_eq!(&Value::from(found), wanted, "{name}");
        }
        assert!(found == records(list), "{name}");
        // In another order, and from bytes that were read elsewhere.
        let mut out = Vec::new();
        for i in (0..reader.len()).rev().step_by(7) {
            let span = reader.span(i).unwrap();
            decoder.decode(&reader, i, &file[span.start as usize..span.end as usize], &mut out).unwrap();
            assert!(out == found[i as usize], "{name} {i}");
        }
        assert_eq!(reader.read(reader.len()).unwrap_err().kind(), FormatErrorKind::Invalid);
        // And all of it, by walking.
        let walked = recover(Arc::new(file)).unwrap();
        assert!(walked.fault.is_none(), "{name}: {:?}", walked.fault);
        assert!(all(&walked.reader) == found, "{name}");
    }
}

#[test]
fn uncompressed_files_are_the_packages_byte_for_byte() {
    for (name, list, group_size, padded) in [
        ("plain1", "mixed", 1, false),
        ("plain16", "mixed", 16, false),
        ("padded4_plain", "mixed", 4, true),
        ("none_plain", "none", 1, false),
        ("empty_plain", "empty", 1, false),
        ("empty200000_plain", "empty200000", 200_000, false),
        ("many_plain", "many", 1, false),
    ] {
        assert!(written(&records(list), NONE, group_size, padded) == golden(name), "{name}");
    }
}

/// As far as compressors of different versions agree.
#[test]
fn small_compressed_files_are_the_packages_too() {
    for (name, list) in [("none", "none"), ("empty", "empty")] {
        assert!(written(&records(list), Compression::default(), 1, false) == golden(name), "{name}");
    }
    // Records of some bytes are the same, the index behind them is not.
    let (ours, theirs) = (written(&records("many"), ZSTD, 1, false), golden("many"));
    assert_eq!(ours[..200_000], theirs[..200_000]);
    assert!(written(&records("mixed"), Compression::Snappy, 16, false) == golden("snappy16"));
}

#[test]
fn first_records_that_end_around_a_blocks_end() {
    let edges: Value = serde_json::from_slice(&std::fs::read(dir().join("edges.json")).unwrap()).unwrap();
    let edges = edges.as_object().unwrap();
    assert_eq!(edges.len(), 241);
    let rest = [pattern(100, 3), pattern(130_000, 5)];
    for (length, wanted) in edges {
        let records = [&[pattern(length.parse().unwrap(), 7)], &rest[..]].concat();
        let file = written(&records, NONE, 1, false);
        assert_eq!(&sha256(&file), wanted, "{length}");
        assert!(all(&Reader::open(Arc::new(Bytes::from(file))).unwrap()) == records);
    }
}

#[test]
fn chunks_encoded_elsewhere() {
    let records = records("mixed");
    for group_size in [1, 16] {
        let options = Options { group_size, ..Options::default() };
        let mut writer = Writer::new(Vec::new(), options).unwrap();
        let mut encoder = Encoder::new(&options).unwrap();
        let mut chunk = EncodedChunk::default();
        for group in records.chunks(group_size as usize) {
            let group: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
            encoder.encode(&group, &mut chunk).unwrap();
            writer.push_chunk(&chunk).unwrap();
        }
        assert!(writer.finish().unwrap().0 == written(&records, ZSTD, group_size, false));
    }
}

/// Then `make.py --check` on that folder.
#[test]
#[ignore = "writes files into the folder that ARRAYRECORD_OURS names, for the package to read"]
fn write_ours() {
    let folder = PathBuf::from(std::env::var("ARRAYRECORD_OURS").expect("ARRAYRECORD_OURS"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut said = serde_json::Map::new();
    let mut put = |name: String, records: &[Vec<u8>], compression, group_size, pad_to_block_boundary| {
        std::fs::write(folder.join(&name), written(records, compression, group_size, pad_to_block_boundary)).unwrap();
        let options = Options { compression, group_size, pad_to_block_boundary }.to_string();
        let facts: Vec<_> = records.iter().map(|record| json!([record.len(), sha256(record)])).collect();
        said.insert(name, json!({"writer_options": options, "records": facts}));
    };
    let compressions = [
        ("zstd", ZSTD),
        ("wide", Compression::Zstd { level: 19, window_log: 25 }),
        ("fast", Compression::Zstd { level: -7, window_log: 10 }),
        ("plain", NONE),
        ("brotli", Compression::Brotli { level: 6 }),
        ("brotli9", Compression::Brotli { level: 9 }),
        ("snappy", Compression::Snappy),
    ];
    for (word, compression) in compressions {
        for list in ["mixed", "noise", "none", "empty"] {
            for (group, padded) in [(1, false), (16, false), (4, true)] {
                put(format!("{word}-{list}-{group}-{padded}"), &records(list), compression, group, padded);
            }
        }
    }
    put("many".into(), &records("many"), ZSTD, 1, false);
    put("empty200000".into(), &records("empty200000"), ZSTD, 200_000, false);
    for length in (65_400..65_641).step_by(3) {
        // Noise, so that also the compressed chunks end around there.
        let noise: Vec<u8> = records("noise")[0].iter().copied().take(length - 24).collect();
        put(format!("edge-{length}"), &[noise, pattern(100, 3), pattern(130_000, 5)], ZSTD, 1, false);
    }
    std::fs::write(folder.join("files.json"), Value::from(said).to_string()).unwrap();
}
