//! Checksums of files as they lie on disk: lower-case hex, by the word that stands in the dataset's metadata.

use std::fmt;
use std::str::FromStr;

use sha2::Digest;
use xxhash_rust::{xxh3::Xxh3, xxh32::Xxh32, xxh64::Xxh64};

use crate::error::{FormatError, Result};

#[cfg(test)]
mod tests;

/// Bytes given to one algorithm before the next has them: small enough to stay in a core's cache.
const CHUNK: usize = 256 << 10;

/// A checksum algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// `md5`
    Md5,
    /// `sha1`
    Sha1,
    /// `sha224`
    Sha224,
    /// `sha256`, what Sedpack uses if nothing is said.
    Sha256,
    /// `sha384`
    Sha384,
    /// `sha512`
    Sha512,
    /// `sha3_224`
    Sha3_224,
    /// `sha3_256`
    Sha3_256,
    /// `sha3_384`
    Sha3_384,
    /// `sha3_512`
    Sha3_512,
    /// `xxh32` with seed 0.
    Xxh32,
    /// `xxh64` with seed 0.
    Xxh64,
    /// `xxh128`: XXH3's 128 bits with seed 0.
    Xxh128,
}

impl Algorithm {
    /// The word on disk.
    ///
    /// ```
    /// use sigbank_format::checksum::Algorithm;
    /// assert_eq!(Algorithm::Sha3_256.as_str(), "sha3_256");
    /// assert_eq!("xxh128".parse::<Algorithm>()?, Algorithm::Xxh128);
    /// assert!("crc32".parse::<Algorithm>().unwrap_err().to_string().contains("sha256"));
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::Sha3_224 => "sha3_224",
            Self::Sha3_256 => "sha3_256",
            Self::Sha3_384 => "sha3_384",
            Self::Sha3_512 => "sha3_512",
            Self::Xxh32 => "xxh32",
            Self::Xxh64 => "xxh64",
            Self::Xxh128 => "xxh128",
        }
    }

    /// A hasher that has seen nothing yet.
    ///
    /// ```
    /// use sigbank_format::checksum::Algorithm;
    /// let mut hasher = Algorithm::Md5.hasher();
    /// hasher.update(b"a");
    /// hasher.update(b"bc");
    /// assert_eq!(hasher.finish(), "900150983cd24fb0d6963f7d28e17f72");
    /// ```
    pub fn hasher(self) -> Hasher {
        Hasher(match self {
            Self::Md5 => State::Md5(Box::default()),
            Self::Sha1 => State::Sha1(Box::default()),
            Self::Sha224 => State::Sha224(Box::default()),
            Self::Sha256 => State::Sha256(Box::default()),
            Self::Sha384 => State::Sha384(Box::default()),
            Self::Sha512 => State::Sha512(Box::default()),
            Self::Sha3_224 => State::Sha3_224(Box::default()),
            Self::Sha3_256 => State::Sha3_256(Box::default()),
            Self::Sha3_384 => State::Sha3_384(Box::default()),
            Self::Sha3_512 => State::Sha3_512(Box::default()),
            Self::Xxh32 => State::Xxh32(Box::new(Xxh32::new(0))),
            Self::Xxh64 => State::Xxh64(Box::new(Xxh64::new(0))),
            Self::Xxh128 => State::Xxh128(Box::default()),
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = FormatError;

    fn from_str(word: &str) -> Result<Self> {
        crate::registry::CHECKSUMS.iter().copied().find(|a| a.as_str() == word).ok_or_else(|| {
            let known: Vec<_> = crate::registry::CHECKSUMS.iter().map(|a| a.as_str()).collect();
            FormatError::unsupported(format!("unknown checksum algorithm {word:?}: known are {}", known.join(", ")))
        })
    }
}

/// A running checksum: see [`Algorithm::hasher`].
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Md5(Box<md5::Md5>),
    Sha1(Box<sha1::Sha1>),
    Sha224(Box<sha2::Sha224>),
    Sha256(Box<sha2::Sha256>),
    Sha384(Box<sha2::Sha384>),
    Sha512(Box<sha2::Sha512>),
    Sha3_224(Box<sha3::Sha3_224>),
    Sha3_256(Box<sha3::Sha3_256>),
    Sha3_384(Box<sha3::Sha3_384>),
    Sha3_512(Box<sha3::Sha3_512>),
    Xxh32(Box<Xxh32>),
    Xxh64(Box<Xxh64>),
    Xxh128(Box<Xxh3>),
}

/// The same expression for each hasher that is a `Digest`, and one for each that is not.
macro_rules! each {
    ($state:expr, $d:ident => $digest:expr, $x32:ident => $e32:expr, $x64:ident => $e64:expr, $x128:ident => $e128:expr) => {
        match $state {
            State::Md5($d) => $digest,
            State::Sha1($d) => $digest,
            State::Sha224($d) => $digest,
            State::Sha256($d) => $digest,
            State::Sha384($d) => $digest,
            State::Sha512($d) => $digest,
            State::Sha3_224($d) => $digest,
            State::Sha3_256($d) => $digest,
            State::Sha3_384($d) => $digest,
            State::Sha3_512($d) => $digest,
            State::Xxh32($x32) => $e32,
            State::Xxh64($x64) => $e64,
            State::Xxh128($x128) => $e128,
        }
    };
}

impl Hasher {
    /// Takes the next bytes in.
    pub fn update(&mut self, data: &[u8]) {
        each!(&mut self.0, d => d.update(data), x => x.update(data), x => x.update(data), x => x.update(data));
    }

    /// The checksum of all bytes taken in, in lower-case hex.
    pub fn finish(self) -> String {
        each!(self.0, d => hex(&d.finalize()), x => format!("{:08x}", x.digest()), x => format!("{:016x}", x.digest()),
            x => format!("{:032x}", x.digest128()))
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Several checksums of the same bytes, fed piece by piece.
///
/// ```
/// use sigbank_format::checksum::{Algorithm, MultiHasher};
/// let mut hashers = MultiHasher::new(&[Algorithm::Xxh32, Algorithm::Xxh64]);
/// hashers.update(b"abc");
/// assert_eq!(hashers.finish(), ["32d153ff", "44bc2cf5ad770999"]);
/// ```
#[derive(Debug, Clone)]
pub struct MultiHasher(Vec<Hasher>);

impl MultiHasher {
    /// One hasher for each algorithm.
    pub fn new(algorithms: &[Algorithm]) -> Self {
        Self(algorithms.iter().map(|a| a.hasher()).collect())
    }

    /// Takes the next bytes in, 256 KiB by 256 KiB, so that all algorithms find them in the cache.
    pub fn update(&mut self, data: &[u8]) {
        for chunk in data.chunks(CHUNK) {
            for hasher in &mut self.0 {
                hasher.update(chunk);
            }
        }
    }

    /// The checksums in the order of the algorithms, in lower-case hex.
    pub fn finish(self) -> Vec<String> {
        self.0.into_iter().map(Hasher::finish).collect()
    }
}

/// The checksums of one buffer given in pieces, in the order of `algorithms`, in lower-case hex.
///
/// ```
/// use sigbank_format::checksum::{Algorithm, digest_all};
/// assert_eq!(digest_all(&[Algorithm::Sha1], &[b"ab", b"c"]), ["a9993e364706816aba3e25717850c26c9cd0d89d"]);
/// ```
pub fn digest_all(algorithms: &[Algorithm], parts: &[&[u8]]) -> Vec<String> {
    let mut hashers = MultiHasher::new(algorithms);
    for part in parts {
        hashers.update(part);
    }
    hashers.finish()
}
