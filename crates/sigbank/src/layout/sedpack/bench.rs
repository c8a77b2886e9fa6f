//! The limit that reading is compared with in benchmarks: decoding alone.

use crate::error::{Error, Result};
use sigbank_format::compress::{Compression, decoder};
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Decodes each file on one of `threads` threads, in pieces into memory that is used again; gives the bytes decoded.
///
/// # Errors
/// As reading the file, or decoding it, fails.
pub fn decode_all(paths: &[PathBuf], compression: Compression, threads: usize) -> Result<u64> {
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let run = || -> Result<()> {
        let mut room = vec![0; 4 << 20];
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let place = |e: std::io::Error| Error::from(sigbank_format::FormatError::from(e)).at(path.display());
            let file = BufReader::with_capacity(256 << 10, std::fs::File::open(path).map_err(place)?);
            let mut source = decoder(compression, Box::new(file))?;
            loop {
                match source.read(&mut room).map_err(place)? {
                    0 => break,
                    n => bytes.fetch_add(n as u64, Ordering::Relaxed),
                };
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
        all.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Error::storage("decoding panicked"))))
    })?;
    Ok(bytes.into_inner())
}
