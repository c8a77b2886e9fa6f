//! Rows read ahead, as records are: far away many cost one request.

use super::super::documents::Shard;
use super::{AnnotationRow, AnnotationSet};
use crate::error::{Error, Result};
use crate::layout::signal_dataset::Dataset;
use crate::layout::signal_dataset::read::StoredRecord;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a record by the names of their sets.
type SetRows = Vec<(Arc<str>, AnnotationRow)>;

impl AnnotationSet {
    /// The rows of some records, in order, in batches that are read ahead, as [`Dataset::batches`]. After an error it ends.
    pub fn batches(&self, range: Range<u64>) -> impl Iterator<Item = Result<Vec<AnnotationRow>>> + Send + use<> {
        let one = |shard: &super::documents::SetShard| Shard {
            first_ordinal: shard.first_ordinal,
            record_count: shard.record_count,
            data: shard.object.clone(),
            metadata: shard.object.clone(),
            record_indices: None,
        };
        let rows = self.dataset.of_shards(self.root.shards.iter().map(one).collect());
        let (set, mut next) = (self.clone(), range.start);
        rows.batches(range).map(move |batch| {
            let row = |record| {
                next += 1;
                set.row_of(record, next - 1)
            };
            batch?.into_iter().map(row).collect()
        })
    }

    /// The same, row by row.
    pub fn rows_of(&self, range: Range<u64>) -> impl Iterator<Item = Result<AnnotationRow>> + Send + use<> {
        self.batches(range).flat_map(|batch| match batch {
            Ok(rows) => rows.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(e) => vec![Err(e)],
        })
    }

    fn row_of(&self, record: StoredRecord, ordinal: u64) -> Result<AnnotationRow> {
        let row = AnnotationRow::from_record(record).and_then(|row| match row.source_index {
            same if same == ordinal => Ok(row),
            other => Err(Error::corrupt(format!("the row says that it is of record {other}"))),
        });
        row.map_err(|e| {
            let at = self.root.shards.partition_point(|shard| shard.first_ordinal <= ordinal).saturating_sub(1);
            let place = self.root.shards.get(at).map(|shard| self.dataset.inner().objects.locate(&shard.object.path));
            e.within(format!("annotation {ordinal}")).at(place.unwrap_or_default())
        })
    }
}

impl Dataset {
    /// What the sets of annotations that there are now say of some records: for each record, in order, its row of every set, by the
    /// set's name. Rows are read ahead; no samples of the records are read. After an error it ends. Where nothing is annotated, each
    /// record has no rows.
    ///
    /// # Errors
    /// Those of [`Dataset::annotations`] and of opening each set; `NotFound` for records past the last.
    ///
    /// ```
    /// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
    /// use sigbank::layout::signal_dataset::*;
    /// # use sigbank::store::{MemoryStore, Store};
    /// # use std::sync::Arc;
    /// # let (store, options): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Options::default());
    /// # let record = |i: u8| {
    /// #     let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse()?, vec![1]) };
    /// #     Ok(Record { metadata: RecordMetadata::new(format!("r{i}"), vec![field]), data: vec![vec![i].into()] })
    /// # };
    /// # let shard = write_shard(&*store, (0..3).map(record), "w", 0, &options)?;
    /// # let dataset = publish(&store, &[shard], &Publication::new("demo", "v1"), &options)?;
    /// let rows = (0..3).map(|i| Ok(AnnotationRow::new(format!("r{i}"), i, AnnotationStatus::Skipped)));
    /// publish_annotations(&dataset, "labels", rows, &AnnotationOptions::default())?;
    /// let all = dataset.annotated(1..3)?.collect::<sigbank::Result<Vec<_>>>()?;
    /// let (set, row) = &all[0][0];
    /// assert_eq!((all.len(), &**set, row.source_index, row.status.as_str()), (2, "labels", 1, "skipped"));
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn annotated(&self, range: Range<u64>) -> Result<impl Iterator<Item = Result<SetRows>> + Send + use<>> {
        self.reaches(&range)?;
        let catalog = self.annotations()?;
        let open = |name: &str| Ok((Arc::from(name), catalog.open(name)?.rows_of(range.clone())));
        let mut sets = catalog.names().map(open).collect::<Result<Vec<(Arc<str>, _)>>>()?;
        let gone = || Error::corrupt("an annotation set ended before its end");
        Ok(range.map(move |_| {
            let row =
                |(name, rows): &mut (Arc<str>, _)| Ok((Arc::clone(name), Iterator::next(rows).unwrap_or_else(|| Err(gone()))?));
            sets.iter_mut().map(row).collect()
        }))
    }
}
