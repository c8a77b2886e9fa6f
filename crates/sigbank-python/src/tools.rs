//! The codecs of shards by themselves.

use crate::errors::raise;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sigbank::format::checksum::{Algorithm, MultiHasher, digest_all};
use sigbank::format::compress::{Compression, decode, encode};
use sigbank::format::limits;
use sigbank::{Error, Result};
use std::io::Read;
use std::path::PathBuf;

fn algorithms(names: &[String]) -> Result<Vec<Algorithm>> {
    names.iter().map(|name| Ok(name.parse::<Algorithm>()?)).collect()
}

fn compression(name: &str) -> Result<Compression> {
    Ok(name.parse::<Compression>()?)
}

/// `data` compressed as one member or frame, at the level that shards have.
#[pyfunction]
pub fn compress<'py>(py: Python<'py>, name: &str, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let run = || -> Result<Vec<u8>> {
        let mut out = Vec::new();
        encode(compression(name)?, &[data], &mut out)?;
        Ok(out)
    };
    Ok(PyBytes::new(py, &py.detach(run).map_err(raise)?))
}

/// What `compress` was given.
#[pyfunction]
pub fn decompress<'py>(py: Python<'py>, name: &str, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let run = || -> Result<Vec<u8>> { Ok(decode(compression(name)?, data, None, limits::MAX_ARRAY_BYTES)?) };
    Ok(PyBytes::new(py, &py.detach(run).map_err(raise)?))
}

/// The checksums of bytes.
#[pyfunction]
pub fn checksum(py: Python<'_>, names: Vec<String>, data: &[u8]) -> PyResult<Vec<String>> {
    py.detach(|| Ok(digest_all(&algorithms(&names)?, &[data]))).map_err(raise)
}

/// The checksums of a file's bytes.
#[pyfunction]
pub fn checksum_file(py: Python<'_>, names: Vec<String>, path: PathBuf) -> PyResult<Vec<String>> {
    let run = || -> Result<Vec<String>> {
        let place = |e: std::io::Error| Error::from(e).at(path.display());
        let mut hasher = MultiHasher::new(&algorithms(&names)?);
        let mut file = std::fs::File::open(&path).map_err(place)?;
        let mut chunk = vec![0; 1 << 20];
        loop {
            match file.read(&mut chunk).map_err(place)? {
                0 => return Ok(hasher.finish()),
                n => hasher.update(chunk.get(..n).unwrap_or_default()),
            }
        }
    };
    py.detach(run).map_err(raise)
}

/// Decodes the files on `threads` threads into memory that is used again, as a limit to compare reading with; gives the bytes
/// decoded.
#[pyfunction]
pub fn bench_decode(py: Python<'_>, paths: Vec<PathBuf>, name: &str, threads: usize) -> PyResult<u64> {
    py.detach(|| sigbank::layout::sedpack::decode_all(&paths, compression(name)?, threads)).map_err(raise)
}
