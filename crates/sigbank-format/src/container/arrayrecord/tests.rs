//! Forged files: every hash is right, what they say is not.

use std::sync::Arc;

use bytes::Bytes;

use super::chunk::{self, Header};
use super::*;
use crate::error::{FormatErrorKind, Result};
use crate::record::tf_example::wire::put_varint;

/// A field of a message.
fn field(number: u8, value: u64) -> Vec<u8> {
    let mut out = vec![number << 3];
    put_varint(value, &mut out);
    out
}

fn bytes_field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, value.len() as u8];
    out.extend_from_slice(value);
    out
}

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(value, &mut out);
    out
}

/// The data of an uncompressed chunk.
fn simple(records: &[&[u8]]) -> Vec<u8> {
    let sizes: Vec<u8> = records.iter().flat_map(|r| varint(r.len() as u64)).collect();
    [vec![0], varint(sizes.len() as u64), sizes, records.concat()].concat()
}

/// A file that is put together from chunks.
struct Forge {
    writer: Writer<Vec<u8>>,
    at: u64,
    entries: Vec<[u64; 3]>,
    version: u64,
    counts: Option<[u64; 2]>,
}

impl Forge {
    fn new() -> Self {
        Self { writer: Writer::new(Vec::new(), Options::default()).unwrap(), at: 64, entries: vec![], version: 1, counts: None }
    }

    /// Adds a chunk. Its place is `at` afterwards.
    fn chunk(&mut self, kind: u8, records: u64, decoded: u64, data: &[u8]) -> &mut Self {
        self.at = self.writer.position();
        let header = Header::of(kind, data, records, decoded).to_bytes();
        self.writer.append(&[&header[..], data].concat(), records).unwrap();
        self
    }

    /// Adds a chunk of records to the file and to the index.
    fn records(&mut self, records: u64, decoded: u64, data: &[u8]) -> &mut Self {
        self.chunk(b'r', records, decoded, data);
        self.entries.push([self.at, decoded, records]);
        self
    }

    fn plain(&mut self, records: &[&[u8]]) -> &mut Self {
        self.records(records.len() as u64, records.concat().len() as u64, &simple(records))
    }

    /// Ends the file with an index of these records, and postscripts for it.
    fn end_with(&mut self, footer: &[&[u8]], postscript: impl Fn(u64) -> [Vec<u8>; 3]) -> Bytes {
        self.chunk(b'r', footer.len() as u64, footer.concat().len() as u64, &simple(footer));
        let copies = postscript(self.at);
        let copies = copies.each_ref().map(Vec::as_slice);
        self.writer.pad().unwrap();
        self.chunk(b'r', 3, copies.concat().len() as u64, &simple(&copies));
        self.writer.pad().unwrap();
        std::mem::replace(&mut self.writer, Writer::new(Vec::new(), Options::default()).unwrap()).into_inner().into()
    }

    fn footer(&self) -> Vec<Vec<u8>> {
        let [chunks, records] = self.counts.unwrap_or([self.entries.len() as u64, self.entries.iter().map(|e| e[2]).sum()]);
        let inner = [field(1, self.version), field(2, chunks), field(3, records), bytes_field(4, b"mine")].concat();
        let entry = |[offset, decoded, records]: &[u64; 3]| [field(1, *offset), field(2, *decoded), field(3, *records)].concat();
        [vec![bytes_field(1, &inner)], self.entries.iter().map(entry).collect()].concat()
    }

    fn end(&mut self) -> Bytes {
        let footer = self.footer();
        let footer: Vec<&[u8]> = footer.iter().map(Vec::as_slice).collect();
        self.end_with(&footer, |at| [(); 3].map(|()| control::postscript(at)))
    }
}

fn open(file: Bytes) -> Result<Reader> {
    Reader::open(Arc::new(file))
}

#[track_caller]
fn refused<T>(result: Result<T>, kind: FormatErrorKind, text: &str) {
    let e = result.err().expect("is refused");
    assert!(e.kind() == kind && e.to_string().contains(text), "{:?}: {e}", e.kind());
}

#[track_caller]
fn corrupt<T>(result: Result<T>, text: &str) {
    refused(result, FormatErrorKind::Corrupt, text);
}

fn all(reader: &Reader) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    let mut read = |i| {
        let mut out = Vec::new();
        decoder.read(reader, i, &mut out).unwrap();
        out
    };
    (0..reader.len()).map(&mut read).collect()
}

#[test]
fn a_file_begins_as_all_do() {
    assert_eq!(hash(&[[0, 0, 0, 0, 0, 0, 0, 0], [64, 0, 0, 0, 0, 0, 0, 0]].concat()), 0x3f4a_880d_d170_af83);
    let file = Forge::new().end();
    let first =
        [0x83af_70d1_0d88_4a3fu64, 0, 0x4000_0000_0000_0000, 0x91ba_c23c_9287_e1a9, 0, 0xe19f_13c0_e9b1_c372, 0x73 << 56, 0];
    assert_eq!(file[..64], first.map(u64::to_be_bytes).concat());
}

#[test]
fn groups_of_any_size_are_found_by_the_sum() {
    for sizes in [&[3, 3, 3, 2][..], &[3, 1, 0, 2, 5], &[1, 2], &[0, 0, 2], &[2, 1, 2], &[4, 4, 5, 4], &[2, 2, 1, 1], &[0]] {
        let (mut forge, mut wanted) = (Forge::new(), Vec::new());
        for (chunk, size) in sizes.iter().enumerate() {
            let records: Vec<_> = (0..*size).map(|i| format!("record {i} of chunk {chunk}").into_bytes()).collect();
            forge.plain(&records.iter().map(Vec::as_slice).collect::<Vec<_>>());
            // Between chunks there may be others: metadata, and what is not known yet.
            forge.chunk(if chunk == 0 { b'm' } else { b'?' }, 0, 0, b"anything");
            wanted.extend(records);
        }
        let file = forge.end();
        let reader = open(file.clone()).unwrap();
        assert_eq!((all(&reader), reader.writer_options()), (wanted.clone(), "mine"), "{sizes:?}");
        // Backwards, each from a decoder of its own.
        for (i, record) in wanted.iter().enumerate().rev() {
            assert_eq!(reader.read(i as u64).unwrap(), *record);
        }
        refused(reader.read(wanted.len() as u64), FormatErrorKind::Invalid, "there is no record");
        let found = recover(Arc::new(file)).unwrap();
        if sizes.iter().all(|n| *n > 0) {
            assert!(found.fault.is_none());
            assert_eq!(all(&found.reader), wanted);
        }
    }
}

#[test]
fn metadata_before_the_records() {
    let mut forge = Forge::new();
    forge.chunk(b'm', 0, 0, b"metadata").plain(&[b"one"]).chunk(b'p', 0, 0, &[0; 100_000]);
    let file = forge.end();
    assert_eq!(all(&open(file.clone()).unwrap()), [b"one"]);
    assert_eq!(recover(Arc::new(file)).unwrap().reader.len(), 1);
}

#[test]
fn a_decoder_goes_from_file_to_file() {
    let [one, two] =
        [b'1', b'2'].map(|n| open(Forge::new().plain(&[&[n, b'a'], &[n, b'b']]).plain(&[&[n, b'c']]).end()).unwrap());
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for (reader, record, wanted) in
        [(&one, 0, "1a"), (&one, 1, "1b"), (&two, 1, "2b"), (&one, 1, "1b"), (&one, 2, "1c"), (&one, 0, "1a"), (&two, 2, "2c")]
    {
        decoder.read(reader, record, &mut out).unwrap();
        assert_eq!(out, wanted.as_bytes());
    }
    // A chunk that is at hand is not read: these bytes are nothing.
    decoder.read(&one, 0, &mut out).unwrap();
    decoder.decode(&one, 1, b"", &mut out).unwrap();
    assert_eq!(out, b"1b");
    refused(decoder.decode(&one, 2, b"abc", &mut out), FormatErrorKind::Invalid, "record 2: its span is ");
}

#[test]
fn an_index_that_cannot_be() {
    let mut forge = Forge::new();
    forge.version = 2;
    refused(open(forge.end()), FormatErrorKind::Unsupported, "version 2");
    for counts in [[0, 1], [1, 0], [2, 1], [u64::MAX, 1], [1, u64::MAX]] {
        let mut forge = Forge::new();
        forge.plain(&[b"one"]).counts = Some(counts);
        corrupt(open(forge.end()), "but says that there are");
    }
    for (offset, records) in [(0, 1), (63, 1), (65, 1), (1 << 20, 1), (u64::MAX, 1), (64, 1 << 20), (64, u64::MAX), (65, 0)] {
        let mut forge = Forge::new();
        forge.plain(&[b"one"]).entries[0] = [offset, 3, records];
        let result = open(forge.end()).and_then(|reader| reader.read(0));
        // A chunk may lie at 65 as far as the index goes, and there the record is missed. One without records is not reached.
        match (offset, records) {
            (65, 0) => refused(result, FormatErrorKind::Invalid, "no record 0"),
            (65, _) => corrupt(result, "no chunk begins here"),
            _ => corrupt(result, "the index's chunk 0"),
        }
    }
    // The same chunk twice, and backwards.
    let mut forge = Forge::new();
    forge.plain(&[b"one"]).plain(&[b"two"]).entries.swap(0, 1);
    corrupt(open(forge.end()), "the index's chunk 1");
    let mut forge = Forge::new();
    let twice = forge.plain(&[b"one"]).plain(&[b"two"]).entries[0];
    forge.entries[1] = twice;
    corrupt(open(forge.end()), "the index's chunk 1");
    // A chunk of records that it does not name.
    let mut forge = Forge::new();
    forge.plain(&[b"one"]).plain(&[b"two"]).entries.pop();
    corrupt(open(forge.end()).unwrap().read(0), "the index does not name it");
    // Without a chunk_offset, without metadata, empty, and no message at all.
    let good = Forge::new().footer();
    let copies = |at| [(); 3].map(|()| control::postscript(at));
    for (footer, text) in [
        (&[&good[0], &field(2, 0)[..]][..], "no chunk_offset"),
        (&[&bytes_field(2, b"")[..]], "does not begin with"),
        (&[&bytes_field(1, b"")[..]], "does not say its version"),
        (&[&b"\x0a\xff"[..]], "ends inside a number"),
        (&[], "it is empty"),
    ] {
        corrupt(open(Forge::new().end_with(footer, copies)), text);
    }
    // Fields that are not known yet are passed over.
    let more = [&good[0], &bytes_field(9, b"new")[..]].concat();
    assert_eq!(open(Forge::new().end_with(&[&more], copies)).unwrap().len(), 0);
    // Longer than an index of so many chunks can be.
    let long = vec![0; 2 << 20];
    corrupt(open(Forge::new().end_with(&[&good[0], &long], copies)), "bytes for 1 chunks");
}

#[test]
fn a_postscript_that_cannot_be() {
    let footer = Forge::new().footer();
    let footer: Vec<&[u8]> = footer.iter().map(Vec::as_slice).collect();
    let postscript = |offset| control::postscript(offset);
    for offset in [0, 63, 65_540, 65_536, 1 << 40, u64::MAX] {
        corrupt(open(Forge::new().end_with(&footer, |_| [offset; 3].map(postscript))), "where none can be");
    }
    corrupt(open(Forge::new().end_with(&footer, |at| [at + 1; 3].map(postscript))), "no chunk begins here");
    corrupt(open(Forge::new().end_with(&footer, |at| [at, at, at + 1].map(postscript))), "not equal");
    corrupt(open(Forge::new().end_with(&footer, |at| [(); 3].map(|()| field(1, at)))), "not that of an ArrayRecord file");
    let other = |at| [(); 3].map(|()| [field(1, at), field(2, 7)].concat());
    corrupt(open(Forge::new().end_with(&footer, other)), "not that of an ArrayRecord file");
    // Riegeli's own files have none.
    let mut forge = Forge::new();
    forge.plain(&[b"one"]).writer.pad().unwrap();
    forge.chunk(b'p', 0, 0, &[0; 65_472]);
    corrupt(open(forge.writer.into_inner().into()), "no postscript");
}

/// What is wrong with one chunk's data.
fn chunk_of(records: u64, decoded: u64, data: &[u8]) -> Result<Vec<u8>> {
    open(Forge::new().records(records, decoded, data).end()).unwrap().read(0)
}

#[test]
fn a_chunk_that_does_not_add_up() {
    assert_eq!(chunk_of(1, 3, b"\0\x01\x03one").unwrap(), b"one");
    for (records, decoded, data, text) in [
        (1, 3, &b""[..], "without its compression"),
        (1, 3, b"\0", "ends inside a number"),
        (1, 3, b"\0\x09\x03one", "9 bytes of sizes"),
        (1, 3, b"\0\x01\x02one", "1 records of 2 bytes"),
        (1, 3, b"\0\x01\x04one", "more than the 3 bytes"),
        (1, 2, b"\0\x01\x02one", "declares 2 bytes of records, their buffer 3"),
        (1, 4, b"\0\x01\x04one", "declares 4 bytes of records, their buffer 3"),
        (1, 3, b"\0\x02\x03\x00one", "1 bytes of sizes are left over"),
        (2, 3, b"\0\x01\x03one", "the sizes of 2 records in 1 bytes"),
        (2, 3, b"\0\x02\x03\x80one", "ends inside a number"),
        (2, 3, b"\0\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x04one", "more than the 3 bytes"),
        (1, 3, b"\0\x0b\x83\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00one", "the sizes of 1 records in 11 bytes"),
    ] {
        corrupt(chunk_of(records, decoded, data), text);
    }
    refused(chunk_of(1, 3, b"x\x01\x03one"), FormatErrorKind::Unsupported, "compression is 0x78");
    // Not as many records as the index says.
    let mut forge = Forge::new();
    forge.plain(&[b"one"]).entries[0][2] = 2;
    corrupt(open(forge.end()).unwrap().read(0), "has 1 records where the index says 2");
    for (kind, text) in [(b't', "transpose:false"), (b'q', "type 0x71")] {
        let mut forge = Forge::new();
        forge.chunk(kind, 1, 3, b"abc").entries = vec![[forge.at, 3, 1]];
        refused(open(forge.end()).unwrap().read(0), FormatErrorKind::Unsupported, text);
    }
}

/// A stream with its size before it.
fn stream(compression: Compression, size: u64, data: &[u8]) -> Vec<u8> {
    let mut out = varint(size);
    codec::Compressor::new(compression).unwrap().run(data, &mut out).unwrap();
    out
}

const ALL: [(u8, Compression); 3] = [
    (b'z', Compression::Zstd { level: 3, window_log: 20 }),
    (b'b', Compression::Brotli { level: 5 }),
    (b's', Compression::Snappy),
];

#[test]
fn compressed_buffers_that_lie() {
    for (byte, compression) in ALL {
        let chunk = |sizes: Vec<u8>, values: Vec<u8>, decoded| {
            chunk_of(1, decoded, &[vec![byte], varint(sizes.len() as u64), sizes, values].concat())
        };
        let stream = |size, data: &[u8]| stream(compression, size, data);
        assert_eq!(chunk(stream(1, b"\x03"), stream(3, b"one"), 3).unwrap(), b"one");
        // More and less than declared, in each buffer.
        for (size, data) in [(2, &b"\x03"[..]), (1, b"\x03\x03"), (1, b"")] {
            corrupt(chunk(stream(size, data), stream(3, b"one"), 3), "");
        }
        for (sizes, size, data) in [(b"\x02", 2, &b"one"[..]), (b"\x04", 4, b"one"), (b"\x03", 3, b"")] {
            corrupt(chunk(stream(1, sizes), stream(size, data), size), "");
        }
        // Left over, cut, and nothing.
        let [sizes, values] = [stream(1, b"\x03"), stream(3, b"one")];
        corrupt(chunk(sizes.clone(), [&values[..], b"!"].concat(), 3), "");
        corrupt(chunk([&sizes[..], b"!"].concat(), values.clone(), 3), "");
        corrupt(chunk(sizes.clone(), [&values[..], &stream(0, b"")[1..]].concat(), 3), "");
        corrupt(chunk(sizes.clone(), values[..values.len() - 1].to_vec(), 3), "");
        corrupt(chunk(sizes.clone(), vec![3], 3), "");
        corrupt(chunk(vec![], values, 3), "");
        // Far more than there is, all of it said consistently: no memory is taken for it.
        for log in [21, 30, 40, 62] {
            let size = (1u64 << log) - 1;
            corrupt(chunk(stream(varint(size).len() as u64, &varint(size)), stream(size, b"one"), size), "");
        }
    }
}

/// Records that are compressed to far less than a 256th are decompressed as they come.
#[test]
fn long_records_of_zeros() {
    let zeros = vec![0; 9 << 20];
    for (_, compression) in ALL {
        let mut writer = Writer::new(Vec::new(), Options { compression, ..Options::default() }).unwrap();
        writer.push(&zeros).unwrap();
        writer.push(b"next").unwrap();
        let reader = open(writer.finish().unwrap().0.into()).unwrap();
        assert!(all(&reader) == [&zeros[..], b"next"], "{compression:?}");
    }
}

#[test]
fn windows_that_take_too_much_memory() {
    // A frame of 2^30 zeros, with a window of 2^30 bytes: runs of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3];
    let run = |last: u32| ((1 << 17) << 3 | 1 << 1 | last).to_le_bytes()[..3].to_vec();
    (0..8192).for_each(|i| frame.extend([run(u32::from(i == 8191)), vec![0]].concat()));
    let sizes = stream(ALL[0].1, 5, &varint(1 << 30));
    let data = [b"z".to_vec(), varint(sizes.len() as u64), sizes, varint(1 << 30), frame].concat();
    refused(chunk_of(1, 1 << 30, &data), FormatErrorKind::Limit, "window is over 128 MiB");
    let sizes = stream(ALL[1].1, 1, b"\x03");
    let data = [b"b".to_vec(), varint(sizes.len() as u64), sizes, varint(3), vec![0x11, 30, 0, 0]].concat();
    refused(chunk_of(1, 3, &data), FormatErrorKind::Limit, "window is over 128 MiB");
}

#[test]
fn options_that_do_not_exist() {
    for compression in [
        Compression::Zstd { level: 23, window_log: 20 },
        Compression::Zstd { level: 3, window_log: 9 },
        Compression::Zstd { level: 3, window_log: 28 },
        Compression::Brotli { level: 12 },
    ] {
        refused(Writer::new(Vec::new(), Options { compression, ..Options::default() }), FormatErrorKind::Invalid, "choose");
    }
    refused(Writer::new(Vec::new(), Options { group_size: 0, ..Options::default() }), FormatErrorKind::Invalid, "group_size");
}

#[test]
fn only_the_last_chunk_may_be_short() {
    let options = Options { group_size: 2, ..Options::default() };
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    let (mut encoder, mut chunk) = (Encoder::new(&options).unwrap(), EncodedChunk::default());
    encoder.encode(&[b"a", b"b", b"c"], &mut chunk).unwrap();
    refused(writer.push_chunk(&chunk), FormatErrorKind::Invalid, "a chunk of 3 records");
    encoder.encode(&[], &mut chunk).unwrap();
    refused(writer.push_chunk(&chunk), FormatErrorKind::Invalid, "a chunk of 0 records");
    encoder.encode(&[b"a"], &mut chunk).unwrap();
    writer.push(b"x").unwrap();
    refused(writer.push_chunk(&chunk), FormatErrorKind::Invalid, "after 1 single");
    writer.push(b"y").unwrap();
    writer.push_chunk(&chunk).unwrap();
    refused(writer.push_chunk(&chunk), FormatErrorKind::Invalid, "only the last");
    refused(writer.push(b"z"), FormatErrorKind::Invalid, "only the last");
    let reader = open(writer.finish().unwrap().0.into()).unwrap();
    assert_eq!(all(&reader), [b"x", b"y", b"a"]);
}

#[test]
fn a_writer_that_failed_does_not_go_on() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
            let n = data.len().min(self.0);
            self.0 -= n;
            if n == 0 { Err(std::io::Error::from_raw_os_error(28)) } else { Ok(n) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Full(100), Options::default()).unwrap();
    refused(writer.push(&[7; 100]), FormatErrorKind::Io, "");
    refused(writer.push(b"x"), FormatErrorKind::Invalid, "begin it anew");
    refused(writer.finish().map(drop), FormatErrorKind::Invalid, "begin it anew");
    // Also where it is the end that does not fit.
    let mut writer = Writer::new(Full(1000), Options::default()).unwrap();
    writer.push(b"x").unwrap();
    refused(writer.finish().map(drop), FormatErrorKind::Io, "");
}

#[test]
fn a_walk_tells_where_it_ends() {
    let mut forge = Forge::new();
    forge.plain(&[b"one"]).plain(&[b"two"]).chunk(b'r', 1, 3, b"\0\x01\x02two");
    let end = forge.at;
    let whole = forge.writer.position();
    // A chunk whose hashes are right counts, whatever is in it.
    let file = Bytes::from(forge.writer.into_inner());
    let found = recover(Arc::new(file.clone())).unwrap();
    assert_eq!((found.reader.len(), found.end), (3, whole));
    assert!(found.fault.unwrap().to_string().contains("without an index"));
    for (cut, records, text) in
        [(file.len() - 1, 2, "was cut short"), (end as usize + 10, 2, "was cut short"), (64, 0, "without")]
    {
        let found = recover(Arc::new(file.slice(..cut))).unwrap();
        assert_eq!(found.reader.len(), records);
        let fault = found.fault.unwrap().to_string();
        assert!(fault.contains(text), "{fault}");
        assert_eq!(found.end, if records == 2 { end } else { 64 });
    }
    corrupt(recover(Arc::new(file.slice(..63))), "no ArrayRecord file");
    corrupt(recover(Arc::new(Bytes::from_static(b"RIFF"))), "no ArrayRecord file");
    corrupt(recover(Arc::new(Bytes::new())), "no ArrayRecord file");
    assert_eq!(chunk::HEADER_SPAN, 64);
}
