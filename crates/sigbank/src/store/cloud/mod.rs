//! Object storage: S3 and what speaks its language, Google Cloud Storage, Azure Blob Storage, and web servers for reading.
//!
//! # Addresses
//! `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` (or `abfss://container@account.dfs.core.windows.net/prefix`),
//! and `http(s)://host/folder`, which is read-only and has no listing. Slashes at the end count for nothing; an empty component in the
//! middle is refused. A name is the prefix, a slash and the path, never with a slash before it.
//!
//! # Options
//! What the services' environment variables say (`AWS_*`, `GOOGLE_*`, `AZURE_*`), overridden by options of the same names, in
//! small letters and with or without that beginning: `region`, `endpoint`, `access_key_id`, `secret_access_key`, `session_token`, … For
//! all of them: `anonymous`, `allow_http` (implied by an endpoint that begins so), `retries` (8 a request), `retry_timeout` (after 120
//! s no request is sent again), `retry_pause` (0.1 s before the first repetition, then twice as long each time, up to 8 s), `read_ahead`
//! (256 MiB, see below), `connect_timeout` (5 s), `timeout` (a request ends when nothing moved for 30 s), `probe`,
//! `proxy_url`, `user_agent`, `allow_invalid_certificates`. An option that is none of them is an error.
//!
//! For S3, the option `profile`, or `AWS_PROFILE`, names a profile of the files in `~/.aws` (or `AWS_SHARED_CREDENTIALS_FILE` and
//! `AWS_CONFIG_FILE`), of which `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`, `region` and `endpoint_url` are
//! taken; without either it is the one called `default`. The environment's own variables come before a profile, but for one that the option
//! names. A profile by a role, by single sign-on or by a program is refused, with the command that gives its keys.
//!
//! # Memory
//! 128 MiB of answers are on their way at most, in a process. Streams fetch four pieces of 8 MiB ahead of who reads them, all streams
//! of a store together at most `read_ahead` bytes of what is not read yet; each of them has one piece at least. A loader begins up to 16
//! shards before they are decoded, with at most 8 MiB of each.
//!
//! # What it costs, in requests
//! | call | requests |
//! |---|---|
//! | `get`, `get_versioned`, `get_at_most` | 1 |
//! | `head` | 1; 1 more for the first missing object, to tell whether it is the bucket that is missing |
//! | `get_ranges`, `StoreFile::read_ranges` | 1 for ranges less than 1 MiB apart, up to 16 MiB; longer ones in pieces of 8 MiB, and then 1 more for the size where that is not known |
//! | `open_read` | 1; `open_sized` none |
//! | `open_ahead` | 1, which brings the first bytes too, 8 MiB at most; 1 more for an empty object |
//! | `StoreFile::stream` | 1 for each 8 MiB that is not there yet, 4 of them ahead of the reader |
//! | `list`, `list_dir` | 1 for each 1,000 names (Azure 5,000) |
//! | `create`, `replace`, `NewObject::commit` | 1; 1 more where the condition failed, to see whose object is there |
//! | `delete` | 1 |
//! | the first write of a process to a bucket | 4 more, which find a service that ignores conditions; not with `probe=false` |
//!
//! # Promises
//! Each object is written by one conditional request, up to 5 GiB, from a temporary file in `SIGBANK_SPOOL` or the usual folder for
//! such. An answer is compared with what was asked for (its range, its length, its version) before any of it is taken for data.
//! A web server that gives neither an ETag nor a date does not let a replaced object be noticed unless its size changed.

mod answer;
mod azure;
mod client;
mod failure;
mod file;
mod first;
mod gcs;
mod http;
mod profile;
mod read;
mod runtime;
mod s3;
mod settings;
mod spool;
mod transport;
mod upload;
mod write;

pub use transport::Requests;

use super::{
    Capabilities, DirEntry, Entry, Expected, Listing, NewObject, ObjectMeta, Opening, StorageOptions, Store, StoreFile, Version,
};
use crate::error::{Error, Result};
use crate::uri::RelPath;
use bytes::Bytes;
use client::{Inner, Tries};
use failure::Purpose;
use file::{CloudFile, Handle};
use first::Begun;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use object_store::ObjectStore;
use runtime::PerProcess;
use settings::Service;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use write::{Condition, Content};

/// A store in object storage, see the [module](self). Clones are the same store. It may be used from many threads, inside
/// other asynchronous runtimes, and in forked children, which make their own connections.
///
/// ```
/// use sigbank::store::{StorageOptions, Store, cloud::CloudStore};
/// let options = StorageOptions::from([("region".into(), "eu-west-1".into()), ("anonymous".into(), "true".into())]);
/// let store = CloudStore::new("s3://bucket/data/", &options)?;
/// assert_eq!(store.location(), "s3://bucket/data");
/// assert!(store.capabilities().compare_and_swap);
/// let e = CloudStore::new("s3://bucket", &StorageOptions::from([("regoin".into(), "x".into())])).unwrap_err();
/// assert!(e.to_string().contains("region"));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Clone)]
pub struct CloudStore(Arc<Inner>);

impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudStore({})", self.0.settings.location)
    }
}

/// Which buckets' services this process has found to keep their word.
static PROBED: PerProcess<Mutex<HashMap<String, Arc<Mutex<bool>>>>> = PerProcess::new();

impl CloudStore {
    /// The store at an address. No request is sent, except where credentials need one.
    ///
    /// # Errors
    /// `Unsupported` for an address of another kind, `Invalid` for one that names no place, for an option that is not known or has an
    /// impossible value, and for settings that do not go together.
    pub fn new(address: &str, options: &StorageOptions) -> Result<Self> {
        Ok(Self(Arc::new(Inner::new(address, options)?)))
    }

    /// What was sent since the store was opened, in this process and, before a fork, its parent.
    pub fn requests(&self) -> Requests {
        self.0.counters.now()
    }

    /// Refuses to write where writing is not possible, or not safe.
    fn may_write(&self) -> Result<()> {
        let settings = &self.0.settings;
        if settings.service == Service::Http {
            return Err(Error::read_only("web servers are for reading")
                .remedy("write by the storage's own address (s3://, gs://, az://)"));
        }
        if !settings.probe {
            return Ok(());
        }
        let bucket = format!("{:?} {:?} {}", settings.service, settings.endpoint, settings.container);
        let known = PROBED.get(|| Ok(Mutex::default()))?;
        let known = Arc::clone(known.lock().unwrap_or_else(PoisonError::into_inner).entry(bucket).or_default());
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if !*known {
            let inner = Arc::clone(&self.0);
            runtime::wait(async move { write::probe(&inner).await })?;
            *known = true;
        }
        Ok(())
    }

    fn put(&self, path: &RelPath, parts: &[&[u8]], condition: Condition) -> Result<Version> {
        let work = || {
            self.0.key(path)?;
            self.may_write()?;
            let (inner, path_, content) = (Arc::clone(&self.0), path.clone(), Content::of(parts));
            runtime::wait(async move { write::put(&inner, &path_, content, condition).await })
        };
        work().map_err(|e| e.at(self.locate(path)))
    }

    fn open(&self, file: CloudFile) -> Arc<dyn StoreFile> {
        Arc::new(Handle(Arc::new(file)))
    }
}

impl Store for CloudStore {
    fn location(&self) -> String {
        self.0.settings.location.clone()
    }
    fn identity(&self) -> Option<String> {
        let settings = &self.0.settings;
        let place = [settings.container.as_str(), settings.prefix.as_str()];
        let place = place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        let endpoint = settings.endpoint.as_deref().unwrap_or_default();
        let account = settings.account.as_deref().unwrap_or_default();
        Some(format!("{:?} {endpoint} {account} {place}", settings.service))
    }
    fn capabilities(&self) -> Capabilities {
        let write = self.0.settings.service != Service::Http;
        Capabilities { write, compare_and_swap: write, locks: false, turns: write, flush: false, round_trip: read::ROUND_TRIP }
    }

    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        let (inner, path_) = (Arc::clone(&self.0), path.clone());
        let got = runtime::wait(async move { read::whole(&inner, &path_, u64::MAX).await });
        got.map(|(bytes, tag)| (bytes, tag.version())).map_err(|e| e.at(self.locate(path)))
    }
    fn get_at_most(&self, path: &RelPath, most: u64) -> Result<Bytes> {
        let (inner, path_) = (Arc::clone(&self.0), path.clone());
        let got = runtime::wait(async move { read::whole(&inner, &path_, most).await });
        got.map(|(bytes, _)| bytes).map_err(|e| e.at(self.locate(path)))
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (inner, path_, ranges) = (Arc::clone(&self.0), path.clone(), ranges.to_vec());
        let got = runtime::wait(async move { read::ranges(&inner, &path_, &ranges, None).await });
        got.map(|(bytes, _)| bytes).map_err(|e| e.at(self.locate(path)))
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        let (inner, path_) = (Arc::clone(&self.0), path.clone());
        let got = runtime::wait(async move { read::head(&inner, &path_).await });
        got.map(|(meta, _)| meta).map_err(|e| e.at(self.locate(path)))
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        let (inner, path_) = (Arc::clone(&self.0), path.clone());
        let got = runtime::wait(async move { read::head(&inner, &path_).await });
        let (meta, tag) = got.map_err(|e| e.at(self.locate(path)))?;
        Ok(self.open(CloudFile::new(Arc::clone(&self.0), path.clone(), meta.size, Some(tag))))
    }
    fn open_sized(&self, path: &RelPath, size: u64) -> Result<Arc<dyn StoreFile>> {
        self.0.key(path)?;
        Ok(self.open(CloudFile::new(Arc::clone(&self.0), path.clone(), size, None)))
    }

    fn open_ahead(&self, path: &RelPath, first: u64) -> Option<Box<dyn Opening>> {
        Some(Box::new(Begun::new(Arc::clone(&self.0), path.clone(), first)))
    }

    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        self.listable()?;
        let place = prefix.map_or_else(|| self.location(), |prefix| self.locate(prefix));
        let directory = self.0.settings.directory(prefix)?;
        let names =
            Names { inner: Arc::clone(&self.0), directory, stream: None, page: VecDeque::new(), last: None, ended: false };
        Ok(Box::new(names.map(move |entry| entry.map_err(|e| e.at(&place)))))
    }

    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        self.listable()?;
        let place = dir.map_or_else(|| self.location(), |dir| self.locate(dir));
        let work = || {
            let (inner, directory) = (Arc::clone(&self.0), self.0.settings.directory(dir)?);
            let listed = runtime::wait(async move {
                let list = |client: client::Client| {
                    let directory = directory.clone();
                    async move { client.store.list_with_delimiter(directory.as_ref()).await }
                };
                inner.repeated(Purpose::List, list).await
            })?;
            let dirs = listed.common_prefixes.iter().filter_map(|key| self.0.settings.name(key.as_ref())).map(DirEntry::Dir);
            let objects = listed.objects.iter().filter_map(|meta| entry(&self.0, meta)).map(DirEntry::Object);
            let mut all: Vec<DirEntry> = dirs.chain(objects).collect();
            all.sort_unstable();
            all.dedup();
            Ok(all)
        };
        work().map_err(|e: Error| e.at(place))
    }

    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.put(path, parts, Condition::Absent).map(|_| ())
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        self.0.key(path)?;
        self.may_write().map_err(|e| e.at(self.locate(path)))?;
        Ok(Box::new(spool::Spool::new(Arc::clone(&self.0), path.clone())))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        self.put(path, parts, expected.into())
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        let work = || {
            self.0.key(path)?;
            if self.0.settings.service == Service::Http {
                return self.may_write();
            }
            let (inner, path) = (Arc::clone(&self.0), path.clone());
            runtime::wait(async move { write::delete(&inner, &path).await })
        };
        work().map_err(|e| e.at(self.locate(path)))
    }
    /// Nothing to do: what a service took, it keeps.
    fn flush(&self, _: &[RelPath]) -> Result<()> {
        Ok(())
    }
}

impl CloudStore {
    fn listable(&self) -> Result<()> {
        match self.0.settings.service {
            Service::Http => Err(Error::unsupported("web servers have no listing that could be relied on")
                .remedy("open what names its objects (a signal-dataset, a Sedpack dataset) by its address")
                .at(self.location())),
            _ => Ok(()),
        }
    }
}

fn entry(inner: &Inner, meta: &object_store::ObjectMeta) -> Option<Entry> {
    let path = inner.settings.name(meta.location.as_ref())?;
    Some(Entry { path, size: meta.size, modified: Some(meta.last_modified.into()) })
}

type Metas = BoxStream<'static, object_store::Result<object_store::ObjectMeta>>;

/// A listing as it arrives, a page at a time. After an error of one page it goes on behind the last name.
struct Names {
    inner: Arc<Inner>,
    directory: Option<object_store::path::Path>,
    stream: Option<Metas>,
    page: VecDeque<Entry>,
    last: Option<object_store::path::Path>,
    ended: bool,
}

impl Names {
    fn fetch(&mut self) -> Result<()> {
        let (inner, directory, stream, last) =
            (Arc::clone(&self.inner), self.directory.clone(), self.stream.take(), self.last.clone());
        let (stream, metas) = runtime::wait(async move { page(&inner, directory, stream, last).await })?;
        self.ended = metas.is_empty();
        if let Some(meta) = metas.last() {
            self.last = Some(meta.location.clone());
        }
        self.page.extend(metas.iter().filter_map(|meta| entry(&self.inner, meta)));
        self.stream = stream;
        Ok(())
    }
}

/// The names of the next page, none at the end.
async fn page(
    inner: &Inner,
    directory: Option<object_store::path::Path>,
    mut stream: Option<Metas>,
    last: Option<object_store::path::Path>,
) -> Result<(Option<Metas>, Vec<object_store::ObjectMeta>)> {
    let mut tries = Tries::new(inner);
    loop {
        let store = inner.client()?.store;
        let mut names = stream.take().unwrap_or_else(|| match &last {
            Some(last) => store.list_with_offset(directory.as_ref(), last).fuse().boxed(),
            None => store.list(directory.as_ref()).fuse().boxed(),
        });
        let next = async {
            let mut metas = Vec::new();
            match names.next().await {
                None => return Ok((None, metas)),
                Some(meta) => metas.push(meta?),
            }
            // What came in the same answer.
            loop {
                match names.next().now_or_never() {
                    Some(Some(Ok(meta))) => metas.push(meta),
                    // The next call begins behind the last name, and meets the error again or not.
                    Some(Some(Err(_))) => return Ok((None, metas)),
                    Some(None) | None => return Ok((Some(names), metas)),
                }
            }
        };
        match inner.once(next).await {
            Ok(page) => return Ok(page),
            Err(failure) => tries.again(failure, Purpose::List).await?,
        }
    }
}

impl Iterator for Names {
    type Item = Result<Entry>;
    fn next(&mut self) -> Option<Self::Item> {
        while self.page.is_empty() && !self.ended {
            if let Err(e) = self.fetch() {
                self.ended = true;
                return Some(Err(e));
            }
        }
        self.page.pop_front().map(Ok)
    }
}
