//! TensorFlow records.

use super::{ALL, CHUNK, Listed, Rows, miscounted};
use crate::error::{Error, Result};
use crate::layout::RowSink;
use crate::layout::sedpack::structure::Structure;
use crate::store::StoreFile;
use sigbank_format::compress::{Compression, decoder, zlib_decoder};
use sigbank_format::container::Places;
use sigbank_format::container::tfrecord::Records;
use sigbank_format::record::tf_example::Codec;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// Reads tfrec shards of one structure.
#[derive(Debug)]
pub(super) struct TfRec {
    codec: Codec,
    compression: Compression,
    attributes: usize,
}

impl TfRec {
    pub(super) fn new(structure: &Structure) -> Result<Self> {
        Ok(Self {
            codec: Codec::new(&structure.schema)?,
            compression: structure.compression,
            attributes: structure.schema.fields.len(),
        })
    }

    fn records(&self, file: Arc<dyn StoreFile>) -> Result<Records<Box<dyn Read + Send>>> {
        let file = Box::new(BufReader::with_capacity(CHUNK, file.stream()));
        Ok(Records::new(match self.compression {
            Compression::Zlib => zlib_decoder(file),
            compression => decoder(compression, file)?,
        }))
    }

    /// Reads the shard from its beginning to its end: what stands behind the last record asked for is counted and checked too.
    pub(super) fn read(&self, mut listed: Listed<'_>, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let mut shard = self.records(listed.open(ALL)?)?;
        let mut rows = Rows::new(out);
        let done = self.decode(&mut shard, listed.count, records.iter().copied(), fields, &mut rows);
        match (done, rows.refused) {
            (Err(_), Some(refused)) => Err(refused),
            (done, _) => done,
        }
    }

    fn decode(
        &self,
        shard: &mut Records<impl Read>,
        count: u64,
        records: impl Iterator<Item = u32>,
        fields: &[usize],
        out: &mut dyn Places,
    ) -> Result<()> {
        let mut at = 0u64;
        for (row, record) in records.enumerate() {
            while at < u64::from(record) && shard.skip()? {
                at += 1;
            }
            let Some(bytes) = shard.next()? else { return Err(miscounted(count, at)) };
            let place = |e| Error::from(e).within(format!("example {record}"));
            self.codec.decode(bytes, row, fields, out).map_err(place)?;
            at += 1;
        }
        while shard.skip()? {
            at += 1;
        }
        if at == count { Ok(()) } else { Err(miscounted(count, at)) }
    }

    /// Decodes every record: nothing else tells whether it holds what is declared.
    pub(super) fn probe(&self, file: Arc<dyn StoreFile>, count: u64) -> Result<()> {
        let all = 0..u32::try_from(count).map_err(|_| Error::limit(format!("a shard of {count} examples")))?;
        let fields: Vec<usize> = (0..self.attributes).collect();
        self.decode(&mut self.records(file)?, count, all, &fields, &mut Nowhere::default())
    }

    pub(super) fn count(&self, file: Arc<dyn StoreFile>) -> Result<u64> {
        let mut shard = self.records(file)?;
        let mut count = 0;
        while shard.skip()? {
            count += 1;
        }
        Ok(count)
    }
}

/// Takes values that nobody wants.
#[derive(Default)]
struct Nowhere(Vec<u8>);

impl Places for Nowhere {
    fn place(&mut self, _row: usize, _field: usize, len: usize) -> sigbank_format::Result<&mut [u8]> {
        self.0.resize(len, 0);
        Ok(&mut self.0)
    }
}
