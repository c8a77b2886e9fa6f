//! Recordings, the program, and what it made.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "shared by tests, each of which uses a part"
)]

use serde_json::Value;
use sigbank::layout::{self, Source};
use sigbank_format::array::npy;
use sigbank_format::model::Array;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// A folder of recordings and a place for the dataset.
pub struct Bench {
    dir: tempfile::TempDir,
}

/// What the program said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.err))
    }
    /// Asserts that it went wrong as it should: exit code 1, one `error:` line holding every word, nothing of a panic.
    #[track_caller]
    pub fn refused(&self, words: &[&str]) {
        assert_eq!(self.code, 1, "{} {}", self.out, self.err);
        assert!(self.err.starts_with("error: ") && self.err.lines().count() <= 2, "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "no '{word}' in: {}", self.err);
        }
    }
}

pub fn sigbank(args: &[&str]) -> Said {
    Said::from(Command::new(env!("CARGO_BIN_EXE_sigbank")).args(args).output().unwrap())
}

pub fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

/// Any number's values in [-1, 1) that differ from sample to sample and file to file.
pub fn samples(seed: i32, count: usize) -> Vec<i16> {
    (0..count as i32).map(|i| (i * 37 + seed * 1009).rem_euclid(65536).wrapping_sub(32768) as i16).collect()
}

/// A 16-bit WAV file; frames interleaved.
pub fn wav(values: &[i16], channels: u16, rate: u32) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * 2 * u32::from(channels)).to_le_bytes());
    file.extend((2 * channels).to_le_bytes());
    file.extend(16u16.to_le_bytes());
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

/// An npy file of little-endian bytes.
pub fn npy(dtype: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    npy::to_bytes(&Array::new(dtype.parse().unwrap(), shape.to_vec(), data.to_vec().into()).unwrap()).unwrap()
}

impl Bench {
    pub fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(bench.path("in")).unwrap();
        bench
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    pub fn copy_golden(&self, path: &str) {
        self.write(Path::new(path).file_name().unwrap().to_str().unwrap(), std::fs::read(golden(path)).unwrap());
    }
    /// `sigbank COMMAND` in the folder that holds `in`.
    pub fn run(&self, args: &[&str]) -> Said {
        Said::from(Command::new(env!("CARGO_BIN_EXE_sigbank")).args(args).current_dir(self.dir.path()).output().unwrap())
    }
    /// `sigbank pack in out` with more arguments.
    pub fn pack(&self, args: &[&str]) -> Said {
        self.run(&[&["pack", "in", "out"], args].concat())
    }
    /// The same, asserted to succeed, with the report.
    #[track_caller]
    pub fn packed(&self, args: &[&str]) -> Value {
        let said = self.pack(&[args, &["--json"]].concat());
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
        said.json()
    }
    pub fn open(&self) -> Arc<dyn Source> {
        layout::open(self.path("out").to_str().unwrap()).unwrap()
    }
    /// Every record of a split: signal, start, source, sample rate.
    pub fn records(&self, split: &str) -> Vec<(Vec<u8>, i64, String, f64)> {
        let source = self.open();
        let all: Vec<u64> = (0..source.units(split).unwrap().records()).collect();
        let rows = layout::read(&*source, split, &all, &[0, 1, 2, 3]).unwrap();
        rows.into_iter()
            .map(|r| {
                let number = |i: usize| <[u8; 8]>::try_from(&r[i][..]).unwrap();
                (
                    r[0].clone(),
                    i64::from_le_bytes(number(1)),
                    String::from_utf8(r[2].clone()).unwrap(),
                    f64::from_le_bytes(number(3)),
                )
            })
            .collect()
    }
    /// What stands beside `in`, hidden names too.
    pub fn left(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n != "in").collect()
    }
    /// The dtype and shape of the field `signal`.
    pub fn signal(&self) -> String {
        let said = self.run(&["info", "out"]);
        let line = said.out.lines().find(|l| l.trim_start().starts_with("signal ")).unwrap().to_owned();
        line.split_once("signal").unwrap().1.trim().to_owned()
    }
}

/// 16-bit samples as the float32 that pack stores.
pub fn floats(values: &[i16]) -> Vec<u8> {
    values.iter().flat_map(|v| (f32::from(*v) / 32768.0).to_le_bytes()).collect()
}
