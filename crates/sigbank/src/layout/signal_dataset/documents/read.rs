//! From bytes to documents, with every rule that a document can be held to by itself and by what names it.

use super::*;
use sigbank_format::FormatError;
use sigbank_format::model::json::{Limits, Parser};

pub(in super::super) type Fields<T> = sigbank_format::Result<T>;

fn wrong(message: impl Into<String>) -> FormatError {
    FormatError::corrupt(message)
}

pub(in super::super) fn need<T>(value: Option<T>, key: &str) -> Fields<T> {
    value.ok_or_else(|| wrong(format!("the key '{key}' is missing")))
}

/// What `format`, `layout_version` and `min_reader_version` say.
#[derive(Default)]
struct Kind {
    format: Option<Json>,
    layout_version: Option<Json>,
    min_reader_version: Option<Json>,
}

impl Kind {
    fn take(&mut self, p: &mut Parser<'_>, key: &str) -> Fields<()> {
        match key {
            "format" => self.format = Some(p.json()?),
            "layout_version" => self.layout_version = Some(p.json()?),
            "min_reader_version" => self.min_reader_version = Some(p.json()?),
            _ => p.skip()?,
        }
        Ok(())
    }

    fn check(&self, format: &str) -> Fields<()> {
        match &self.format {
            Some(found) if *found == Json::from(format) => {}
            Some(found) => return Err(wrong(format!("its format is {found}, where \"{format}\" belongs"))),
            None => return Err(wrong(format!("it has no format, where \"{format}\" belongs: this is no such document"))),
        }
        match &self.layout_version {
            Some(found) if *found == Json::from(LAYOUT_VERSION) => {}
            Some(found) => {
                return Err(wrong(format!("its layout_version is {found}; \"{LAYOUT_VERSION}\" is read: use a newer sigbank")));
            }
            None => return Err(wrong("it has no layout_version")),
        }
        match self.min_reader_version.as_ref().filter(|json| **json != Json::NULL) {
            None => Ok(()),
            Some(found) => {
                let version = found.walk().string().ok().and_then(|text| version(&text));
                let version = version.ok_or_else(|| wrong(format!("its min_reader_version is {found}, which is no version")))?;
                if version.as_slice() > NEWEST_READER_VERSION.as_slice() {
                    let known = NEWEST_READER_VERSION.map(|n| n.to_string()).join(".");
                    return Err(wrong(format!(
                        "its min_reader_version is {found}, and what version {known} can is known here: use a newer sigbank"
                    )));
                }
                Ok(())
            }
        }
    }
}

/// The numbers at the start of a version, without zeros at their end: those of 1.2.0rc1 are 1 and 2.
fn version(text: &str) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    for part in text.split('.') {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if digits.is_empty() {
            break;
        }
        numbers.push(digits.parse().unwrap_or(u64::MAX));
        if digits.len() < part.len() {
            break;
        }
    }
    let known = !numbers.is_empty();
    numbers.truncate(numbers.iter().rposition(|&number| number > 0).map_or(0, |last| last + 1));
    known.then_some(numbers)
}

/// Reads an object whose members `member` takes, as far as it knows them; `kind` hears of the others.
pub(in super::super) fn document<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    format: &str,
    mut member: impl FnMut(&mut Parser<'a>, &str) -> Fields<bool>,
) -> Fields<()> {
    let mut kind = Kind::default();
    let mut parser = Parser::new(bytes, limits)?;
    let read = parser.object(|p, key| if member(p, &key)? { Ok(()) } else { kind.take(p, &key) });
    match read.and_then(|()| parser.finish()) {
        Ok(()) => kind.check(format),
        // Another version may be laid out differently: say so rather than where.
        Err(e) => {
            let mut all = Kind::default();
            let readable = Parser::new(bytes, limits).and_then(|mut p| p.object(|p, key| all.take(p, &key)));
            readable.and_then(|()| all.check(format)).and(Err(e))
        }
    }
}

pub(in super::super) fn text(p: &mut Parser<'_>, what: &str) -> Fields<String> {
    let text = p.string()?;
    if text.is_empty() { Err(wrong(format!("the {what} is empty"))) } else { Ok(text.into_owned()) }
}

pub(in super::super) fn reference(p: &mut Parser<'_>, anywhere: bool) -> Fields<Reference> {
    let (mut path, mut stored_bytes, mut sha256) = (None, None, None);
    p.object(|p, key| {
        match &*key {
            "path" => {
                let place = p.string()?;
                path = Some(Place::parse(&place).map_err(|e| wrong(format!("it refers to something out of the dataset: {e}")))?);
            }
            "stored_bytes" => stored_bytes = Some(p.unsigned()?),
            "sha256" if p.null()? => {}
            "sha256" => {
                let hex = p.string()?;
                let digest = hex.parse().map_err(|_| wrong(format!("a sha256 of 64 hexadecimal digits is expected, found {hex:?}")));
                sha256 = Some(digest?);
            }
            "generation" if p.null()? => {}
            "generation" => {
                let generation = p.unsigned()?;
                return Err(wrong(format!(
                    "it refers to generation {generation} of an object, and this store keeps no generations: read it where it was written"
                )));
            }
            _ => p.skip()?,
        }
        Ok(())
    })?;
    let path = need(path, "path")?;
    if !anywhere && !matches!(path, Place::Inside(_)) {
        return Err(wrong(format!("it refers to '{path}', which is not within the dataset")));
    }
    Ok(Reference { path, stored_bytes: need(stored_bytes, "stored_bytes")?, sha256 })
}

/// An object that holds this `name` and nothing else: what more there is may change the meaning.
fn named(p: &mut Parser<'_>, key: &str, known: &str) -> Fields<()> {
    let json = p.json()?;
    if json.as_str() == format!("{{\"name\":\"{known}\"}}") {
        return Ok(());
    }
    Err(wrong(format!("the {key} {json} is not known; {{\"name\":\"{known}\"}} is")))
}

/// An object; null is an empty one.
pub(in super::super) fn object(p: &mut Parser<'_>, key: &str) -> Fields<Json> {
    if p.null()? {
        return Ok(Json::EMPTY);
    }
    let json = p.json()?;
    if json.is_object() { Ok(json) } else { Err(wrong(format!("the {key} are {json}, not an object"))) }
}

impl Root {
    /// Reads the document.
    ///
    /// # Errors
    /// `Corrupt` for another format or version, a key that is missing, comes twice or is of another kind, and for references out of the
    /// dataset; `Limit` where it is too large.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let (mut dataset_id, mut snapshot, mut metadata) = (None, None, Json::EMPTY);
        let (mut codec, mut shards) = (None, None);
        document(bytes, limits, ROOT_FORMAT, |p, key| {
            match key {
                "dataset_id" => dataset_id = Some(text(p, key)?),
                "snapshot" => snapshot = Some(reference(p, false)?),
                "metadata" => metadata = object(p, key)?,
                "record_codec" => codec = Some(named(p, key, CODEC)?),
                "shard_format" => shards = Some(named(p, key, SHARD_FORMAT)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        need(codec, "record_codec").and(need(shards, "shard_format"))?;
        let dataset_id = need(dataset_id, "dataset_id")?;
        Ok(Self { dataset_id, snapshot: need(snapshot, "snapshot")?, metadata })
    }
}

impl Snapshot {
    /// Reads the document.
    ///
    /// # Errors
    /// As [`Root::parse`]; `Corrupt` too for pages that do not follow one another and for counts and sizes that do not add up.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let (mut snapshot_id, mut records, mut shards, mut stored, mut manifests) = (None, None, None, None, None);
        document(bytes, limits, SNAPSHOT_FORMAT, |p, key| {
            match key {
                // A rule of roots: here it is a key like any unknown one.
                "min_reader_version" => p.skip()?,
                "snapshot_id" => snapshot_id = Some(text(p, key)?),
                "record_count" => records = Some(p.unsigned()?),
                "shard_count" => shards = Some(p.unsigned()?),
                "stored_bytes" => stored = Some(p.unsigned()?),
                "manifests" => {
                    let mut pages = Vec::new();
                    p.array(|p| {
                        pages.push(page_ref(p).map_err(|e| e.within(format!("manifest {}", pages.len())))?);
                        Ok(())
                    })?;
                    manifests = Some(pages);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let snapshot = Self {
            snapshot_id: need(snapshot_id, "snapshot_id")?,
            record_count: need(records, "record_count")?,
            shard_count: need(shards, "shard_count")?,
            stored_bytes: need(stored, "stored_bytes")?,
            manifests: need(manifests, "manifests")?,
        };
        let (mut next, mut shards, mut stored) = (0, 0, 0);
        for (i, page) in snapshot.manifests.iter().enumerate() {
            next = follows(next, page.first_ordinal, page.record_count).map_err(|e| e.within(format!("manifest {i}")))?;
            shards = add(shards, page.shard_count, "a shard_count")?;
            stored = add(stored, page.stored_bytes, "stored_bytes")?;
        }
        adds_up("record_count", snapshot.record_count, next, "manifests")?;
        adds_up("shard_count", snapshot.shard_count, shards, "manifests")?;
        adds_up("stored_bytes", snapshot.stored_bytes, stored, "manifests")?;
        Ok(snapshot)
    }
}

fn page_ref(p: &mut Parser<'_>) -> Fields<PageRef> {
    let (mut first, mut records, mut shards, mut stored, mut object) = (None, None, None, None, None);
    p.object(|p, key| {
        match &*key {
            "first_ordinal" => first = Some(p.unsigned()?),
            "record_count" => records = Some(p.unsigned()?),
            "shard_count" => shards = Some(p.unsigned()?),
            "stored_bytes" => stored = Some(p.unsigned()?),
            "object" => object = Some(reference(p, false)?),
            _ => p.skip()?,
        }
        Ok(())
    })?;
    Ok(PageRef {
        first_ordinal: need(first, "first_ordinal")?,
        record_count: need(records, "record_count")?,
        shard_count: need(shards, "shard_count")?,
        stored_bytes: need(stored, "stored_bytes")?,
        object: need(object, "object")?,
    })
}

impl Page {
    /// Reads the document, which `named` names.
    ///
    /// # Errors
    /// As [`Snapshot::parse`]; `Corrupt` too for another range, count or size than `named` says.
    pub fn parse(bytes: &[u8], limits: &Limits, named: &PageRef) -> Result<Self> {
        let (mut first, mut records, mut shards) = (None, None, None);
        document(bytes, limits, MANIFEST_FORMAT, |p, key| {
            match key {
                // A rule of roots: here it is a key like any unknown one.
                "min_reader_version" => p.skip()?,
                "first_ordinal" => first = Some(p.unsigned()?),
                "record_count" => records = Some(p.unsigned()?),
                "shards" => {
                    let mut list = Vec::new();
                    p.array(|p| {
                        list.push(shard(p).map_err(|e| e.within(format!("shard {}", list.len())))?);
                        Ok(())
                    })?;
                    shards = Some(list);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let page = Self {
            first_ordinal: need(first, "first_ordinal")?,
            record_count: need(records, "record_count")?,
            shards: need(shards, "shards")?,
        };
        let (mut next, mut stored) = (page.first_ordinal, 0);
        for (i, shard) in page.shards.iter().enumerate() {
            next = follows(next, shard.first_ordinal, shard.record_count).map_err(|e| e.within(format!("shard {i}")))?;
            let both = add(shard.data.stored_bytes, shard.metadata.stored_bytes, "stored_bytes")?;
            stored = add(stored, both, "stored_bytes")?;
        }
        adds_up("record_count", page.record_count, next - page.first_ordinal, "shards")?;
        adds_up("first_ordinal", page.first_ordinal, named.first_ordinal, "snapshot")?;
        adds_up("record_count", page.record_count, named.record_count, "snapshot")?;
        adds_up("number of shards", page.shards.len() as u64, named.shard_count, "snapshot")?;
        adds_up("sum of stored_bytes", stored, named.stored_bytes, "snapshot")?;
        Ok(page)
    }
}

fn shard(p: &mut Parser<'_>) -> Fields<Shard> {
    let (mut first, mut records, mut data, mut metadata, mut record_indices) = (None, None, None, None, None);
    p.object(|p, key| {
        match &*key {
            "first_ordinal" => first = Some(p.unsigned()?),
            "record_count" => records = Some(p.unsigned()?),
            "data" => data = Some(reference(p, true)?),
            "metadata" => metadata = Some(reference(p, true)?),
            "record_indices" if p.null()? => {}
            "record_indices" => {
                let mut indices = Vec::new();
                p.array(|p| {
                    indices.push(p.unsigned()?);
                    Ok(())
                })?;
                record_indices = Some(indices);
            }
            _ => p.skip()?,
        }
        Ok(())
    })?;
    let record_count = need(records, "record_count")?;
    if let Some(indices) = record_indices.as_ref().filter(|indices| indices.len() as u64 != record_count) {
        return Err(wrong(format!("{} record_indices for a record_count of {record_count}", indices.len())));
    }
    Ok(Shard {
        first_ordinal: need(first, "first_ordinal")?,
        record_count,
        data: need(data, "data")?,
        metadata: need(metadata, "metadata")?,
        record_indices,
    })
}

/// The ordinal behind a range that must begin at `next`.
fn follows(next: u64, first: u64, count: u64) -> Result<u64> {
    if first != next {
        return Err(Error::corrupt(format!(
            "its records begin at ordinal {first}, where {next} is the next: the ranges do not meet"
        )));
    }
    add(first, count, "ordinals")
}

fn adds_up(what: &str, said: u64, found: u64, by: &str) -> Result<()> {
    if said == found {
        return Ok(());
    }
    Err(Error::corrupt(format!("its {what} is {said}, but {found} by its {by}"))
        .remedy("the document is damaged, or is of another publication: restore it from a copy"))
}
