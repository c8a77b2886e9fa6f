//! The documents of annotations: compact JSON without a last line feed. Unknown keys are errors.

use super::super::digest::Digest;
use super::super::documents::{Doc, Fields, Place, Reference, need, object, reference};
use super::{AnnotationShard, identifier, inside};
use crate::uri::RelPath;
use sigbank_format::FormatError;
use sigbank_format::model::json::{Json, Limits, Parser, write_string};
use std::collections::BTreeMap;

/// The key of a set's digest in the first of its objects' references.
const SET_DIGEST: &str = "set_sha256";

fn wrong(message: impl Into<String>) -> FormatError {
    FormatError::corrupt(message)
}

fn unknown<T>(key: &str) -> Fields<T> {
    Err(wrong(format!("the key '{key}' is not known: the document is damaged or of a later version")))
}

fn relative(p: &mut Parser<'_>) -> Fields<RelPath> {
    let text = p.string()?;
    RelPath::parse(&text).map_err(|e| wrong(format!("it refers to something out of the dataset: {e}")))
}

/// A name that may stand in paths.
fn portable(p: &mut Parser<'_>, what: &str) -> Fields<String> {
    let text = p.string()?.into_owned();
    identifier(what, &text).map_err(|e| wrong(e.to_string()))?;
    Ok(text)
}

fn no_generation(p: &mut Parser<'_>) -> Fields<()> {
    if p.null()? { Ok(()) } else { Err(wrong("it names a generation of an object, and this store keeps none")) }
}

fn whole<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    member: impl FnMut(&mut Parser<'a>, std::borrow::Cow<'a, str>) -> Fields<()>,
) -> Fields<()> {
    let mut parser = Parser::new(bytes, limits)?;
    parser.object(member)?;
    parser.finish()
}

/// `annotations/catalog.json`.
pub(super) struct Pointer {
    pub(super) revision: RelPath,
}

impl Pointer {
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Fields<Self> {
        let mut revision = None;
        whole(bytes, limits, |p, key| match &*key {
            "revision" => {
                let mut path = None;
                p.object(|p, key| match &*key {
                    "path" => {
                        path = Some(relative(p)?);
                        Ok(())
                    }
                    "generation" => no_generation(p),
                    key => unknown(key),
                })?;
                revision = Some(need(path, "path")?);
                Ok(())
            }
            key => unknown(key),
        })?;
        Ok(Self { revision: need(revision, "revision")? })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        out.key("revision");
        out.open('{');
        out.raw("generation", "null");
        out.string("path", self.revision.as_str());
        out.close('}');
        out.compact()
    }
}

/// A set's root as a revision names it: exactly path and stored_bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SetRef(pub(super) Reference);

/// `annotations/catalogs/….json`: the sets by name.
#[derive(Default)]
pub(super) struct Revision {
    pub(super) sets: BTreeMap<String, SetRef>,
}

impl Revision {
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Fields<Self> {
        let mut sets = None;
        whole(bytes, limits, |p, key| {
            if key != "sets" {
                return unknown(&key);
            }
            let mut all = BTreeMap::new();
            p.object(|p, name| {
                identifier("annotation set's name", &name).map_err(|e| wrong(e.to_string()))?;
                let (mut path, mut stored) = (None, None);
                p.object(|p, key| {
                    match &*key {
                        "path" => path = Some(relative(p)?),
                        "stored_bytes" => stored = Some(p.unsigned()?),
                        "generation" => no_generation(p)?,
                        key => return unknown(key),
                    }
                    Ok(())
                })?;
                all.insert(name.into_owned(), SetRef(inside(need(path, "path")?, need(stored, "stored_bytes")?)));
                Ok(())
            })?;
            sets = Some(all);
            Ok(())
        })?;
        Ok(Self { sets: need(sets, "sets")? })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        out.key("sets");
        out.open('{');
        for (name, SetRef(reference)) in &self.sets {
            out.key(name);
            out.open('{');
            out.raw("generation", "null");
            out.string("path", reference.path.as_str());
            out.number("stored_bytes", reference.stored_bytes);
            out.close('}');
        }
        out.close('}');
        out.compact()
    }
}

/// A set's root.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SetRoot {
    pub(super) name: String,
    pub(super) publication_id: String,
    pub(super) source_snapshot_id: String,
    pub(super) record_count: u64,
    pub(super) metadata: Json,
    pub(super) shards: Vec<SetShard>,
}

/// One object of a set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SetShard {
    pub(super) first_ordinal: u64,
    pub(super) record_count: u64,
    pub(super) object: Reference,
}

impl SetRoot {
    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Fields<Self> {
        let (mut name, mut publication_id, mut snapshot, mut records) = (None, None, None, None);
        let (mut metadata, mut shards) = (None, None);
        whole(bytes, limits, |p, key| {
            match &*key {
                "name" => name = Some(portable(p, "annotation set's name")?),
                "publication_id" => publication_id = Some(portable(p, "publication id")?),
                "source_snapshot_id" => snapshot = Some(p.string()?.into_owned()),
                "record_count" => records = Some(p.unsigned()?),
                "metadata" => metadata = Some(object(p, &key)?),
                "shards" => {
                    let mut all = Vec::new();
                    p.array(|p| {
                        all.push(set_shard(p).map_err(|e| e.within(format!("shard {}", all.len())))?);
                        Ok(())
                    })?;
                    shards = Some(all);
                }
                key => return unknown(key),
            }
            Ok(())
        })?;
        let root = Self {
            name: need(name, "name")?,
            publication_id: need(publication_id, "publication_id")?,
            source_snapshot_id: need(snapshot, "source_snapshot_id")?,
            record_count: need(records, "record_count")?,
            metadata: need(metadata, "metadata")?,
            shards: need(shards, "shards")?,
        };
        let mut next = 0u64;
        for (at, shard) in root.shards.iter().enumerate() {
            if shard.first_ordinal != next {
                return Err(wrong(format!(
                    "shard {at} begins at {}, where {next} is the next: the ranges do not meet",
                    shard.first_ordinal
                )));
            }
            if shard.record_count == 0 {
                return Err(wrong(format!("shard {at} has 0 rows: each has one or more")));
            }
            next = next.checked_add(shard.record_count).ok_or_else(|| wrong("ordinals of more than 64 bits"))?;
        }
        if next != root.record_count {
            return Err(wrong(format!("its record_count is {}, but {next} by its shards", root.record_count)));
        }
        Ok(root)
    }

    /// Compares the document that was read with the digest in it, where it must have one.
    pub(super) fn verify(self, bytes: &[u8]) -> Fields<Self> {
        let must = self.shards.iter().any(|shard| shard.object.sha256.is_some());
        same_bytes(bytes, must)?;
        Ok(self)
    }

    /// The document. Where its objects have digests it has one of its own, that of all its other bytes, in the first object's reference,
    /// since who names it cannot: an entry of the catalog has no place for one.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.document(None);
        match self.shards.first().and_then(|shard| shard.object.sha256) {
            Some(_) => self.document(Some(&Digest::of(&bytes).to_string())),
            None => bytes,
        }
    }

    fn document(&self, mut digest: Option<&str>) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        out.raw("metadata", self.metadata.as_str());
        out.string("name", &self.name);
        out.string("publication_id", &self.publication_id);
        out.number("record_count", self.record_count);
        out.key("shards");
        out.open('[');
        for shard in &self.shards {
            out.item();
            out.open('{');
            out.number("first_ordinal", shard.first_ordinal);
            out.key("object");
            shard.object.put_with(&mut out, digest.take().map(|digest| (SET_DIGEST, digest)));
            out.number("record_count", shard.record_count);
            out.close('}');
        }
        out.close(']');
        out.string("source_snapshot_id", &self.source_snapshot_id);
        out.compact()
    }
}

/// Whether a set's root is what the digest in it says, if it has one.
fn same_bytes(bytes: &[u8], must: bool) -> Fields<()> {
    let last = |text: &str| bytes.windows(text.len()).rposition(|window| window == text.as_bytes());
    let (key, hex) = (format!("\"{SET_DIGEST}\":\""), 64);
    // The metadata may hold what looks like it, but stand before the shards; behind them there is nothing that could.
    let at = last(&key).filter(|at| last("\"shards\":[").is_some_and(|shards| shards < *at));
    let told = at.and_then(|at| {
        let digest: Digest = std::str::from_utf8(bytes.get(at + key.len()..at + key.len() + hex)?).ok()?.parse().ok()?;
        Some((digest, [bytes.get(..at)?, bytes.get(at + key.len() + hex + 2..)?].concat()))
    });
    match told {
        Some((digest, rest)) if Digest::of(&rest) == digest => Ok(()),
        Some((digest, _)) => {
            Err(wrong(format!("it is not the document of sha256:{digest}, which it says it is: its bytes were changed")))
        }
        None if must || at.is_some() => {
            Err(wrong("it does not tell its own digest, though those of its objects: its bytes were changed"))
        }
        None => Ok(()),
    }
}

fn set_shard(p: &mut Parser<'_>) -> Fields<SetShard> {
    let (mut first, mut records, mut object) = (None, None, None);
    p.object(|p, key| {
        match &*key {
            "first_ordinal" => first = Some(p.unsigned()?),
            "record_count" => records = Some(p.unsigned()?),
            "object" => object = Some(reference(p, false)?),
            key => return unknown(key),
        }
        Ok(())
    })?;
    Ok(SetShard {
        first_ordinal: need(first, "first_ordinal")?,
        record_count: need(records, "record_count")?,
        object: need(object, "object")?,
    })
}

impl AnnotationShard {
    /// Where its object is, relative to the root, wherever that is by now.
    pub(super) fn object(&self) -> Fields<RelPath> {
        let folder = format!("annotations/sets/{}/{}/objects/", self.name, self.publication_id);
        let at = self.uri.rfind(&folder).and_then(|at| {
            // Those of a further version lie beside its document.
            let before = self.uri.get(..at)?;
            let number = before.strip_suffix('/').and_then(|before| before.rsplit_once('/')?.1.parse().ok());
            let home = number.map(super::home).filter(|home| !home.is_empty() && before.ends_with(home.as_str()));
            self.uri.get(at - home.map_or(0, |home| home.len())..)
        });
        let path = at.and_then(|path| RelPath::parse(path).ok());
        path.ok_or_else(|| wrong(format!("its object '{}' is not below {folder}", self.uri)))
    }

    /// The worker's pointer.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let list = |texts: &[String]| {
            let mut out = String::from("[");
            for (at, text) in texts.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(text, &mut out);
            }
            out + "]"
        };
        let mut out = Doc::default();
        out.open('{');
        out.number("first_ordinal", self.first_ordinal);
        out.raw("generation", "null");
        out.string("logical_shard_id", &self.logical_shard_id);
        out.string("name", &self.name);
        out.string("publication_id", &self.publication_id);
        out.raw("record_ids", &list(&self.record_ids));
        out.string("source_snapshot_id", &self.source_snapshot_id);
        out.raw("statuses", &list(&self.statuses));
        out.number("stored_bytes", self.stored_bytes);
        out.raw("terminal_statuses", &list(&self.terminal_statuses));
        out.string("uri", &self.uri);
        out.compact()
    }

    pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Fields<Self> {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let (mut first, mut stored) = (None, None);
        whole(bytes, limits, |p, key| {
            match &*key {
                "first_ordinal" => first = Some(p.unsigned()?),
                "stored_bytes" => stored = Some(p.unsigned()?),
                "generation" => no_generation(p)?,
                "record_ids" | "statuses" | "terminal_statuses" => {
                    let mut list = Vec::new();
                    p.array(|p| {
                        list.push(p.string()?.into_owned());
                        Ok(())
                    })?;
                    lists.insert(key.into_owned(), list);
                }
                "name" | "publication_id" | "source_snapshot_id" | "logical_shard_id" | "uri" => {
                    let text = p.string()?.into_owned();
                    texts.insert(key.into_owned(), text);
                }
                key => return unknown(key),
            }
            Ok(())
        })?;
        let mut text = |key: &str| need(texts.remove(key), key);
        let mut list = |key: &str| need(lists.remove(key), key);
        let shard = Self {
            name: text("name")?,
            publication_id: text("publication_id")?,
            source_snapshot_id: text("source_snapshot_id")?,
            logical_shard_id: text("logical_shard_id")?,
            first_ordinal: need(first, "first_ordinal")?,
            record_ids: list("record_ids")?,
            uri: text("uri")?,
            stored_bytes: need(stored, "stored_bytes")?,
            statuses: list("statuses")?,
            terminal_statuses: list("terminal_statuses")?,
        };
        let rows = shard.record_ids.len();
        if shard.statuses.len() != rows || shard.terminal_statuses.len() != rows {
            return Err(wrong(format!("{rows} record_ids, but not as many statuses")));
        }
        shard.object()?;
        Ok(shard)
    }
}

impl SetRef {
    pub(super) fn new(path: RelPath, stored_bytes: u64) -> Self {
        Self(Reference { path: Place::Inside(path), stored_bytes, sha256: None })
    }
}
