//! Further versions of a dataset, which the reference package does not see: `root.json` and `annotations/` stay as they are.
//!
//! A version's annotations lie below `sigbank/versions/<n as 8 digits>/annotations/`, as those of version 0 below `annotations/`.
//!
//! Version 0 is what `root.json` names. Version n is the document `sigbank/versions/<n as 8 digits>.json`, created once and never
//! replaced, which names a snapshot of its own. Numbers have no gaps, so that the newest is found by trying numbers, never by listing.
//!
//! **Digest.** That of version 0 is the SHA-256 of `root.json`. A version document tells its own in the member `digest`: the SHA-256 of
//! its bytes without that line (`grep -v '^  "digest": ' FILE | sha256sum`), so that a changed document is found without knowing the digest
//! from elsewhere. A document names its parent by number and digest: the newest digest stands for all versions, as far as references
//! have checksums.

mod compare;
mod document;
mod publish;

pub use compare::{Comparison, Ids, MetadataChange, ShardCount, compare};
pub use publish::{VersionPublication, publish_version};

use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Reference, Root};
use super::objects::{document, there};
use super::{Elsewhere, Options};
use crate::error::{Code, Error, Result};
use crate::layout::Source;
use crate::store::{StorageOptions, Store, connect, local_path};
use crate::uri::RelPath;
use sigbank_format::model::json::Json;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Fewest hexadecimal digits of a digest that stand for it.
const FEWEST_DIGITS: usize = 12;

/// Names a version for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRef {
    /// Its number.
    pub number: u64,
    /// Its digest.
    pub digest: Digest,
}

/// A version: what its document says. Of version 0 what `root.json` and the snapshot say.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its number, from 0 on without gaps.
    pub number: u64,
    /// Its name, which no other version of the dataset has; of version 0 the snapshot's.
    pub name: String,
    /// What its document is, see the [module](self).
    pub digest: Digest,
    /// The version that was the newest when it was published; none for version 0.
    pub parent: Option<VersionRef>,
    /// The version whose records it begins with; none where all of it is new.
    pub base: Option<VersionRef>,
    /// The snapshot document.
    pub snapshot: Reference,
    /// Records.
    pub record_count: u64,
    /// Shards.
    pub shard_count: u64,
    /// Bytes of the shards' objects.
    pub stored_bytes: u64,
    /// Whatever its producer says of it, an object.
    pub metadata: Json,
    /// When it was published, in UTC, such as `2026-01-31T12:00:00Z`; none for version 0.
    pub created: Option<String>,
}

impl Version {
    /// Number and digest.
    pub fn reference(&self) -> VersionRef {
        VersionRef { number: self.number, digest: self.digest }
    }
}

/// Says which version.
///
/// ```
/// use sigbank::layout::signal_dataset::Which;
/// assert_eq!("latest".parse(), Ok(Which::Latest));
/// assert_eq!("3".parse(), Ok(Which::Number(3)));
/// assert_eq!("sha256:BA7816bf8f01".parse(), Ok(Which::Digest("ba7816bf8f01".into())));
/// assert_eq!("calibrated".parse(), Ok(Which::Name("calibrated".into())));
/// assert!("sha256:ba78".parse::<Which>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The newest.
    Latest,
    /// That of this number.
    Number(u64),
    /// That of this name.
    Name(String),
    /// That whose digest begins with these (12 to 64, lower-case) hexadecimal digits.
    Digest(String),
}

impl FromStr for Which {
    type Err = String;

    /// `latest`, a number, `sha256:` and at least 12 hexadecimal digits, or a name.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(hex) = text.strip_prefix("sha256:") {
            if hex.len() > 64 || hex.len() < FEWEST_DIGITS || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!("{text:?} is no digest: sha256: and {FEWEST_DIGITS} to 64 hexadecimal digits are expected"));
            }
            return Ok(Self::Digest(hex.to_ascii_lowercase()));
        }
        Ok(match text.parse() {
            _ if text == "latest" => Self::Latest,
            Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) => Self::Number(number),
            _ => Self::Name(text.into()),
        })
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "'{name}'"),
            Self::Digest(hex) => write!(f, "sha256:{hex}"),
        }
    }
}

pub(super) fn path(number: u64) -> Result<RelPath> {
    RelPath::parse(&format!("sigbank/versions/{number:08}.json"))
}

/// The number of a version's document; none for another name.
pub(super) fn number(path: &RelPath) -> Option<u64> {
    path.file_name().strip_suffix(".json")?.parse().ok()
}

/// So many numbers behind the newest are looked at where a gap would do harm.
const AHEAD: u64 = 8;

/// Which of the next numbers behind `newest` have a document. Asked for in one go where a request takes its time.
pub(super) fn ahead(store: &dyn Store, newest: u64) -> Result<Vec<u64>> {
    let numbers: Vec<u64> = (1..=AHEAD).filter_map(|n| newest.checked_add(n)).collect();
    let look = |number: u64| Ok::<_, Error>(there(store, &path(number)?)?.then_some(number));
    let found: Vec<Result<Option<u64>>> = match store.capabilities().round_trip {
        0 => numbers.into_iter().map(look).collect(),
        _ => std::thread::scope(|scope| {
            let asked: Vec<_> = numbers.into_iter().map(|number| scope.spawn(move || look(number))).collect();
            let ended = |_| Err(Error::storage("a thread that looked for versions ended early"));
            asked.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
        }),
    };
    found.into_iter().filter_map(Result::transpose).collect()
}

/// Refuses a dataset with a document not far behind a number that has none: to go on would hide it, or name another version so.
pub(super) fn no_gap(store: &dyn Store, newest: u64) -> Result<()> {
    let known = ahead(store, newest)?;
    let Some(&last) = known.last() else { return Ok(()) };
    for number in (newest + 1..last).filter(|number| !known.contains(number)) {
        // Others publish meanwhile, one behind the other.
        if !there(store, &path(number)?)? {
            return Err(gap(store, number, last));
        }
    }
    Ok(())
}

/// The error of a number without a document before one that has one.
pub(super) fn gap(store: &dyn Store, number: u64, later: u64) -> Error {
    let missing = path(number).map_or_else(|_| store.location(), |path| store.locate(&path));
    Error::corrupt(format!("version {later} is there, and version {number} before it is missing")).at(missing).remedy(
        "sigbank check --repair puts it back where its snapshot is whole; else restore it from a copy of the dataset (sigbank sync from it \
         does), or delete the later ones where they are to be given up",
    )
}

impl Dataset {
    /// Opens a version of the dataset in a store.
    ///
    /// # Errors
    /// Those of [`Dataset::open_store`]; `NotFound` for a version that is not there, `Invalid` for digits that several digests begin with;
    /// `Corrupt` for a document that is not what its digest says.
    pub fn open_version(store: Arc<dyn Store>, which: &Which, options: Options) -> Result<Self> {
        Self::open_store(store, options)?.version(which)
    }

    /// Opens the version of a digest (64 hexadecimal digits, with or without `sha256:` before them), whatever was published since.
    ///
    /// # Errors
    /// As [`Dataset::open_version`]; `Invalid` for what is no whole digest.
    pub fn open_at(store: Arc<dyn Store>, digest: &str, options: Options) -> Result<Self> {
        let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
        let whole: Digest = hex
            .parse()
            .map_err(|()| Error::invalid(format!("a sha256 of 64 hexadecimal digits is expected, found {digest:?}")))?;
        Self::open_version(store, &Which::Digest(whole.to_string()), options)
    }

    /// Opens another version of this dataset (or the same).
    ///
    /// # Errors
    /// Those of [`Dataset::open_version`].
    pub fn version(&self, which: &Which) -> Result<Self> {
        let first = self.first_version()?;
        let found = match which {
            Which::Latest => first.newest()?,
            Which::Number(number) => first.numbered(*number)?,
            Which::Name(_) | Which::Digest(_) => first.find(which)?,
        };
        first.at(found)
    }

    /// All versions, from number 0 on. One small document is read for each.
    ///
    /// # Errors
    /// `Corrupt` for a document that is damaged or names another parent than there is.
    pub fn versions(&self) -> Result<Vec<Version>> {
        let first = self.first_version()?;
        let mut all = vec![first.zero()];
        let newest = first.newest_number()?;
        for number in 1..=newest {
            let version = first.numbered(number).map_err(|e| match e.code() {
                Code::NotFound => gap(&**first.store(), number, newest),
                _ => e,
            })?;
            let parent =
                version.parent.as_ref().and_then(|parent| Some((parent, all.get(usize::try_from(parent.number).ok()?)?)));
            if let Some((named, there)) = parent
                && named.digest != there.digest
            {
                let what =
                    format!("it follows version {}, sha256:{}; that is sha256:{} now", named.number, named.digest, there.digest);
                let e = Error::corrupt(what).remedy("one of the two documents was replaced: restore them from a copy");
                return Err(e.at(self.store().locate(&path(number)?)));
            }
            all.push(version);
        }
        Ok(all)
    }

    /// What `root.json` names.
    fn first_version(&self) -> Result<Self> {
        match self.version_document() {
            None => Ok(self.clone()),
            Some(_) => Self::open_store(Arc::clone(self.store()), self.options().clone()),
        }
    }

    /// This dataset, which is version 0, as a version.
    fn zero(&self) -> Version {
        let snapshot = self.snapshot();
        Version {
            number: 0,
            name: snapshot.snapshot_id.clone(),
            digest: self.root_digest(),
            parent: None,
            base: None,
            snapshot: self.root().snapshot.clone(),
            record_count: snapshot.record_count,
            shard_count: snapshot.shard_count,
            stored_bytes: snapshot.stored_bytes,
            metadata: self.metadata().clone(),
            created: None,
        }
    }

    /// The version document of a number.
    fn numbered(&self, number: u64) -> Result<Version> {
        if number == 0 {
            return Ok(self.zero());
        }
        let (store, path, limits) = (self.store(), path(number)?, &self.options().control);
        let bytes = document(&**store, &path, limits).map_err(|e| match e.code() {
            Code::NotFound => Error::not_found(format!("there is no version {number}"))
                .at(store.locate(&path))
                .remedy("see which there are: sigbank snapshots"),
            _ => e,
        })?;
        Version::parse(&bytes, limits, number).map_err(|e| {
            e.at(store.locate(&path)).remedy("it is damaged: sigbank check --repair puts the copy beside its snapshot in its place; else restore it from a copy of the dataset")
        })
    }

    /// All versions, as [`Dataset::versions`], and also a look behind the last number: whether one is there that a gap hides.
    ///
    /// # Errors
    /// `Corrupt` for a gap, and those of [`Dataset::versions`].
    pub fn versions_without_gap(&self) -> Result<Vec<Version>> {
        let all = self.versions()?;
        no_gap(&**self.store(), all.last().map_or(0, |version| version.number))?;
        Ok(all)
    }

    /// Looks at about twice the logarithm of the number.
    fn newest_number(&self) -> Result<u64> {
        let look = |number: u64| there(&**self.store(), &path(number)?);
        let (mut low, mut high) = (0u64, 1u64);
        while look(high)? {
            (low, high) = (high, high.saturating_mul(2));
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if look(middle)? { low = middle } else { high = middle }
        }
        // A look at a disk costs next to nothing.
        if self.store().capabilities().round_trip == 0 {
            no_gap(&**self.store(), low)?;
        }
        Ok(low)
    }

    fn newest(&self) -> Result<Version> {
        self.numbered(self.newest_number()?)
    }

    /// The version of a name or a digest.
    fn find(&self, which: &Which) -> Result<Version> {
        let fits = |version: &Version| match which {
            Which::Name(name) => version.name == *name,
            Which::Digest(hex) => version.digest.to_string().starts_with(hex),
            Which::Latest | Which::Number(_) => false,
        };
        let mut found: Vec<Version> = self.versions()?.into_iter().filter(fits).collect();
        match (found.pop(), found.last()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(Error::not_found(format!("there is no version {which}"))
                .at(self.location())
                .remedy("see which there are: sigbank snapshots")),
            (Some(one), Some(other)) => {
                Err(Error::invalid(format!("{which} are the versions {} and {}", other.number, one.number))
                    .at(self.location())
                    .remedy("give the number, or more digits of the digest"))
            }
        }
    }

    /// This dataset, which is version 0, at one of its versions.
    fn at(&self, version: Version) -> Result<Self> {
        if version.number == 0 {
            return Ok(self.clone());
        }
        let root =
            Root { dataset_id: self.dataset_id().into(), snapshot: version.snapshot.clone(), metadata: version.metadata.clone() };
        let (digest, said) = (version.digest, (version.record_count, version.shard_count, version.stored_bytes));
        let opened = Self::of_root(Arc::clone(self.store()), self.options().clone(), root, digest, Some(version))?;
        let snapshot = opened.snapshot();
        let found = (snapshot.record_count, snapshot.shard_count, snapshot.stored_bytes);
        if said != found {
            return Err(Error::corrupt(format!("records, shards and bytes are {found:?}, where the version says {said:?}"))
                .at(self.store().locate(&RelPath::parse(opened.root().snapshot.path.as_str())?)));
        }
        Ok(opened)
    }
}

/// Opens a dataset of any layout at a version, see [`crate::layout::open`].
///
/// # Errors
/// `Unsupported` where the dataset's layout has no versions; `Invalid` for text that is no [`Which`]; else those of
/// [`crate::layout::open`] and [`Dataset::open_version`].
pub fn open_at_version(path: &str, which: &str, storage: &StorageOptions) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(dataset_at_version(path, Some(which), storage)?.source()?))
}

/// Opens a signal-dataset, at a version where one is given.
///
/// # Errors
/// As [`open_at_version`].
pub fn dataset_at_version(path: &str, which: Option<&str>, storage: &StorageOptions) -> Result<Dataset> {
    let which = which.map(|text| text.parse::<Which>().map_err(|e| Error::invalid(e).within("version"))).transpose()?;
    let root = local_path(path);
    if which.is_some() && root.is_some_and(|root| root.join(crate::layout::sedpack::ROOT).is_file()) {
        return Err(Error::unsupported("this is a Sedpack dataset, and that layout has no versions")
            .at(path)
            .remedy("open it without a version"));
    }
    let options = Options { elsewhere: Elsewhere::with_options(storage.clone()), ..Options::default() };
    let dataset = match root {
        Some(root) => Dataset::open(root, options)?,
        None => Dataset::open_store(connect(path, storage)?, options)?,
    };
    match which {
        None => Ok(dataset),
        Some(which) => dataset.version(&which),
    }
}
