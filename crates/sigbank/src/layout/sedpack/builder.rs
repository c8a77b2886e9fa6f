//! A shard that is being filled, whatever its container.

use super::structure::{ShardFileType, Structure, alignment};
use crate::error::{Error, Result};
use sigbank_format::compress::{Compression, encode, encode_zlib};
use sigbank_format::container::{flatbuffer, npz, tfrecord};
use sigbank_format::model::Schema;
use sigbank_format::record::tf_example::Codec;
use std::sync::Arc;

/// Most memory that is reserved for a shard before it is filled.
const RESERVE: usize = 256 << 20;

/// Makes builders for the shards of one structure.
pub(super) struct Builders {
    attributes: Vec<(String, Option<usize>)>,
    most: usize,
    kind: Kind,
}

enum Kind {
    Fb { aligns: Vec<usize>, room: usize },
    Npz(Schema),
    TfRec(Arc<Codec>),
}

impl Builders {
    /// # Errors
    /// `Invalid` where no attributes are declared, `Unsupported` names one that the container cannot hold.
    pub(super) fn new(structure: &Structure) -> Result<Self> {
        let schema = &structure.schema;
        let lens = crate::layout::fixed_lens(schema)?;
        let most = structure.examples_per_shard as usize;
        let kind = match structure.file_type {
            ShardFileType::Fb => Kind::Fb {
                aligns: schema.fields.iter().map(|f| alignment(&f.ty)).collect(),
                room: flatbuffer::ShardBuilder::room_for(most, &lens).min(RESERVE),
            },
            ShardFileType::Npz => {
                npz::ShardBuilder::new(schema)?;
                Kind::Npz(schema.clone())
            }
            ShardFileType::TfRec => {
                let codec = Codec::new(schema)?;
                codec.writable()?;
                Kind::TfRec(Arc::new(codec))
            }
        };
        Ok(Self { attributes: schema.fields.iter().map(|f| f.name.clone()).zip(lens).collect(), most, kind })
    }
}

impl Builders {
    /// The attributes: each one's name, and the length of its values in bytes where all have as many.
    pub(super) fn attributes(&self) -> &[(String, Option<usize>)] {
        &self.attributes
    }

    /// An empty shard.
    pub(super) fn build(&self) -> Result<Builder> {
        Ok(match &self.kind {
            Kind::Fb { aligns, room } => {
                let new = flatbuffer::ShardBuilder::new(aligns.clone());
                Builder::Fb(if *room == 0 { new } else { new.with_room(crate::pages::with_capacity(*room)) })
            }
            Kind::Npz(schema) => Builder::Npz(npz::ShardBuilder::new(schema)?),
            Kind::TfRec(codec) => Builder::TfRec { codec: codec.clone(), examples: 0, bytes: Vec::new() },
        })
    }

    /// Compares the values of one record with what is declared; gives their bytes in all.
    pub(super) fn measure(&self, record: &[&[u8]]) -> Result<usize> {
        if record.len() != self.attributes.len() {
            return Err(Error::invalid(format!("{} values for {} attributes", record.len(), self.attributes.len())));
        }
        let mut bytes = 0usize;
        for ((name, len), value) in self.attributes.iter().zip(record) {
            if let Some(len) = len.filter(|&len| len != value.len()) {
                return Err(Error::invalid(format!("attribute '{name}': {} bytes are given, {len} are declared", value.len())));
            }
            bytes = bytes.saturating_add(value.len());
        }
        Ok(bytes)
    }

    /// Most records in a shard.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

/// A shard that is being filled.
pub(super) enum Builder {
    Fb(flatbuffer::ShardBuilder),
    Npz(npz::ShardBuilder),
    TfRec { codec: Arc<Codec>, examples: usize, bytes: Vec<u8> },
}

impl Default for Builder {
    fn default() -> Self {
        Self::Fb(flatbuffer::ShardBuilder::default())
    }
}

impl Builder {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fb(fb) => fb.len(),
            Self::Npz(npz) => npz.len(),
            Self::TfRec { examples, .. } => *examples,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Fb(fb) => fb.memory(),
            Self::Npz(npz) => npz.memory(),
            Self::TfRec { bytes, .. } => bytes.capacity(),
        }
    }

    /// Whether a record more, of so many bytes in all, still fits into what the container can hold.
    pub(super) fn fits(&self, record: &[&[u8]], bytes: usize) -> bool {
        match self {
            Self::Fb(fb) => fb.fits(bytes),
            Self::Npz(npz) => npz.fits_values(record),
            Self::TfRec { .. } => true,
        }
    }

    /// Adds one record; on an error the shard is as before.
    pub(super) fn push(&mut self, record: &[&[u8]]) -> Result<()> {
        match self {
            Self::Fb(fb) => fb.push(record)?,
            Self::Npz(npz) => npz.push(record)?,
            Self::TfRec { codec, examples, bytes } => {
                tfrecord::frame_with(bytes, |bytes| codec.encode(record, bytes))?;
                *examples += 1;
            }
        }
        Ok(())
    }

    /// Empties the shard and keeps its memory.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Fb(fb) => fb.clear(),
            Self::Npz(npz) => npz.clear(),
            Self::TfRec { examples, bytes, .. } => {
                *examples = 0;
                bytes.clear();
            }
        }
    }

    /// The finished file in pieces that follow one another; none where it is in `out`, and the shard is not needed any more.
    pub(super) fn finish(&mut self, compression: Compression, out: &mut Vec<u8>) -> Result<Option<Vec<&[u8]>>> {
        match (self, compression) {
            (Self::Fb(fb), Compression::None) => return Ok(Some(fb.finish()?.to_vec())),
            // Some codecs want the shard in one piece.
            (Self::Fb(fb), _) => match fb.finish_whole()? {
                Some(whole) => encode(compression, &[whole], out)?,
                None => encode(compression, &fb.finish()?, out)?,
            },
            (Self::Npz(npz), _) => return Ok(Some(npz.finish(compression == Compression::Zip)?)),
            (Self::TfRec { bytes, .. }, Compression::None) => return Ok(Some(vec![bytes])),
            (Self::TfRec { bytes, .. }, Compression::Zlib) => encode_zlib(&[bytes], out)?,
            (Self::TfRec { bytes, .. }, _) => encode(compression, &[bytes], out)?,
        }
        Ok(None)
    }
}
