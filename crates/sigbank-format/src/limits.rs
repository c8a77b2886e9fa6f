//! How big is too big. Each decoder compares a declared size with these before it takes memory.

/// Largest rank of an array.
pub const MAX_RANK: usize = 64;
/// Most bytes that one array may decode to (256 GiB): a declared shape over it is refused before allocation.
pub const MAX_ARRAY_BYTES: u64 = 1 << 38;
/// Largest header of an npy array, in bytes.
pub const MAX_NPY_HEADER: usize = 1 << 20;
/// Most channels of an audio file.
pub const MAX_CHANNELS: usize = 1024;
/// Largest FlatBuffers shard (its offsets are 32-bit, and the reference stops at 2 GiB).
pub const MAX_FLATBUFFER: u64 = (1 << 31) - 1;
/// Largest npz shard that is written with more than one record (4 GiB): its columns are held in memory until it is full.
pub const MAX_NPZ_SHARD: u64 = 1 << 32;
/// Largest JSON control document, in bytes.
pub const MAX_CONTROL_DOCUMENT: u64 = 1 << 30;
/// First allocation for data of unknown length; it then grows with what really arrives.
pub const FIRST_ALLOCATION: usize = 1 << 20;
