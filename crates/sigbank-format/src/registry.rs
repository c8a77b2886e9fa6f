//! The names that stand on disk, in one place. A new one is a line here; names are parsed by these lists.

use crate::checksum::Algorithm;
#[cfg(feature = "compression")]
use crate::compress::Compression;

/// The compressions, in the order in which messages list them.
#[cfg(feature = "compression")]
pub const COMPRESSIONS: &[Compression] = &[
    Compression::None,
    Compression::Gzip,
    Compression::Zlib,
    Compression::Bz2,
    Compression::Lzma,
    Compression::Lz4,
    Compression::Zip,
    Compression::Zstd,
];

/// The checksums, in the order in which messages list them.
pub const CHECKSUMS: &[Algorithm] = &[
    Algorithm::Md5,
    Algorithm::Sha1,
    Algorithm::Sha224,
    Algorithm::Sha256,
    Algorithm::Sha384,
    Algorithm::Sha512,
    Algorithm::Sha3_224,
    Algorithm::Sha3_256,
    Algorithm::Sha3_384,
    Algorithm::Sha3_512,
    Algorithm::Xxh32,
    Algorithm::Xxh64,
    Algorithm::Xxh128,
];
