//! Carries a plan out: several threads decode, one writes, in the order of the plan.

use super::cast::{Cast, Channels};
use super::plan::{Cut, Item, Plan, count};
use super::recording;
use super::report::PackReport;
use crate::error::{Error, Result};
use crate::layout::Sink;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Windows travel from the decoding threads in chunks of about this many bytes.
const CHUNK: usize = 1 << 20;
/// Records above this size are decoded by one thread, so that few of them are in memory.
const LARGE_RECORD: usize = 64 << 20;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Bytes of the files read so far.
    pub bytes: u64,
    /// Bytes of all files.
    pub of_bytes: u64,
    /// Records written.
    pub records: u64,
    /// Records that there will be.
    pub of_records: u64,
}

/// Decodes the files of a plan and writes their records, in the order of the plan whatever the number of `threads`
/// (0: as many as there are cores, at most 4). Memory is bounded: a few chunks of 1 MiB, or records, for each thread.
///
/// # Errors
/// Those of the files, named by their path, and of the sink. Nothing is committed then.
pub fn run(plan: &Plan, sink: &dyn Sink, threads: usize, progress: &mut dyn FnMut(&Progress)) -> Result<PackReport> {
    let mut writer = sink.writer()?;
    let mut report = plan.report.clone();
    let mut state = Progress { of_bytes: plan.bytes(), of_records: plan.records(), ..Default::default() };
    let threads = match threads {
        _ if record_len(plan) > LARGE_RECORD => 1,
        0 => thread::available_parallelism().map_or(1, |n| n.get().min(4)),
        n => n,
    };
    for split in &plan.splits {
        let of_split = |i: &&Item| plan.splits.get(i.split) == Some(split);
        let mut files: Vec<usize> = plan.items.iter().filter(of_split).map(|i| i.file).collect();
        files.dedup();
        report.files.insert(split.clone(), files.len() as u64);
    }
    thread::scope(|scope| {
        // The receivers live in here: an error drops them, which ends the threads.
        let lanes: Vec<Receiver<Message>> = (0..threads)
            .map(|lane| {
                let (send, receive) = sync_channel(1);
                scope.spawn(move || decode_lane(plan, lane, threads, &send));
                receive
            })
            .collect();
        for (place, item) in plan.items.iter().enumerate() {
            let candidate = plan.files.get(item.file).ok_or_else(|| Error::invalid("the plan does not hold together"))?;
            let split = plan.splits.get(item.split).map_or("train", String::as_str);
            let rate = item.rate.unwrap_or(f64::NAN).to_le_bytes();
            let group = Some(&item.group).filter(|group| !group.is_empty());
            let done_before = state.bytes;
            let records_before = state.records;
            loop {
                let message = lanes.get(place % threads).and_then(|lane| lane.recv().ok());
                match message.ok_or_else(|| Error::storage("a decoding thread ended early").at(candidate.path.display()))?? {
                    Step::Chunk(chunk) => {
                        for (start, signal) in chunk.starts.iter().zip(chunk.data.chunks_exact(chunk.record)) {
                            let start = i64::try_from(*start).unwrap_or(i64::MAX).to_le_bytes();
                            writer
                                .append(split, &[signal, &start, item.source.as_bytes(), &rate], group)
                                .map_err(|e| e.within(format!("packing {}", candidate.path.display())))?;
                        }
                        state.records += chunk.starts.len() as u64;
                        let part = (state.records - records_before) as f64 / count(&plan.cut, item.rows()).max(1) as f64;
                        state.bytes = done_before + (item_bytes(plan, item) as f64 * part) as u64;
                        progress(&state);
                    }
                    Step::End { tail, padded } => {
                        report.tails.0 += u64::from(tail > 0);
                        report.tails.1 += tail;
                        report.padded += u64::from(padded);
                        break;
                    }
                }
            }
        }
        Ok::<(), Error>(())
    })?;
    report.bytes_in = state.of_bytes;
    let token = writer.finish()?;
    let committed = sink.commit(vec![token])?;
    report.records = committed.records;
    report.root = committed.root;
    Ok(report)
}

/// The share of a file's bytes that one of its arrays stands for.
fn item_bytes(plan: &Plan, item: &Item) -> u64 {
    let arrays = plan.items.iter().filter(|i| i.file == item.file && item.member.is_some()).count().max(1) as u64;
    plan.files.get(item.file).map_or(0, |f| f.size) / arrays
}

fn record_len(plan: &Plan) -> usize {
    let signal = plan.schema.fields.first();
    signal.and_then(|f| f.ty.fixed_len().ok().flatten()).unwrap_or(0)
}

type Message = Result<Step>;

enum Step {
    Chunk(Chunk),
    /// The array is done: samples left over, and whether its last window was padded.
    End {
        tail: u64,
        padded: bool,
    },
}

/// Windows of one array, one after the other.
struct Chunk {
    starts: Vec<u64>,
    data: Vec<u8>,
    /// Bytes of one window; at least 1.
    record: usize,
}

/// One thread's part: every n-th array.
fn decode_lane(plan: &Plan, lane: usize, lanes: usize, send: &SyncSender<Message>) {
    for item in plan.items.iter().skip(lane).step_by(lanes) {
        let done = cut_array(plan, item, &mut |chunk| send.send(Ok(Step::Chunk(chunk))).is_ok());
        let stop = !matches!(done, Ok(Some(_)));
        // A send fails where nobody listens any more: another file failed.
        let sent = match done {
            Ok(Some(end)) => send.send(Ok(end)).is_ok(),
            Ok(None) => false,
            Err(e) => send.send(Err(e)).is_ok(),
        };
        if stop || !sent {
            return;
        }
    }
}

/// Cuts one array into windows; none where the receiver has gone.
fn cut_array(plan: &Plan, item: &Item, emit: &mut dyn FnMut(Chunk) -> bool) -> Result<Option<Step>> {
    let candidate = plan.files.get(item.file).ok_or_else(|| Error::invalid("the plan does not hold together"))?;
    let at = |e: Error| e.at(candidate.path.display());
    let mut recording = recording::open_member(candidate, item.member.as_deref(), plan.samples)?;
    if (&recording.dtype, &recording.shape) != (&item.dtype, &item.shape) {
        let was = (item.dtype.name(), &item.shape);
        let is = (recording.dtype.name(), &recording.shape);
        return Err(at(Error::conflict(format!("it changed while it was packed: {was:?} became {is:?}"))
            .remedy("pack when nobody writes to the folder")));
    }
    let cast = Cast::new(&item.dtype, &plan.dtype, plan.channels, item.width())?;
    let width = if plan.channels == Channels::All { item.width() } else { 1 };
    let row = plan.dtype.itemsize() * width;
    let rows = item.rows();
    let (window, windows, hop) = match plan.cut {
        Cut::Whole => (rows, 1, rows),
        Cut::Rows => (1, rows, 1),
        Cut::Windows(w) => (w.window(), w.count(rows), w.start(1)),
    };
    let record = row * usize::try_from(window).map_err(|_| Error::limit("a window larger than the memory"))?;
    let block = recording.block_rows();
    let new_chunk = || Chunk {
        starts: Vec::new(),
        data: Vec::with_capacity(record.max(CHUNK.min(record * windows as usize))),
        record: record.max(1),
    };
    let mut chunk = new_chunk();
    // Decoded rows `base..base + held` stand at `front` of `buffer`.
    let (mut buffer, mut raw) = (Vec::new(), Vec::new());
    let (mut base, mut held, mut front) = (0u64, 0u64, 0usize);
    for index in 0..windows {
        let start = index * hop;
        let end = start.saturating_add(window).min(rows);
        let gone = start - base;
        if gone >= held {
            buffer.clear();
            (base, held, front) = (start, 0, 0);
        } else {
            (base, held, front) = (start, held - gone, front + gone as usize * row);
        }
        while base + held < end {
            buffer.drain(..front);
            front = 0;
            let n = block.min(rows - base - held);
            raw.clear();
            recording.read(base + held, n, &mut raw).map_err(at)?;
            cast.apply(&raw, &mut buffer).map_err(|e| at(e.within(format!("samples {} to {}", base + held, base + held + n))))?;
            held += n;
        }
        let wanted = (end - start) as usize * row;
        let have = buffer
            .get(front..front + wanted)
            .ok_or_else(|| at(Error::corrupt("the file holds fewer samples than its header says")))?;
        chunk.starts.push(start);
        chunk.data.extend_from_slice(have);
        chunk.data.resize(chunk.starts.len() * record, 0);
        if chunk.data.len() >= CHUNK && !emit(std::mem::replace(&mut chunk, new_chunk())) {
            return Ok(None);
        }
    }
    if !chunk.starts.is_empty() && !emit(chunk) {
        return Ok(None);
    }
    // Through the end, where what decodes in sequence finds bytes that follow, and samples that are not those of the MD5.
    if rows > 0 {
        raw.clear();
        recording.read(rows - 1, 1, &mut raw).map_err(at)?;
    }
    let (tail, padded) = match plan.cut {
        Cut::Windows(w) => (w.left_over(rows), w.start(windows.saturating_sub(1)).saturating_add(window) > rows),
        Cut::Whole | Cut::Rows => (0, false),
    };
    Ok(Some(Step::End { tail, padded }))
}
