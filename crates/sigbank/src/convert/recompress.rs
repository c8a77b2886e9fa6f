//! A dataset written anew with another compression, kind of shard, shard size or checksums.

use super::destination::{Destination, Making};
use super::rewrite::{Rewriter, Verifying, Written, each, load, open, refuse_inside, stopped};
use crate::error::{Error, Result};
use crate::layout::Source;
use crate::layout::sedpack::{Assembly, Info, ShardFileType};
use crate::loader::Shuffle;
use sigbank_format::record::tf_example::Codec;
use std::path::Path;
use std::sync::Arc;

/// What is to be different; all else stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecompressOptions {
    /// The compression of each shard, by Sedpack's word; empty for none. Where it is not said and the new kind of shard cannot have
    /// the old one: the kind's usual one, `ZSTD` for `fb`, `ZIP` for `npz`, `GZIP` for `tfrec`.
    pub compression: Option<String>,
    /// The kind of shard: `fb`, `npz` or `tfrec`.
    pub shard_file_type: Option<String>,
    /// Most examples in a shard.
    pub examples_per_shard: Option<u64>,
    /// The checksums of each file, such as `sha256`.
    pub checksums: Option<Vec<String>>,
    /// Threads that compress; 0 for one a core, at most 4.
    pub threads: usize,
}

impl RecompressOptions {
    /// The new root, and the compression that was chosen where the old one cannot stay.
    fn apply(&self, info: &Info) -> Result<(Info, Option<&'static str>)> {
        let mut structure = info.structure_object();
        let text = |v: &Option<String>| v.clone().map(Into::into);
        let changes = [
            ("compression", text(&self.compression)),
            ("shard_file_type", text(&self.shard_file_type)),
            ("examples_per_shard", self.examples_per_shard.map(Into::into)),
            ("hash_checksum_algorithms", self.checksums.clone().map(Into::into)),
        ];
        structure.extend(changes.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        let kinds = [(ShardFileType::Fb, "ZSTD"), (ShardFileType::Npz, "ZIP"), (ShardFileType::TfRec, "GZIP")];
        let kind = kinds.into_iter().find(|(kind, _)| self.shard_file_type.as_deref() == Some(kind.as_str()));
        let kept = info.structure().compression;
        let chosen = kind.filter(|(kind, _)| self.compression.is_none() && !kind.compressions().contains(&kept));
        let chosen = chosen.map(|(_, usual)| usual);
        structure.extend(chosen.map(|usual| ("compression".to_owned(), usual.into())));
        let info = info.with(None, Some(structure))?;
        if info.structure().file_type == ShardFileType::TfRec {
            let codec = Codec::new(&info.structure().schema).and_then(|codec| codec.writable());
            codec.map_err(|e| {
                Error::from(e)
                    .remedy("tfrec holds int8, uint8, int32, int64, float16, float32, integers, text and bytes: choose fb or npz")
            })?;
        }
        Ok((info, chosen))
    }
}

/// What recompressing did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecompressReport {
    /// What the new dataset holds.
    pub written: Written,
    /// Files beside the first one of their shard: they hold no examples and were left out.
    pub extra_files: u64,
    /// The compression that was chosen, where none was named and the new kind of shard cannot have the old one.
    pub chosen_compression: Option<&'static str>,
}

/// Writes the dataset `source` anew at `dest`, which appears there when it is complete, or not at all. Examples keep their order, their
/// splits and the custom metadata of their shards, of which a change begins a new shard; attributes and dataset keep their metadata. Each
/// shard is compared with its checksums before it is read. `progress` hears (examples done, examples in all) and stops the run by
/// `false`. Memory is bounded: a few shards.
///
/// # Errors
/// `Invalid` for a compression that the kind of shard cannot have, for values that it cannot hold, and for a destination in the source;
/// `AlreadyExists` where the destination is taken; `Corrupt` or `NotFound` names a shard that is not as its list says.
///
/// ```no_run
/// use sigbank::convert::{RecompressOptions, recompress};
/// let options = RecompressOptions { compression: Some("LZ4".into()), ..Default::default() };
/// recompress("traces".as_ref(), "traces-lz4", &options, &mut |_, _| true)?;
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn recompress(
    source: &Path,
    dest: impl Into<Destination>,
    options: &RecompressOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<RecompressReport> {
    let dest = dest.into();
    refuse_inside(dest.path(), &[source])?;
    let dataset = open(source, dest.options())?;
    let (info, chosen_compression) = options.apply(&dataset.info()).map_err(|e| e.at(dataset.location()))?;
    let source = Arc::new(Verifying::new(dataset)?);
    let splits = source.splits();
    let making = Making::begin(&dest, false)?;
    let mut empty = Assembly::create_store(making.store()?, &info).map_err(|e| e.at(source.location()))?;
    splits.iter().try_for_each(|split| empty.split(&split.name))?;
    let new = empty.finish()?;
    let mut writer = Rewriter::new(&new, options.threads);
    let total = splits.iter().map(|s| s.records).sum();
    let mut done = 0;
    for split in splits.iter().filter(|s| s.records > 0) {
        let units = source.units(&split.name)?;
        let all = (0..units.len() as u32).collect();
        let mut unit = (0..0, Default::default());
        for batch in load(&source, &split.name, all, Shuffle::None, 0)? {
            let batch = batch?;
            each(&batch, |row, record| {
                let ordinal = batch.first_position + row as u64;
                if !unit.0.contains(&ordinal) {
                    let (at, _) =
                        units.locate(ordinal).ok_or_else(|| Error::corrupt(format!("no shard has example {ordinal}")))?;
                    let start = units.start(at).unwrap_or(0);
                    unit = (start..start + units.count(at), source.unit_metadata(&split.name, at)?);
                }
                writer.append(&split.name, record, &unit.1).map_err(|e| e.within(format!("{} example {ordinal}", split.name)))
            })?;
            done += batch.rows as u64;
            if !progress(done, total) {
                return Err(stopped());
            }
        }
    }
    writer.finish()?;
    new.refresh()?;
    let written = Written::of(&new)?;
    drop(new);
    making.publish()?;
    Ok(RecompressReport { written, extra_files: source.extra_files(), chosen_compression })
}

#[cfg(test)]
mod tests;
