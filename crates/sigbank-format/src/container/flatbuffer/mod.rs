//! FlatBuffers shards: `Shard { examples: [Example { attributes: [Attribute { attribute_bytes: [ubyte] }] }] }`.
//!
//! Written and read by hand rather than through the `flatbuffers` crate, for two things that it cannot do: reading a few
//! records of a shard without having all of it in memory, and placing every table at the front, so that one small read
//! (or the first block of a compressed stream) tells where each value lies. The crate is the referee in the tests.

mod read;
mod stream;
mod window;
mod write;

pub use read::{Attribute, Span, count, spans};
pub use stream::{Sliding, reversed};
pub use window::{Blocks, Prefix, Window};
pub use write::ShardBuilder;

#[cfg(test)]
mod tests;
