//! Array files that NumPy and libsndfile wrote, against what they read from them (see `testdata/arrays/make.py`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use serde_json::Value;
use sigbank_format::array::{self, ArrayReader, Format, Options, Samples, npy};
use sigbank_format::container::npz;
use sigbank_format::error::FormatErrorKind;
use sigbank_format::model::Array;
use std::path::PathBuf;
use std::sync::Arc;

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/arrays")
}

fn bytes(name: &str) -> Bytes {
    std::fs::read(dir().join(name)).unwrap_or_else(|e| panic!("{name}: {e}")).into()
}

fn json(name: &str) -> serde_json::Map<String, Value> {
    serde_json::from_slice(&bytes(name)).unwrap()
}

fn format(name: &str) -> Format {
    Format::from_extension(name.rsplit('.').next().unwrap()).unwrap()
}

fn audio(name: &str) -> String {
    format!("{}/{name}", format(name))
}

fn reader(name: &str, samples: Samples) -> Box<dyn ArrayReader> {
    array::open_with(Arc::new(bytes(name)), format(name), Options { samples, ..Options::default() })
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The values of a float array.
fn floats(a: &Array) -> Vec<f64> {
    match a.dtype().name().as_str() {
        "float32" => a.data().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        "float64" => a.data().chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        other => panic!("{other}"),
    }
}

fn ints(a: &Array) -> Vec<i32> {
    match a.dtype().name().as_str() {
        "int8" => a.data().iter().map(|&b| i32::from(b as i8)).collect(),
        "int16" => a.data().chunks(2).map(|b| i16::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        "int32" => a.data().chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect(),
        other => panic!("{other}"),
    }
}

/// Reads a file in windows of some lengths, forward and then from the last to the first: always the same bytes as in one piece.
fn check_windows(name: &str, reader: &mut dyn ArrayReader, whole: &Array) {
    let (rows, row) = (reader.info().rows(), reader.info().row_bytes());
    for step in [1, 7, 1000, 4096] {
        if rows / step > 6000 {
            continue;
        }
        let mut starts: Vec<usize> = (0..rows).step_by(step).collect();
        let backwards: Vec<usize> = starts.iter().rev().step_by(starts.len() / 5 + 1).copied().collect();
        starts.extend(backwards);
        for start in starts {
            let count = step.min(rows - start);
            let mut out = vec![0; count * row];
            reader.read_rows(start, count, &mut out).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(out == whole.data()[start * row..(start + count) * row], "{name}: rows {start}+{count}");
        }
    }
}

#[test]
fn npy_arrays_are_numpys() {
    let index = json("npy.json");
    assert!(index.len() > 80);
    for (name, want) in &index {
        let file = format!("npy/{name}.npy");
        let mut r = reader(&file, Samples::Float64);
        let a = r.read_all().unwrap();
        assert_eq!(r.info().stored_dtype.to_string(), want["dtype"].as_str().unwrap(), "{name}");
        let shape: Vec<usize> = serde_json::from_value(want["shape"].clone()).unwrap();
        assert_eq!((a.shape(), r.info().trailing_bytes), (&shape[..], 0), "{name}");
        assert_eq!(a.data()[..], unhex(want["bytes"].as_str().unwrap()), "{name}");
        assert!(!a.dtype().is_big_endian());
        check_windows(name, &mut *r, &a);
    }
}

#[test]
fn npy_is_written_as_numpy_writes() {
    let mut compared = 0;
    for name in json("npy.json").keys() {
        let file = bytes(&format!("npy/{name}.npy"));
        if String::from_utf8_lossy(&file[..128]).contains("'fortran_order': True") {
            continue;
        }
        let r = reader(&format!("npy/{name}.npy"), Samples::Float64);
        let header = npy::header(&r.info().stored_dtype, &r.info().shape).unwrap();
        // The elements as they stand make an array in the stored byte order.
        let a = Array::new(r.info().stored_dtype.clone(), r.info().shape.clone(), file.slice(header.len()..)).unwrap();
        assert_eq!(npy::to_bytes(&a).unwrap(), file, "{name}");
        let mut streamed = Vec::new();
        npy::write(&a, &mut streamed).unwrap();
        assert_eq!(streamed, file, "{name}");
        compared += 1;
    }
    assert!(compared > 45, "{compared}");
    let headers: Vec<String> = serde_json::from_slice(&bytes("npy_headers.json")).unwrap();
    assert_eq!(headers.len(), 65);
    for (rank, want) in headers.iter().enumerate() {
        let shape: Vec<usize> = (0..rank).map(|axis| axis.min(1)).collect();
        let header = npy::header(&"<f8".parse().unwrap(), &shape).unwrap();
        assert_eq!(&header.iter().copied().map(char::from).collect::<String>(), want, "{rank}");
    }
}

#[test]
fn npy_refusals_name_the_reason() {
    for (name, words) in [
        ("object", &["pickled", "fixed width"][..]),
        ("padded_structured", &["'a' ('<u4')", "'b' ('|u1')", "padding (|V3)"]),
        ("version_2_structured", &["'field_00000' ('|u1')", "'field_03999'"]),
        ("version_3_structured", &["'größe' ('<f4')", "'\u{6642}' ('<i2')"]),
    ] {
        let e = array::open(Arc::new(bytes(&format!("npy/{name}.npy"))), Format::Npy).err().unwrap();
        assert_eq!(e.kind(), FormatErrorKind::Unsupported, "{name}");
        assert!(words.iter().all(|w| e.to_string().contains(w)), "{name}: {}", &e.to_string()[..200]);
    }
}

#[test]
fn npz_members_are_numpys() {
    for name in ["stored", "deflated"] {
        let mut npz = npz::open(Arc::new(bytes(&format!("npz/{name}.npz")))).unwrap();
        assert_eq!(npz.names().unwrap(), ["a", "b", "c"]);
        let a = npz.read("a").unwrap();
        assert_eq!((a.dtype().name().as_str(), a.shape()), ("int16", &[10][..]));
        assert_eq!(a.data()[..], (0..10i16).flat_map(i16::to_le_bytes).collect::<Vec<_>>());
        let b = npz.read("b.npy").unwrap();
        let want: Vec<u8> = (0..12).flat_map(|i| [-0.0f32 * i as f32, i as f32]).flat_map(|v| (v + 0.0).to_le_bytes()).collect();
        assert_eq!((b.dtype().name().as_str(), b.shape(), &b.data()[..]), ("complex64", &[3, 4][..], &want[..]));
        let mut c = npz.member("c").unwrap();
        let whole = c.read_all().unwrap();
        assert!(whole.shape() == [100, 100] && whole.data().len() == 80_000 && whole.data().iter().all(|&b| b == 0));
        check_windows(name, &mut *c, &whole);
        let e = npz.member("d").err().unwrap();
        assert!(e.kind() == FormatErrorKind::Invalid && e.to_string().contains("a, b, c"), "{e}");
    }
}

/// Compares with libsndfile's samples: bit for bit, or for Vorbis, whose decoders differ in the last bits, within 1e-6.
fn check_samples(name: &str, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{name}");
    let exact = format(name) != Format::Ogg;
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(if exact { g.to_bits() == w.to_bits() } else { (g - w).abs() <= 1e-6 }, "{name}: sample {i} is {g}, not {w}");
    }
}

#[test]
fn audio_is_libsndfiles() {
    let index = json("audio.json");
    assert!(index.len() > 90);
    for (name, entry) in &index {
        let file = audio(name);
        let expected = reader(&format!("expected/{name}.npy"), Samples::Float64).read_all().unwrap();
        let mut r = reader(&file, Samples::Float64);
        let a = r.read_all().unwrap();
        assert_eq!((a.dtype().name().as_str(), a.shape()), ("float64", expected.shape()), "{name}");
        check_samples(name, &floats(&a), &floats(&expected));
        check_windows(name, &mut *r, &a);

        let info = r.info().clone();
        let audio = info.audio.clone().unwrap();
        assert_eq!((info.format, info.incomplete.as_deref()), (format(name), None), "{name}");
        if let Some(rate) = entry.get("sample_rate") {
            assert_eq!(
                (audio.sample_rate.map(Value::from).as_ref(), &Value::from(audio.channels)),
                (Some(rate), &entry["channels"]),
                "{name}"
            );
            assert_eq!(audio.subtype.to_string(), entry["subtype"].as_str().unwrap(), "{name}");
        }
        if let Some(bits) = entry.get("bits") {
            assert_eq!(audio.bits_per_sample.map(Value::from).as_ref(), Some(bits), "{name}");
        }

        // The other two ways to deliver are on the same scale.
        let single = reader(&file, Samples::Float32).read_all().unwrap();
        assert_eq!(single.dtype().name(), "float32");
        let rounded: Vec<f64> = floats(&a).iter().map(|&v| (v as f32).into()).collect();
        assert!(floats(&single).iter().zip(&rounded).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
        let mut stored = reader(&file, Samples::Stored);
        let s = stored.read_all().unwrap();
        match audio.full_scale_bits {
            Some(bits) => {
                let width = match bits {
                    0..=8 => "int8",
                    9..=16 => "int16",
                    _ => "int32",
                };
                assert_eq!(s.dtype().name(), width, "{name}");
                let scaled: Vec<f64> = ints(&s).iter().map(|&v| f64::from(v) / f64::from(bits - 1).exp2()).collect();
                assert_eq!(scaled, floats(&a), "{name}");
            }
            None => assert_eq!(floats(&s), floats(&a), "{name}"),
        }
        check_windows(name, &mut *stored, &s);
    }
}

#[test]
fn content_wins_over_a_lying_extension() {
    let mut r = array::open(Arc::new(bytes("flac/pcm_16_1.flac")), Format::Wav).unwrap();
    assert_eq!((r.info().format, r.read_all().unwrap().shape()), (Format::Flac, &[4500][..]));
    for format in Format::ALL {
        for (content, word) in [(&b""[..], "0 bytes"), (b"%PDF-1.7 and so on, more than a head is long", "")] {
            let e = array::open(Arc::new(Bytes::from_static(content)), format).err().unwrap();
            assert!(e.kind() == FormatErrorKind::Corrupt && e.to_string().contains(word), "{e}");
        }
    }
}

#[test]
fn edges_are_stored_as_they_are() {
    let stored = |name: &str| ints(&reader(&audio(name), Samples::Stored).read_all().unwrap());
    let edges = [-8388608, -1, 0, 1, 8388607];
    assert_eq!(stored("edges_24.wav"), edges);
    assert_eq!(stored("edges_24_in_32_ext_26.wav"), edges.map(|v| v << 8));
    assert_eq!(stored("edges_8.wav"), [-128, -1, 0, 1, 127]);
    assert_eq!(stored("edges_16.wav"), [-32768, -1, 0, 1, 32767]);
    assert_eq!(stored("edges_32.wav"), [i32::MIN, -1, 0, 1, i32::MAX]);
}

#[test]
fn codecs_that_are_not_read_are_named() {
    for (name, word) in [
        ("codec_ms_adpcm.wav", "Microsoft ADPCM"),
        ("codec_ima_adpcm.wav", "IMA ADPCM"),
        ("codec_gsm610.wav", "GSM 6.10"),
        ("opus.ogg", "Opus"),
        ("chained.ogg", "after the 1000 frames"),
    ] {
        let e = array::open(Arc::new(bytes(&audio(name))), format(name)).err().unwrap();
        assert!(e.kind() == FormatErrorKind::Unsupported && e.to_string().contains(word), "{name}: {e}");
    }
}
