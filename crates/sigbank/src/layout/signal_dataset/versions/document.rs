//! `sigbank/versions/%08d.json`.

use super::super::digest::Digest;
use super::super::documents::{Doc, Fields, VERSION_FORMAT, document, need, reference, text};
use super::{Version, VersionRef};
use crate::error::{Error, Result};
use sigbank_format::FormatError;
use sigbank_format::model::json::{Json, Limits, Parser};
use std::time::{Duration, SystemTime};

impl Version {
    /// The document, and the digest that it tells.
    pub(super) fn to_bytes(&self) -> (Vec<u8>, Digest) {
        let digest = Digest::of(&self.document(None));
        (self.document(Some(digest)), digest)
    }

    fn document(&self, digest: Option<Digest>) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        put(&mut out, "base", self.base.as_ref());
        if let Some(created) = &self.created {
            out.string("created", created);
        }
        if let Some(digest) = digest {
            out.string("digest", &format!("sha256:{digest}"));
        }
        out.string("format", VERSION_FORMAT);
        out.string("layout_version", super::super::LAYOUT_VERSION);
        out.raw("metadata", self.metadata.as_str());
        out.string("name", &self.name);
        out.number("number", self.number);
        put(&mut out, "parent", self.parent.as_ref());
        out.number("record_count", self.record_count);
        out.number("shard_count", self.shard_count);
        out.key("snapshot");
        self.snapshot.put(&mut out);
        out.number("stored_bytes", self.stored_bytes);
        out.finish()
    }

    /// Reads the document of a number.
    ///
    /// # Errors
    /// `Corrupt` for what breaks a rule, has another number or is not what its digest says; `Limit` where it is too large.
    pub(in crate::layout::signal_dataset) fn parse(bytes: &[u8], limits: &Limits, number: u64) -> Result<Self> {
        let (mut base, mut parent, mut created, mut digest) = (None, None, None, None);
        let (mut name, mut found, mut snapshot, mut metadata) = (None, None, None, Json::EMPTY);
        let (mut records, mut shards, mut stored) = (None, None, None);
        document(bytes, limits, VERSION_FORMAT, |p, key| {
            match key {
                "base" => base = Some(version_ref(p)?),
                "created" => created = Some(text(p, key)?),
                "digest" => digest = Some(hex(&text(p, key)?)?),
                "metadata" => metadata = p.json()?,
                "name" => name = Some(text(p, key)?),
                "number" => found = Some(p.unsigned()?),
                "parent" => parent = Some(version_ref(p)?),
                "record_count" => records = Some(p.unsigned()?),
                "shard_count" => shards = Some(p.unsigned()?),
                "snapshot" => snapshot = Some(reference(p, false)?),
                "stored_bytes" => stored = Some(p.unsigned()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let version = Self {
            number: need(found, "number")?,
            name: need(name, "name")?,
            digest: need(digest, "digest")?,
            parent: Some(need(parent, "parent")?),
            base,
            snapshot: need(snapshot, "snapshot")?,
            record_count: need(records, "record_count")?,
            shard_count: need(shards, "shard_count")?,
            stored_bytes: need(stored, "stored_bytes")?,
            metadata,
            created,
        };
        same_bytes(bytes, version.digest)?;
        if version.number != number {
            return Err(Error::corrupt(format!("it is version {}, where {number} belongs", version.number)));
        }
        if let Some(other) = [version.parent, version.base].into_iter().flatten().find(|other| other.number >= number) {
            return Err(Error::corrupt(format!("it follows version {}, which is no earlier one", other.number)));
        }
        Ok(version)
    }
}

/// Whether the document is what its digest says: that of its bytes without the line that tells it.
fn same_bytes(bytes: &[u8], digest: Digest) -> Result<()> {
    let line = format!("  \"digest\": \"sha256:{digest}\",\n");
    let places: Vec<usize> =
        bytes.windows(line.len()).enumerate().filter(|(_, w)| *w == line.as_bytes()).map(|(at, _)| at).collect();
    let found = match places[..] {
        [at] => [bytes.get(..at), bytes.get(at + line.len()..)].map(Option::unwrap_or_default).concat(),
        _ => Vec::new(),
    };
    if Digest::of(&found) == digest {
        return Ok(());
    }
    Err(Error::corrupt(format!("it is not the document of sha256:{digest}, which it says it is"))
        .remedy("its bytes were changed: restore it from a copy"))
}

fn put(out: &mut Doc, key: &str, version: Option<&VersionRef>) {
    if let Some(version) = version {
        out.key(key);
        out.open('{');
        out.string("digest", &format!("sha256:{}", version.digest));
        out.number("number", version.number);
        out.close('}');
    }
}

fn hex(text: &str) -> Fields<Digest> {
    let digest = text.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
    digest.ok_or_else(|| FormatError::corrupt(format!("a digest sha256:… is expected, found {text:?}")))
}

fn version_ref(p: &mut Parser<'_>) -> Fields<VersionRef> {
    let (mut number, mut digest) = (None, None);
    p.object(|p, key| {
        match &*key {
            "number" => number = Some(p.unsigned()?),
            "digest" => digest = Some(hex(&p.string()?)?),
            _ => p.skip()?,
        }
        Ok(())
    })?;
    Ok(VersionRef { number: need(number, "number")?, digest: need(digest, "digest")? })
}

/// A time in UTC, to the second; of before 1970 that year's beginning.
pub(super) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years from March on, in cycles of 400 years: leap days come last.
    let (cycle, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = cycle * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_utc() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(951_868_799), "2000-02-29T23:59:59Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(utc(SystemTime::UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00Z");
    }
}
