//! Publishing recordings as a new signal-dataset.

use super::destination::Destination;
use super::report::Skipped;
use super::run::Progress;
use super::signal::SignalPlan;
use super::signal::cut::Records;
use super::signal::target::{AsVersion, attempts, put};
use crate::error::{Error, Result};
use crate::layout::signal_dataset::{Options, PublishedShard, write_shard};
use crate::store::Store;
use sigbank_format::model::json::Json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A shard ends where its samples, before compression, are more than this.
const SHARD_BYTES: u64 = 1 << 30;
/// Records above this size are cut by one thread, so that few of them are in memory.
const LARGE_RECORD: u64 = 64 << 20;

/// How the new dataset is called and stored.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalTarget {
    /// The dataset's name; the destination's where there is none.
    pub dataset_id: Option<String>,
    /// The snapshot's name.
    pub snapshot_id: String,
    /// Whatever is to be said of the dataset: an object.
    pub metadata: Json,
    /// Most records in a shard, at least 1; it holds fewer where they are large.
    pub records_per_shard: u64,
    /// Threads that decode and compress; 0 for one a core, at most 16.
    pub threads: usize,
    /// The further version of the dataset at the destination that this becomes; `None` for a new dataset. `dataset_id` and `snapshot_id`
    /// mean nothing then, and empty `metadata` stand for those of the version before.
    pub version: Option<AsVersion>,
}

impl Default for SignalTarget {
    fn default() -> Self {
        Self {
            dataset_id: None,
            snapshot_id: "v0".into(),
            metadata: Json::EMPTY,
            records_per_shard: 4096,
            threads: 0,
            version: None,
        }
    }
}

/// What publishing did. Nothing is left out without standing here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PublishReport {
    /// The dataset's name.
    pub dataset_id: String,
    /// The snapshot's name; of a further version, the version's.
    pub snapshot_id: String,
    /// The number of the further version that was published; none for a new dataset.
    pub version: Option<u64>,
    /// Files published; of a SigMF recording the document counts.
    pub files: u64,
    /// Records written; what a version has of its base is not counted.
    pub records: u64,
    /// Shards that they are in.
    pub shards: u64,
    /// Bytes of the files that were read.
    pub bytes_in: u64,
    /// Bytes of the dataset's shards.
    pub stored_bytes: u64,
    /// Recordings with an end that filled no window, and the samples of those ends together.
    pub tails: (u64, u64),
    /// Windows that were filled up with zeros.
    pub padded: u64,
    /// Recordings whose sample rate nobody said: their time has no coordinate.
    pub no_rate: u64,
    /// Recordings without a single whole window.
    pub too_short: Vec<Skipped>,
    /// Files that could not be read.
    pub bad: Vec<Skipped>,
    /// What operating systems and editors left behind.
    pub litter: u64,
    /// Files of other kinds.
    pub others: Vec<String>,
    /// The digest of the new dataset's root, or of the version.
    pub root: String,
}

/// One shard's records: the recording and which of its records is the first, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    first: (usize, u64),
    count: u64,
}

/// Writes the records of a plan into a new signal-dataset at `dest`, which appears there, durably, when it is complete, or not at all.
/// Memory is bounded: a few records for each thread.
///
/// ```no_run
/// use sigbank::convert::{SignalOptions, SignalTarget, plan_signal, publish};
/// let plan = plan_signal(&["recordings".into()], &SignalOptions::default())?;
/// let report = publish(&plan, "dataset", &SignalTarget::default(), &mut |_| ())?;
/// println!("{} records of {} files, {} left out", report.records, report.files, report.others.len());
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `AlreadyExists` where the destination is taken, or the version's name; `Invalid` for a name that cannot be; those of the files, named by
/// their path.
pub fn publish(
    plan: &SignalPlan,
    dest: impl Into<Destination>,
    target: &SignalTarget,
    progress: &mut dyn FnMut(&Progress),
) -> Result<PublishReport> {
    if target.records_per_shard == 0 {
        return Err(Error::invalid("shards of 0 records: choose 1 or more"));
    }
    let mut report = plan.report.clone();
    let ids = plan.items.iter().flat_map(|item| {
        (0..plan.count(item)).map(move |n| Ok(item.metadata(plan.window, plan.window.map_or(0, |w| w.start(n)))?.id))
    });
    let put =
        put(&dest.into(), target, target.metadata.clone(), ids, |store, prefix| write(plan, store, prefix, target, progress))?;
    (report.records, report.shards, report.stored_bytes) = (put.records, put.shards, put.stored_bytes);
    (report.dataset_id, report.snapshot_id) = (put.dataset_id, put.name);
    (report.version, report.root) = (put.version, put.root);
    report.bytes_in = plan.bytes();
    if let Some(window) = plan.window {
        for item in &plan.items {
            let (rows, count) = (item.rows(), plan.count(item));
            let left = window.left_over(rows);
            report.tails = (report.tails.0 + u64::from(left > 0), report.tails.1 + left);
            report.padded += u64::from(window.start(count.saturating_sub(1)).saturating_add(window.window()) > rows);
        }
    }
    Ok(report)
}

/// Divides the records into shards.
fn parts(plan: &SignalPlan, most: u64) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut bytes = SHARD_BYTES;
    for (at, item) in plan.items.iter().enumerate() {
        let record = (item.row_bytes()? as u64).saturating_mul(item.len(plan.window));
        let (mut next, count) = (0, plan.count(item));
        while next < count {
            let room = (SHARD_BYTES - bytes).checked_div(record).unwrap_or(u64::MAX);
            match parts.last_mut().filter(|part| part.count < most && room > 0) {
                Some(part) => {
                    let take = (most - part.count).min(count - next).min(room);
                    part.count += take;
                    next += take;
                    bytes += take * record;
                }
                None => {
                    parts.push(Part { first: (at, next), count: 1 });
                    next += 1;
                    bytes = record.min(SHARD_BYTES);
                }
            }
        }
    }
    Ok(parts)
}

/// Writes all shards, some at once.
fn write(
    plan: &SignalPlan,
    store: &dyn Store,
    prefix: &str,
    target: &SignalTarget,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<PublishedShard>> {
    let parts = parts(plan, target.records_per_shard)?;
    let largest = plan.items.iter().map(|item| Ok((item.row_bytes()? as u64).saturating_mul(item.len(plan.window))));
    let largest = largest.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
    let threads = match target.threads {
        0 => thread::available_parallelism().map_or(1, usize::from).min(16),
        n => n,
    };
    let workers = if largest > LARGE_RECORD { 1 } else { threads.min(parts.len()).max(1) };
    let options = Options { threads: (threads / workers).max(1), ..Options::default() };
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let written: Mutex<Vec<(usize, Result<PublishedShard>)>> = Mutex::default();
    let mut state = Progress { of_bytes: plan.bytes(), of_records: plan.records(), ..Default::default() };
    thread::scope(|scope| {
        let (send, receive) = sync_channel::<(u64, u64)>(64);
        for _ in 0..workers {
            let (send, parts, options) = (send.clone(), &parts, &options);
            let (next, failed, written) = (&next, &failed, &written);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(part) = parts.get(number) else { break };
                    let shard = attempts(|attempt| {
                        // What is written once more was counted.
                        let counts = |of| if attempt == 0 { of } else { 0 };
                        let mut told = |bytes, records| {
                            send.send((counts(bytes), counts(records))).is_ok() && !failed.load(Ordering::Relaxed)
                        };
                        let records = Records::new(plan, part.first, part.count, &mut told);
                        write_shard(store, records, &format!("{prefix}part-{number:08}"), attempt, options)
                    });
                    if shard.is_err() {
                        // Who comes after the first to fail only stops.
                        let stopped = failed.swap(true, Ordering::Relaxed);
                        if stopped {
                            break;
                        }
                    }
                    written.lock().unwrap_or_else(PoisonError::into_inner).push((number, shard));
                }
            });
        }
        drop(send);
        for (bytes, records) in receive {
            state.bytes += bytes;
            state.records += records;
            progress(&state);
        }
    });
    let mut written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.sort_by_key(|(number, _)| *number);
    let shards: Vec<PublishedShard> = written.into_iter().map(|(_, shard)| shard).collect::<Result<_>>()?;
    if shards.len() != parts.len() {
        return Err(Error::storage("a thread ended unexpectedly: this is a defect of sigbank, please report it"));
    }
    Ok(shards)
}
