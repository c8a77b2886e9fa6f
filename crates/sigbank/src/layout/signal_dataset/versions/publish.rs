//! Publishing a further version.

use super::super::dataset::Dataset;
use super::super::digest::Digest;
use super::super::documents::{PageRef, Place, Reference, Shard};
use super::super::guard::Guard;
use super::super::objects::{Objects, collision, document, jitter};
use super::super::publish::{LONGEST_NAME, WrittenSnapshot, checked, choose, create_last, of, write_snapshot};
use super::super::uncommitted::keep_copy;
use super::super::{Options, PublishedShard, annotations};
use super::{Version, Which, document::utc, no_gap, path};
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use sigbank_format::model::json::Json;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// So often another version may be published first.
const LOST: u32 = 64;

/// What a further version is to be called, and what of an earlier one it holds.
///
/// ```
/// use sigbank::layout::signal_dataset::{VersionPublication, Which};
/// let more = VersionPublication { base: Some(Which::Latest), ..VersionPublication::new("more") };
/// assert!(more.without.is_empty() && more.metadata.is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VersionPublication {
    /// The version's name, which no other version of the dataset has: one component of a path, neither a number nor `latest`.
    pub name: String,
    /// The version whose records it begins with, as `Latest` the newest when publishing begins; `None` for new records only.
    pub base: Option<Which>,
    /// Shards of the base that are left out, by the path of their data object. The others keep their order.
    pub without: Vec<Place>,
    /// What is to be said of it, an object; `None` for what is said of the base, or else of the newest version.
    pub metadata: Option<Json>,
    /// The version that must be the newest, as seen by whoever prepared this one; `None` for whichever is when publishing begins.
    pub follows: Option<Which>,
    /// What to do when another version is published meanwhile: `false` is a `Conflict`; `true` is to begin again behind that one, and on
    /// it where the base is `Latest`. Of no effect together with `follows`.
    pub rebase: bool,
}

impl VersionPublication {
    /// A version of new records only.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), base: None, without: Vec::new(), metadata: None, follows: None, rebase: false }
    }
}

/// Publishes a further version of the dataset in a store: the base's shards, then the given ones (of each work id the highest attempt,
/// in the order of work ids). `root.json` and what it names stay as they are.
///
/// Nothing is seen before the version's document, which is created last. To do it again with the same arguments completes an
/// interrupted publication, or finds it complete. Manifest pages of the base are named again, not copied, up to the first with a shard
/// that is left out.
///
/// ```
/// # use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
/// # use sigbank::layout::signal_dataset::Record;
/// use sigbank::layout::signal_dataset::{Dataset, Options, Publication, VersionPublication, Which, publish, publish_version, write_shard};
/// # use sigbank::store::{MemoryStore, Store};
/// # let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(MemoryStore::new());
/// # let options = Options::default();
/// # let record = |i: u8| {
/// #     let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse()?, vec![1]) };
/// #     Ok(Record { metadata: RecordMetadata::new(format!("r{i}"), vec![field]), data: vec![vec![i].into()] })
/// # };
/// let first = write_shard(&*store, (0..3).map(record), "monday", 0, &options)?;
/// publish(&store, &[first], &Publication::new("captures", "v1"), &options)?;
/// let more = write_shard(&*store, (3..5).map(record), "tuesday", 0, &options)?;
/// let append = VersionPublication { base: Some(Which::Latest), ..VersionPublication::new("v2") };
/// let second = publish_version(&store, &[more], &append, &options)?;
///
/// let dataset = Dataset::open_store(store, options)?;
/// assert_eq!((dataset.len(), second.len()), (3, 5));
/// let versions = dataset.versions()?;
/// assert_eq!(versions.iter().map(|v| (v.number, v.name.as_str())).collect::<Vec<_>>(), [(0, "v1"), (1, "v2")]);
/// assert_eq!(dataset.version(&"latest".parse()?)?.record(4)?.metadata().id, "r4");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` where no dataset is published yet, or no such base; `Invalid` for a name that cannot be, a shard that the base holds
/// already or does not hold, and as [`publish`](super::super::publish); `AlreadyExists` where the name is taken by other records;
/// `Conflict` where another version was published meanwhile: nothing of this one is visible.
pub fn publish_version(
    store: &Arc<dyn Store>,
    shards: &[PublishedShard],
    publication: &VersionPublication,
    options: &Options,
) -> Result<Dataset> {
    check(publication)?;
    let chosen = choose(shards, None)?;
    let mut guard = Some(Guard::new(&**store)?);
    let first = Dataset::open_store(Arc::clone(store), options.clone())?;
    let objects = Objects::reaching(Arc::clone(store), options.elsewhere.clone());
    let mut added: Vec<Shard> = Vec::with_capacity(chosen.len());
    for shard in chosen {
        let records = options.verify_record_counts.then_some(shard.record_count);
        added.push(Shard {
            first_ordinal: 0,
            record_count: shard.record_count,
            data: checked(&objects, &shard.data, records, options).map_err(|e| e.within(of(shard)))?,
            metadata: checked(&objects, &shard.metadata, records, options).map_err(|e| e.within(of(shard)))?,
            record_indices: None,
        });
    }
    let mut attempt = 0;
    loop {
        let versions = first.versions()?;
        let Some(newest) = versions.last() else { return Err(Error::not_found("there is no version")) };
        no_gap(&**store, newest.number)?;
        if let Some(there) = versions.iter().find(|version| version.name == publication.name) {
            return again(&first, &versions, there, &added, publication, options);
        }
        if let Some(follows) = &publication.follows {
            let seen = resolve(&first, &versions, follows)?;
            if seen.number != newest.number {
                return Err(conflict(&first, seen, newest));
            }
        }
        let base = publication.base.as_ref().map(|which| resolve(&first, &versions, which)).transpose()?;
        let content = Content::new(&first, base, &added, publication, options)?;
        let number = newest.number.checked_add(1).ok_or_else(|| Error::limit("more versions than 64 bits count"))?;
        own_place(&objects, number, &content.snapshot_id, options)?;
        let guard = guard.take().map_or_else(|| Guard::new(&**store), Ok)?;
        let written = content.write(&**store, options)?;
        written.renew(&**store)?;
        let metadata = publication.metadata.clone().unwrap_or_else(|| base.unwrap_or(newest).metadata.clone());
        let (version, bytes) = named(&written, publication, number, newest, base, metadata);
        match create_last(&**store, &path(number)?, &bytes, &written.flush, options, guard) {
            Ok(()) => {
                keep_copy(&**store, &version, &bytes);
                return first.at(version);
            }
            Err(e) if e.code() == Code::AlreadyExists => {
                let there = first.numbered(number)?;
                // The same publication run twice at once: once is enough.
                let same = there.name == publication.name;
                if !same && (!publication.rebase || publication.follows.is_some() || attempt >= LOST) {
                    return Err(conflict(&first, newest, &there));
                }
                std::thread::sleep(jitter(attempt));
                attempt += 1;
            }
            Err(e) => return Err(e),
        }
    }
}

impl VersionPublication {
    /// Whether it can be published, as far as it tells itself.
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be, metadata that are no object, and shards left out of no base.
    pub fn check(&self) -> Result<()> {
        check(self)
    }
}

fn check(publication: &VersionPublication) -> Result<()> {
    let name = &publication.name;
    let refused = |why: &str| {
        Err(Error::invalid(format!("{name:?} cannot be the name of a version: {why}"))
            .remedy("choose a name such as calibrated-2"))
    };
    if name.chars().any(char::is_control) {
        return refused("it has a control character, which object storage does not hold safely");
    }
    // The snapshot's name has 16 digits behind it.
    let most = LONGEST_NAME - 17;
    if name.len() > most {
        return refused(&format!("it has {} bytes, and {most} are the most", name.len()));
    }
    if name.contains('/') || RelPath::parse(name).is_err() {
        return refused("a name of a directory is expected");
    }
    match name.parse() {
        Ok(Which::Name(_)) if !name.starts_with("sha256:") => {}
        _ => return refused("numbers, latest and digests say which version is meant"),
    }
    match &publication.metadata {
        Some(metadata) if !metadata.is_object() => Err(Error::invalid(format!("the metadata are {metadata}, not an object"))),
        _ if publication.base.is_none() && !publication.without.is_empty() => {
            Err(Error::invalid("shards to leave out, and no base that holds them").remedy("say which version is the base"))
        }
        _ => Ok(()),
    }
}

/// Refuses a number below which annotations of another snapshot lie, those of a version that was lost: they would be taken for its own.
fn own_place(objects: &Objects, number: u64, snapshot_id: &str, options: &Options) -> Result<()> {
    let (store, limits) = (&*objects.store, &options.control);
    let of = match annotations::current_revision(store, number, limits) {
        Ok(None) => return Ok(()),
        Ok(Some(revision)) => annotations::sources_of(objects, &revision, limits),
        Err(e) => Err(e),
    };
    match of {
        Ok(of) if of.iter().all(|id| id == snapshot_id) => return Ok(()),
        Err(e) if !matches!(e.code(), Code::Corrupt | Code::NotFound) => return Err(e),
        _ => {}
    }
    Err(Error::conflict(format!(
        "this would be version {number}, and the annotations of another that had this number are there: it was lost"
    ))
    .at(store.locate(&annotations::catalog_path(number)?))
    .remedy(
        "put that one back: sigbank check --repair, or sigbank sync from a copy; or give it up with its annotations: sigbank gc \
             --uncommitted --older-than 0s --delete",
    ))
}

fn resolve<'a>(first: &Dataset, versions: &'a [Version], which: &Which) -> Result<&'a Version> {
    let number = match which {
        Which::Latest => return versions.last().ok_or_else(|| Error::not_found("there is no version")),
        Which::Number(number) => *number,
        Which::Name(_) | Which::Digest(_) => first.find(which)?.number,
    };
    let found = usize::try_from(number).ok().and_then(|number| versions.get(number));
    found.ok_or_else(|| Error::not_found(format!("there is no version {number}")).at(first.location()))
}

fn conflict(first: &Dataset, parent: &Version, there: &Version) -> Error {
    let (number, name) = (there.number, &there.name);
    Error::conflict(format!(
        "version {number} '{name}' was published meanwhile, and this one was to follow version {} '{}' (sha256:{})",
        parent.number, parent.name, parent.digest
    ))
    .at(first.location())
    .remedy("read the newest version, decide whether this one is still right behind it, and publish again")
}

fn named(
    written: &WrittenSnapshot,
    publication: &VersionPublication,
    number: u64,
    parent: &Version,
    base: Option<&Version>,
    metadata: Json,
) -> (Version, Vec<u8>) {
    let snapshot = &written.document;
    let mut version = Version {
        number,
        name: publication.name.clone(),
        digest: written.digest,
        parent: Some(parent.reference()),
        base: base.map(Version::reference),
        // Only we read it: it has a checksum always.
        snapshot: Reference { sha256: Some(written.digest), ..written.snapshot.clone() },
        record_count: snapshot.record_count,
        shard_count: snapshot.shard_count,
        stored_bytes: snapshot.stored_bytes,
        metadata,
        created: Some(utc(SystemTime::now())),
    };
    let (bytes, digest) = version.to_bytes();
    version.digest = digest;
    (version, bytes)
}

/// The name is taken: by what is to be published, or by something else.
fn again(
    first: &Dataset,
    versions: &[Version],
    there: &Version,
    added: &[Shard],
    publication: &VersionPublication,
    options: &Options,
) -> Result<Dataset> {
    let base = match (&publication.base, there.base) {
        // The newest was another one then.
        (Some(Which::Latest), Some(base)) => Some(resolve(first, versions, &Which::Number(base.number))?),
        (Some(which), _) => Some(resolve(first, versions, which)?),
        (None, _) => None,
    };
    let same_base = base.map(Version::reference) == there.base;
    let same_words = publication.metadata.as_ref().is_none_or(|metadata| *metadata == there.metadata);
    let same_records = || -> Result<bool> {
        let content = Content::new(first, base, added, publication, options)?;
        let snapshot = first.at(there.clone())?;
        Ok(content.snapshot_id == snapshot.snapshot_id())
    };
    if there.number > 0 && same_base && same_words && same_records()? {
        // An interrupted run, or an older version of this program, may have left none.
        let bytes = document(&**first.store(), &path(there.number)?, &options.control)?;
        keep_copy(&**first.store(), there, &bytes);
        return first.at(there.clone());
    }
    Err(collision(format!("version {} is called '{}' already, and is not the same", there.number, there.name))
        .at(first.location())
        .remedy("choose another name"))
}

/// The shards of a version.
struct Content<'a> {
    base: Option<Dataset>,
    /// Pages of the base that are named again.
    pages: Vec<PageRef>,
    without: HashSet<&'a str>,
    added: &'a [Shard],
    /// Tells the content, so that another try at the same finds its documents, and one at something else never meets them.
    snapshot_id: String,
}

impl<'a> Content<'a> {
    fn new(
        first: &Dataset,
        base: Option<&Version>,
        added: &'a [Shard],
        publication: &'a VersionPublication,
        options: &Options,
    ) -> Result<Self> {
        let base = base.map(|version| first.at(version.clone())).transpose()?;
        let without: HashSet<&str> = publication.without.iter().map(Place::as_str).collect();
        let mut told = format!("{:?}\n", base.as_ref().map(|base| base.root_digest().to_string()));
        told += &format!("{} {}\n", options.shards_per_manifest.max(1), options.compat);
        let mut left_out: Vec<&&str> = without.iter().collect();
        left_out.sort_unstable();
        told += &format!("{left_out:?}\n");
        for shard in added {
            for object in [&shard.data, &shard.metadata] {
                told += &format!("{:?} {} {:?}\n", object.path.as_str(), object.stored_bytes, object.sha256);
            }
            told += &format!("{}\n", shard.record_count);
        }
        let hex = Digest::of(told.as_bytes()).to_string();
        let snapshot_id = format!("{}-{}", publication.name, hex.get(..16).unwrap_or_default());
        let pages = match &base {
            None => Vec::new(),
            Some(base) => kept_pages(base, &without, added)?,
        };
        Ok(Self { base, pages, without, added, snapshot_id })
    }

    fn write(&self, store: &dyn Store, options: &Options) -> Result<WrittenSnapshot> {
        let kept = self.pages.len();
        let mut next = self.pages.last().map_or(0, |page| page.first_ordinal.saturating_add(page.record_count));
        let rest = self.base.iter().flat_map(|base| {
            (kept..base.snapshot().manifests.len()).flat_map(|number| match base.page(number) {
                Ok(page) => page.shards.iter().map(|shard| Ok(shard.clone())).collect(),
                Err(e) => vec![Err(e)],
            })
        });
        let rest = rest.filter(|shard| shard.as_ref().map_or(true, |shard| !self.without.contains(shard.data.path.as_str())));
        let entries = rest.chain(self.added.iter().map(|shard| Ok(shard.clone()))).map(|shard| {
            let shard = Shard { first_ordinal: next, ..shard? };
            next = next.checked_add(shard.record_count).ok_or_else(|| Error::limit("more records than 64 bits count"))?;
            Ok(shard)
        });
        write_snapshot(store, self.pages.clone(), entries, &self.snapshot_id, None, options)
    }
}

/// The pages of a base up to the first that loses a shard. Every page is read: what is left out must be there, what is added must not.
fn kept_pages(base: &Dataset, without: &HashSet<&str>, added: &[Shard]) -> Result<Vec<PageRef>> {
    let mut new: BTreeMap<&str, u64> = added.iter().map(|shard| (shard.data.path.as_str(), 0)).collect();
    let mut missing: HashSet<&str> = without.clone();
    let mut kept: Option<usize> = None;
    for number in 0..base.snapshot().manifests.len() {
        for shard in &base.page(number)?.shards {
            let path = shard.data.path.as_str();
            if without.contains(path) {
                missing.remove(path);
                kept.get_or_insert(number);
            } else if let Some(times) = new.get_mut(path) {
                *times += 1;
            }
        }
    }
    if let Some(path) = missing.iter().min() {
        return Err(Error::invalid(format!("the base holds no shard {path:?} to leave out")).at(base.location()));
    }
    if let Some((path, _)) = new.iter().find(|(_, times)| **times > 0) {
        return Err(Error::invalid("the base holds this shard already: its records would be there twice")
            .at(path)
            .remedy("give the new shards only"));
    }
    Ok(base.snapshot().manifests.iter().take(kept.unwrap_or(usize::MAX)).cloned().collect())
}
