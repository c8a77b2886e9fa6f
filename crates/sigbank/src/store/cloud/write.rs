//! Writing: one conditional request an object. Each carries the writer's mark, so that whoever lost the answer can see afterwards
//! whether the object that is there is its own.

use super::client::{Client, Inner, Tries};
use super::failure::Purpose;
use super::read::Tag;
use super::upload::Upload;
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Version};
use crate::uri::RelPath;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attribute, Attributes, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, UpdateVersion};
use std::fs::File;
use std::sync::Arc;

/// The name of the mark among an object's metadata. Azure allows letters only.
const MARK: &str = "sigbankwriter";
/// A body goes out in pieces of so much, so that its progress is seen.
const PIECE: usize = 256 << 10;

/// What an object is made of.
#[derive(Clone)]
pub(super) enum Content {
    Memory(PutPayload),
    File { file: Arc<File>, len: u64, sha256: [u8; 32] },
}

impl Content {
    /// A copy of the parts.
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        let pieces = |bytes: Bytes| {
            let starts = (0..bytes.len()).step_by(PIECE);
            starts.map(move |at| bytes.slice(at..(at + PIECE).min(bytes.len())))
        };
        Self::Memory(pieces(parts.concat().into()).collect())
    }
    fn len(&self) -> u64 {
        match self {
            Self::Memory(payload) => payload.content_length() as u64,
            Self::File { len, .. } => *len,
        }
    }
}

/// What must be there for a write to go on.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    Absent,
    Version(Version),
    None,
}

impl From<Expected<'_>> for Condition {
    fn from(expected: Expected<'_>) -> Self {
        match expected {
            Expected::Absent => Self::Absent,
            Expected::Version(version) => Self::Version(version.clone()),
            Expected::Any => Self::None,
        }
    }
}

impl Condition {
    fn purpose(&self) -> Purpose {
        match self {
            Self::Absent => Purpose::Create,
            Self::Version(_) | Self::None => Purpose::Replace,
        }
    }
    /// As GCS tells versions by its generations, and the others by ETags, both are said.
    fn mode(&self) -> PutMode {
        match self {
            Self::Absent => PutMode::Create,
            Self::None => PutMode::Overwrite,
            Self::Version(version) => {
                let text = Some(version.as_str().to_owned());
                PutMode::Update(UpdateVersion { e_tag: text.clone(), version: text })
            }
        }
    }
}

/// Puts an object under a condition, and says which version it is. Where the condition fails and what is there is of this very call, that
/// has succeeded: the answer was lost, or something on the way sent the request once more.
pub(super) async fn put(inner: &Inner, path: &RelPath, content: Content, condition: Condition) -> Result<Version> {
    put_unless(inner, path, content, condition, true).await
}

/// As [`put`]; with `look` false, nobody looks whose object failed the condition, unless an answer was lost.
async fn put_unless(inner: &Inner, path: &RelPath, content: Content, condition: Condition, look: bool) -> Result<Version> {
    let key = inner.settings.key(path)?;
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let mut tries = Tries::new(inner);
    loop {
        let sent = inner.once(send(inner.client()?, &key, content.clone(), condition.mode(), &mark)).await;
        let failure = match sent {
            Ok((e_tag, generation)) => return version(inner, e_tag, generation),
            Err(failure) => failure,
        };
        if failure.is_condition() && (tries.doubtful || look) {
            match own(inner, &key, &mark, content.len()).await {
                Ok(Some(ours)) => return Ok(ours),
                // Where nobody may look, the answer stands.
                Err(e) if tries.doubtful => return Err(e),
                _ => {}
            }
        }
        tries.again(failure, condition.purpose()).await?;
    }
}

/// What the reference packages say of their objects.
fn content_type(key: &str) -> &'static str {
    if key.ends_with(".json") { "application/json" } else { "application/octet-stream" }
}

type Sent = (Option<String>, Option<String>);

async fn send(client: Client, key: &Path, content: Content, mode: PutMode, mark: &str) -> object_store::Result<Sent> {
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, content_type(key.as_ref()).into());
    attributes.insert(Attribute::Metadata(MARK.into()), mark.to_owned().into());
    let mut options = PutOptions { mode, attributes, ..PutOptions::default() };
    let payload = match content {
        Content::Memory(payload) => payload,
        Content::File { file, len, sha256 } => {
            let signer = client.signer().await?;
            options.extensions.insert(Upload { file, len, sha256, signer });
            PutPayload::default()
        }
    };
    let put = client.store.put_opts(key, payload, options).await?;
    Ok((put.e_tag, put.version))
}

fn version(inner: &Inner, e_tag: Option<String>, generation: Option<String>) -> Result<Version> {
    let text = match inner.settings.service {
        super::settings::Service::Gcs => generation,
        _ => e_tag,
    };
    text.map(Version::new).ok_or_else(|| Error::storage("the service did not say which version it wrote"))
}

/// The version of the object that is there, where it has the mark.
async fn own(inner: &Inner, key: &Path, mark: &str, len: u64) -> Result<Option<Version>> {
    let looked = inner
        .repeated(Purpose::Read, |client| {
            let key = key.clone();
            async move { client.store.get_opts(&key, GetOptions { head: true, ..GetOptions::default() }).await }
        })
        .await;
    let got = match looked {
        Err(e) if e.code() == Code::NotFound => return Ok(None), // deleted meanwhile
        got => got?,
    };
    let is_ours = got.attributes.get(&Attribute::Metadata(MARK.into())).is_some_and(|value| value.as_ref() == mark);
    if is_ours && got.meta.size != len {
        return Err(Error::storage(format!("the service kept {} of {len} bytes of a request that broke off", got.meta.size))
            .remedy(
                "delete this object and write it again; the service, or a proxy before it, must not take an incomplete request",
            ));
    }
    Ok(is_ours.then(|| Tag::new(inner, &got.meta).version()))
}

/// Takes an object away, or finds it gone.
pub(super) async fn delete(inner: &Inner, path: &RelPath) -> Result<()> {
    let key = inner.settings.key(path)?;
    let mut tries = Tries::new(inner);
    loop {
        let client = inner.client()?;
        match inner.once(object_store::ObjectStoreExt::delete(&client.store, &key)).await {
            Ok(()) => return Ok(()),
            Err(failure) if failure.is_missing() && !failure.no_bucket() => return Ok(()),
            Err(failure) => tries.again(failure, Purpose::Delete).await?,
        }
    }
}

/// Finds out whether the service keeps its word on conditions: one that does not would let writers overwrite each other unseen.
pub(super) async fn probe(inner: &Inner) -> Result<()> {
    let name = crate::store::clock::probe()?;
    let content = || Content::of(&[b"sigbank looks whether this service keeps its word"]);
    let refused = |what: &str| {
        Err(Error::unsupported(format!(
            "the service {what}, so that writers would overwrite each other unseen: nothing is written there"
        ))
        .remedy(
            "use a service, or a version of this one, with conditional writes (or set probe=false if you are the only writer)",
        ))
    };
    put(inner, &name, content(), Condition::Absent).await?;
    let again = put_unless(inner, &name, content(), Condition::Absent, false).await.map(|_| ());
    let wrong = match inner.settings.service {
        super::settings::Service::Gcs => "1",
        super::settings::Service::Azure => "\"0x0\"",
        _ => "\"00000000000000000000000000000000\"",
    };
    let swapped = put_unless(inner, &name, content(), Condition::Version(Version::new(wrong)), false).await.map(|_| ());
    // Litter is no reason not to write: some may write who may not delete.
    let _ = delete(inner, &name).await;
    match (again, swapped) {
        (Ok(()), _) => refused("overwrites objects that are to be made only where there are none"),
        (_, Ok(())) => refused("replaces objects whatever version they are"),
        (Err(e), _) if e.code() != Code::AlreadyExists => Err(e),
        (_, Err(e)) if e.code() != Code::Conflict => Err(e),
        _ => Ok(()),
    }
}
