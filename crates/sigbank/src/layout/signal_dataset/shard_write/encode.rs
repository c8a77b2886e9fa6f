//! Encoding and compressing on several threads, writing in order.

use super::super::Options;
use super::super::spool::Spool;
use super::Record;
use crate::error::{Error, Result};
use sigbank_format::checksum::{Algorithm, Hasher, digest_all};
use sigbank_format::container::arrayrecord::{self, EncodedChunk, Encoder, Writer};
use sigbank_format::record::signal::{ResourcePolicy, encode_into, encode_metadata, encode_owned};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Bytes of samples that a thread takes at a time, and most records.
const BATCH: (usize, usize) = (256 << 10, 256);
/// Samples of more bytes than this are not copied to be encoded.
const LARGE: usize = 1 << 20;
/// Bytes of samples that are on their way.
const ON_THE_WAY: usize = 24 << 20;

/// What an object holds, whatever the compression: a digest of its records.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct Content(String);

impl Content {
    /// The digest of one record.
    pub(in super::super) fn digest(record: &[u8]) -> String {
        digest_all(&[Algorithm::Xxh128], &[record]).concat()
    }
    /// Adds the digest of the next one.
    pub(in super::super) fn add(&mut self, digest: &str) {
        let mut hasher: Hasher = Algorithm::Xxh128.hasher();
        hasher.update(self.0.as_bytes());
        hasher.update(digest.as_bytes());
        self.0 = hasher.finish();
    }
}

/// One encoded record: both chunks, the digest of what each holds, and the bytes of the record.
#[derive(Default)]
struct Encoded {
    chunks: [EncodedChunk; 2],
    digests: [String; 2],
    bytes: u64,
}

/// What a thread keeps.
struct Worker<'a> {
    encoder: Encoder,
    policy: &'a ResourcePolicy,
    payload: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(layout: &arrayrecord::Options, policy: &'a ResourcePolicy) -> Result<Self> {
        Ok(Self { encoder: Encoder::new(layout)?, policy, payload: Vec::new() })
    }

    fn encode(&mut self, number: u64, record: Record, out: &mut Encoded) -> Result<()> {
        let Record { metadata, mut data } = record;
        let Encoded { chunks: [samples, words], digests, bytes } = out;
        let mut encode = || -> sigbank_format::Result<()> {
            let large = match data.as_mut_slice() {
                [only] if only.len() > LARGE => Some(encode_owned(&metadata, std::mem::take(only).into(), self.policy)?),
                _ => None,
            };
            if large.is_none() {
                self.payload.clear();
                let data: Vec<&[u8]> = data.iter().map(|d| &d[..]).collect();
                encode_into(&metadata, &data, self.policy, &mut self.payload)?;
            }
            let payload = large.as_ref().unwrap_or(&self.payload);
            self.encoder.encode(&[payload], samples)?;
            let document = encode_metadata(&metadata, self.policy)?;
            self.encoder.encode(&[&document], words)?;
            (*digests, *bytes) = ([payload, &document].map(|d| Content::digest(d)), payload.len() as u64);
            Ok(())
        };
        encode().map_err(|e| Error::from(e).within(format!("record {number}")))
    }
}

/// Records for a thread, with the number of the first, and where the result goes.
struct Job {
    first: u64,
    records: Vec<Record>,
    spare: Vec<Encoded>,
    reply: SyncSender<Result<Vec<Encoded>>>,
}

/// The way from records to objects.
pub(super) struct Pipeline<'a> {
    options: &'a Options,
    layout: arrayrecord::Options,
    writers: [Writer<Spool>; 2],
    contents: [Content; 2],
    records: u64,
    bytes: u64,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(options: &'a Options, layout: arrayrecord::Options, writers: [Writer<Spool>; 2]) -> Self {
        Self { options, layout, writers, contents: Default::default(), records: 0, bytes: 0 }
    }

    /// How many records there were, what each object holds, and the objects.
    pub(super) fn finish(self) -> (u64, [Content; 2], [Writer<Spool>; 2]) {
        (self.records, self.contents, self.writers)
    }

    fn put(&mut self, encoded: &Encoded) -> Result<()> {
        self.records += 1;
        self.bytes = self.bytes.saturating_add(encoded.bytes);
        let most = |what: &str, found: u64, name: &str, limit: Option<u64>| match limit {
            Some(limit) if found > limit => Err(Error::limit(format!("more than {limit} {what} ({name})"))
                .remedy("write several shards, each with a work id of its own")),
            _ => Ok(()),
        };
        most("records", self.records, "max_records_per_shard", self.options.max_records_per_shard)?;
        most("bytes of records", self.bytes, "max_encoded_shard_bytes", self.options.max_encoded_shard_bytes)?;
        let places = self.writers.iter_mut().zip(&mut self.contents);
        for ((writer, content), (chunk, digest)) in places.zip(encoded.chunks.iter().zip(&encoded.digests)) {
            writer.push_chunk(chunk)?;
            content.add(digest);
        }
        Ok(())
    }

    pub(super) fn run(&mut self, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<()> {
        let threads = self.options.threads();
        if threads < 2 {
            let mut worker = Worker::new(&self.layout, &self.options.resources)?;
            let mut encoded = Encoded::default();
            return records.zip(0..).try_for_each(|(record, number)| {
                worker.encode(number, record?, &mut encoded)?;
                self.put(&encoded)
            });
        }
        let workers: Vec<Worker<'_>> =
            (0..threads).map(|_| Worker::new(&self.layout, &self.options.resources)).collect::<Result<_>>()?;
        let (jobs, take) = channel::<Job>();
        let take = Mutex::new(take);
        std::thread::scope(|scope| {
            let take = &take;
            let spawn = |mut worker: Worker<'a>| {
                scope.spawn(move || {
                    loop {
                        let job = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(mut job) = job else { return };
                        job.spare.resize_with(job.records.len(), Encoded::default);
                        let mut all = job.records.into_iter().zip(job.first..).zip(&mut job.spare);
                        let done = all.try_for_each(|((record, number), out)| worker.encode(number, record, out));
                        // Whoever waits may have given up.
                        let _ = job.reply.send(done.map(|()| job.spare));
                    }
                })
            };
            let threads: Vec<_> = workers.into_iter().map(spawn).collect();
            let most = threads.len() * 3;
            // The threads end when the feed does, also after an error.
            let fed = Feed { jobs, waiting: VecDeque::new(), on_the_way: 0, most, spare: Vec::new() }.run(self, records);
            for thread in threads {
                if thread.join().is_err() {
                    return fed.and(Err(gone()));
                }
            }
            fed
        })
    }
}

/// Jobs that were handed out, in order.
struct Feed {
    jobs: Sender<Job>,
    waiting: VecDeque<(usize, Receiver<Result<Vec<Encoded>>>)>,
    on_the_way: usize,
    most: usize,
    /// Memory to be used again.
    spare: Vec<Vec<Encoded>>,
}

impl Feed {
    fn run(mut self, pipeline: &mut Pipeline<'_>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<()> {
        let (mut batch, mut bytes, mut first) = (Vec::new(), 0, 0);
        for record in records {
            let record = match record {
                Ok(record) => record,
                // What was wrong with an earlier record is told first.
                Err(e) => {
                    self.submit(pipeline, first, batch, bytes)?;
                    self.drain(pipeline, 0)?;
                    return Err(e);
                }
            };
            bytes += record.bytes();
            batch.push(record);
            if bytes >= BATCH.0 || batch.len() >= BATCH.1 {
                let next = first + batch.len() as u64;
                self.submit(pipeline, first, std::mem::take(&mut batch), std::mem::take(&mut bytes))?;
                first = next;
            }
        }
        self.submit(pipeline, first, batch, bytes)?;
        self.drain(pipeline, 0)
    }

    fn submit(&mut self, pipeline: &mut Pipeline<'_>, first: u64, records: Vec<Record>, bytes: usize) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        while !self.waiting.is_empty() && (self.on_the_way + bytes > ON_THE_WAY || self.waiting.len() >= self.most) {
            self.drain(pipeline, self.waiting.len() - 1)?;
        }
        let (reply, done) = sync_channel(1);
        let spare = self.spare.pop().unwrap_or_default();
        self.jobs.send(Job { first, records, spare, reply }).map_err(|_| gone())?;
        self.waiting.push_back((bytes, done));
        self.on_the_way += bytes;
        Ok(())
    }

    /// Writes what comes first until no more than so many jobs are waited for.
    fn drain(&mut self, pipeline: &mut Pipeline<'_>, left: usize) -> Result<()> {
        while self.waiting.len() > left {
            let Some((bytes, done)) = self.waiting.pop_front() else { break };
            let encoded = done.recv().map_err(|_| gone())??;
            encoded.iter().try_for_each(|one| pipeline.put(one))?;
            self.on_the_way -= bytes;
            self.spare.push(encoded);
        }
        Ok(())
    }
}

/// A thread ended without an answer.
fn gone() -> Error {
    Error::storage("a thread that encodes records ended unexpectedly: this is a defect of sigbank, please report it")
}
