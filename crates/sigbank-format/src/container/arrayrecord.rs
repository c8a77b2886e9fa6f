//! ArrayRecord: records in compressed chunks, and an index at the file's end, so that any of them is read at once.
//!
//! It is a Riegeli file with an index. Chunks hold one record each (or a group of records), compressed alone. Every header and every
//! chunk's data have their hash, and all of them are checked where they are read. [`Reader`] finds records, a [`Decoder`] reads them fast,
//! [`Writer`] writes files byte for byte as the `array_record` package does, as far as the compressor's output is the same,
//! and [`recover`] reads what is whole of a file without its end. What the records are is not the container's business.

mod blocks;
mod chunk;
mod codec;
mod control;
mod reader;
mod recover;
mod simple;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Decoder, Reader};
pub use recover::{Recovered, recover};
pub use writer::{EncodedChunk, Encoder, Options, Writer};

use highway::{HighwayHash, HighwayHasher, Key};

/// How the chunks of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// As zstd frames.
    Zstd {
        /// zstd's level, down to -131072; 3 by default.
        level: i32,
        /// The window is at most 2 to this many bytes, 10 to 27; 20 by default.
        window_log: u32,
    },
    /// As brotli streams.
    Brotli {
        /// Brotli's quality, 0 to 11; 6 is the package's.
        level: u8,
    },
    /// As raw snappy blocks.
    Snappy,
}

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd { level: 3, window_log: 20 }
    }
}

/// The hash of headers and data.
fn hash(bytes: &[u8]) -> u64 {
    const KEY: Key = Key([0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572, 0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572]);
    HighwayHasher::new(KEY).hash64(bytes)
}
