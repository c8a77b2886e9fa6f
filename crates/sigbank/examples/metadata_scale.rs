//! What a dataset's lists cost: `cargo run --release --example metadata_scale [PART…]`, with the parts `small`, `trees`,
//! `append` (all by default). Everything lies in a temporary directory, in the page cache.

use serde_json::{Value, json};
use sigbank::format::checksum::{Algorithm, digest_all};
use sigbank::layout::Source;
use sigbank::layout::sedpack::{Dataset, FillerOptions, Info, OpenOptions};
use sigbank::{Error, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const REPETITIONS: usize = 5;
/// Children of a directory in a tree of the reference.
const BRANCHING: usize = 1000;

/// The time that something took on the wall and in the processors.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// User and system time of this process, all threads, ended ones too.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Resident memory in bytes: `VmRSS` now, `VmHWM` at its highest.
fn resident(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(what)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn took<T>(run: impl FnOnce() -> Result<T>) -> Result<(T, Took)> {
    let (wall, start) = (Instant::now(), cpu());
    let done = run()?;
    Ok((done, Took { wall: wall.elapsed(), cpu: cpu().saturating_sub(start) }))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Medians over the repetitions: (wall, processor) seconds.
fn medians(all: &[Took]) -> (f64, f64) {
    (median(all.iter().map(|t| t.wall.as_secs_f64()).collect()), median(all.iter().map(|t| t.cpu.as_secs_f64()).collect()))
}

fn info() -> Result<Info> {
    let structure = json!({"saved_data_description": [{"name": "a", "dtype": "uint8", "shape": [16]}], "examples_per_shard": 1});
    Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())
}

fn temporary() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir()?)
}

/// Writing, listing and checking `shards` shards of one example.
fn small(shards: u64) -> Result<()> {
    let mut all: [Vec<Took>; 4] = Default::default();
    // ext4 passes by files that were deleted within minutes one by one, so nothing is deleted before the end.
    let mut dirs = Vec::new();
    for durable in [false, true].repeat(REPETITIONS) {
        let dir = temporary()?;
        let dataset = Dataset::create(dir.path(), info()?)?;
        rustix_sync();
        let (_, wrote) = took(|| {
            let mut filler = dataset.filler(FillerOptions { threads: 4, durable, ..Default::default() })?;
            (0..shards).try_for_each(|n| filler.append("train", &[&[n as u8; 16]], None))?;
            filler.finish().map(|_| ())
        })?;
        let dataset = Dataset::open(dir.path(), OpenOptions::default())?;
        let (found, listed) = took(|| dataset.shard_infos("train", 0, shards))?;
        let (done, checked) = took(|| dataset.check(&[], &mut |_, _| true))?;
        if (found.len() as u64, done.units) != (shards, shards) {
            return Err(Error::corrupt(format!("{} shards are listed, {} were checked", found.len(), done.units)));
        }
        for (place, one) in
            all.iter_mut().zip([(!durable).then_some(wrote), durable.then_some(wrote), Some(listed), Some(checked)])
        {
            place.extend(one);
        }
        dirs.push(dir);
    }
    for (what, times) in ["write, not flushed", "write, flushed", "list", "check"].iter().zip(&all) {
        let (wall, cpu) = medians(times);
        let each = 1e6 / shards as f64;
        println!("{shards} shards of one example: {what:19} {:7.1} µs a shard, {:7.1} µs of processor", wall * each, cpu * each);
    }
    Ok(())
}

/// What other programs left unwritten is not ours to wait for.
fn rustix_sync() {
    let _ = std::process::Command::new("sync").status();
}

/// A dataset made of lists alone.
struct Tree<'a> {
    root: &'a Path,
    /// Whether each shard has metadata of its own, or all the same.
    distinct: Option<bool>,
    lists: u64,
    bytes: u64,
    shards: u64,
}

impl Tree<'_> {
    /// Writes a list; gives its pointer.
    fn list(&mut self, dir: &str, shards: Vec<Value>, children: Vec<Value>) -> Result<Value> {
        let path = format!("{dir}/shards_list.json");
        let sum = |key: &str, of: &[Value]| of.iter().filter_map(|v| v.get(key)?.as_u64()).sum::<u64>();
        let examples = sum("number_of_examples", &shards) + sum("number_of_examples", &children);
        let below = shards.len() as u64 + sum("number_of_shards", &children);
        let mut list = json!({"relative_path_self": path, "number_of_examples": examples});
        if let Some(list) = list.as_object_mut() {
            if !shards.is_empty() {
                list.insert("shard_files".into(), shards.into());
            }
            if !children.is_empty() {
                list.insert("children_shard_lists".into(), children.into());
            }
        }
        let bytes = serde_json::to_vec_pretty(&list).map_err(|e| Error::invalid(e.to_string()))?;
        fs::create_dir_all(self.root.join(dir))?;
        fs::write(self.root.join(&path), &bytes)?;
        self.lists += 1;
        self.bytes += bytes.len() as u64;
        let file = json!({"file_path": path, "hash_checksums": digest_all(&[Algorithm::Sha256], &[&bytes])});
        Ok(json!({"shard_list_info_file": file, "number_of_examples": examples, "number_of_shards": below}))
    }

    fn shard(&mut self, dir: &str) -> Value {
        let n = self.shards;
        self.shards += 1;
        let file = json!({"file_path": format!("{dir}/{n:032x}.fb"), "hash_checksums": [format!("{n:064x}")]});
        let mut shard = json!({"file_infos": [file], "number_of_examples": 256});
        if let (Some(distinct), Some(shard)) = (self.distinct, shard.as_object_mut()) {
            let n = if distinct { n } else { n % 4 };
            shard.insert("custom_metadata".into(), json!({"device": format!("board {n}"), "index": n}));
        }
        shard
    }

    /// A tree of three directories above `leaves` lists of `each` shards.
    fn full(&mut self, leaves: usize, each: usize) -> Result<Value> {
        let mut tops = Vec::new();
        let mut left = leaves;
        for a in 0..leaves.div_ceil(BRANCHING * BRANCHING) {
            let mut middles = Vec::new();
            for b in 0..left.div_ceil(BRANCHING).min(BRANCHING) {
                let mut lists = Vec::new();
                for c in 0..left.min(BRANCHING) {
                    let dir = format!("train/{a:010x}/{b:010x}/{c:010x}");
                    let shards = (0..each).map(|_| self.shard(&dir)).collect();
                    lists.push(self.list(&dir, shards, Vec::new())?);
                }
                left -= lists.len();
                middles.push(self.list(&format!("train/{a:010x}/{b:010x}"), Vec::new(), lists)?);
            }
            tops.push(self.list(&format!("train/{a:010x}"), Vec::new(), middles)?);
        }
        self.list("train", Vec::new(), tops)
    }

    /// As many sessions wrote one shard each: all hang in the split's own list.
    fn sessions(&mut self, sessions: usize) -> Result<Value> {
        let mut tops = Vec::new();
        for a in 0..sessions {
            let dir = format!("train/{a:010x}");
            let shard = self.shard(&dir);
            tops.push(self.list(&dir, vec![shard], Vec::new())?);
        }
        self.list("train", Vec::new(), tops)
    }

    fn finish(&self, top: Value) -> Result<()> {
        let mut root: Value = serde_json::from_slice(&info()?.to_bytes()?).map_err(|e| Error::invalid(e.to_string()))?;
        if let Some(root) = root.as_object_mut() {
            root.insert("splits".into(), json!({"train": top}));
        }
        let bytes = serde_json::to_vec_pretty(&root).map_err(|e| Error::invalid(e.to_string()))?;
        Ok(fs::write(self.root.join("dataset_info.json"), bytes)?)
    }
}

fn tree(root: &Path, distinct: Option<bool>) -> Tree<'_> {
    Tree { root, distinct, lists: 0, bytes: 0, shards: 0 }
}

/// Opening, picking and reading the table of a full-depth tree.
fn read_tree(leaves: usize, each: usize, distinct: Option<bool>) -> Result<()> {
    let dir = temporary()?;
    let mut tree = tree(dir.path(), distinct);
    let top = tree.full(leaves, each)?;
    tree.finish(top)?;
    let (lists, shards, bytes) = (tree.lists as f64, tree.shards, tree.bytes);
    let metadata = match distinct {
        None => "no metadata",
        Some(false) => "4 metadata",
        Some(true) => "metadata of their own",
    };
    println!("{leaves} leaf lists of {each} shards, {metadata} ({lists} lists, {:.1} MB):", bytes as f64 / 1e6);
    let open = || Dataset::open(dir.path(), OpenOptions::default());
    let mut all: [Vec<Took>; 6] = Default::default();
    for _ in 0..REPETITIONS {
        let (records, opened) = took(|| Ok(open()?.splits().iter().map(|s| s.records).sum::<u64>()))?;
        let dataset = open()?;
        let (one, picked) = took(|| dataset.shard_infos("train", shards / 2 + 3, shards / 2 + 4))?;
        let (units, table) = took(|| dataset.units("train"))?;
        let path = one.first().ok_or_else(|| Error::not_found("no shard was picked"))?.path()?.to_string();
        let ((_, at), found) = took(|| dataset.find(&path))?;
        let (_, described) = took(|| (0..shards as usize).try_for_each(|unit| dataset.unit_metadata("train", unit).map(|_| ())))?;
        let (count, listed) = took(|| {
            let page = |n: u64| Ok(dataset.shard_infos("train", n * 1000, (n + 1) * 1000)?.len());
            (0..shards.div_ceil(1000)).map(page).sum::<Result<usize>>()
        })?;
        if (records, units.len() as u64, u64::from(at), count as u64) != (shards * 256, shards, shards / 2 + 3, shards) {
            return Err(Error::corrupt("the tree is not what was written"));
        }
        for (place, one) in all.iter_mut().zip([opened, picked, table, found, described, listed]) {
            place.push(one);
        }
    }
    for (what, times) in
        ["open and count", "pick a shard", "table", "first look-up by path", "metadata of each", "list in pages"].iter().zip(&all)
    {
        let (wall, cpu) = medians(times);
        print!("  {what:22} {:9.3} ms wall {:6.0} ms processor", wall * 1e3, cpu * 1e3);
        match *what {
            "open and count" | "pick a shard" | "first look-up by path" => println!(),
            _ => println!(
                "  = {:6.2} µs a list, {:6.0} ns a shard wall; {:6.2} µs a list, {:6.0} ns a shard processor",
                wall * 1e6 / lists,
                wall * 1e9 / shards as f64,
                cpu * 1e6 / lists,
                cpu * 1e9 / shards as f64
            ),
        }
    }
    // In a process of its own, whose memory was not used before.
    let me = std::env::current_exe()?;
    let held = std::process::Command::new(me).arg("held").arg(dir.path()).arg(shards.to_string()).output()?;
    print!("  memory: {}", String::from_utf8_lossy(&held.stdout));
    Ok(())
}

/// Memory that the table of a dataset takes: at its highest, and held.
fn held(root: &Path, shards: u64) -> Result<()> {
    let each = |bytes: u64| bytes as f64 / shards as f64;
    let dataset = Dataset::open(root, OpenOptions::default())?;
    let before = resident("VmRSS");
    dataset.units("train")?;
    let table = resident("VmRSS").saturating_sub(before);
    let most = resident("VmHWM").saturating_sub(before);
    let _ = dataset.find("train/none");
    let index = resident("VmRSS").saturating_sub(before);
    println!(
        "{:.0} bytes a shard held, {:.0} after a look-up by path; {:.0} while reading",
        each(table),
        each(index),
        each(most)
    );
    Ok(())
}

/// Appending one shard to a dataset of many.
fn append(what: &str, make: impl Fn(&mut Tree<'_>) -> Result<Value>) -> Result<()> {
    let dir = temporary()?;
    let mut tree = tree(dir.path(), None);
    let top = make(&mut tree)?;
    tree.finish(top)?;
    rustix_sync();
    let mut all: [Vec<Took>; 2] = Default::default();
    for durable in [false, true].repeat(REPETITIONS) {
        let (_, one) = took(|| {
            let dataset = Dataset::open(dir.path(), OpenOptions::default())?;
            let mut filler = dataset.filler(FillerOptions { durable, ..Default::default() })?;
            filler.append("train", &[&[1; 16]], None)?;
            filler.finish().map(|_| ())
        })?;
        if let Some(place) = all.get_mut(usize::from(durable)) {
            place.push(one);
        }
    }
    let top = fs::metadata(dir.path().join("train/shards_list.json"))?.len();
    let [(plain, _), (flushed, _)] = all.map(|times| medians(&times));
    println!(
        "one shard appended to {:6} in {what:26} {:8.2} ms, flushed {:8.2} ms; the split's own list has {:7.1} kB",
        tree.shards,
        plain * 1e3,
        flushed * 1e3,
        top as f64 / 1e3
    );
    Ok(())
}

fn main() -> Result<()> {
    let parts: Vec<String> = std::env::args().skip(1).collect();
    if let [held_by, root, shards] = parts.as_slice()
        && held_by == "held"
    {
        return held(Path::new(root), shards.parse().map_err(|_| Error::invalid("shards: a count is expected"))?);
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    if wanted("small") {
        small(2_000)?;
    }
    if wanted("trees") {
        read_tree(100, 1_000, None)?;
        read_tree(10_000, 10, None)?;
        read_tree(100, 1_000, Some(false))?;
        read_tree(100, 1_000, Some(true))?;
    }
    if wanted("append") {
        for leaves in [1, 10, 100] {
            append("lists of 1,000", |tree| tree.full(leaves, 1_000))?;
        }
        for sessions in [1_000, 10_000] {
            append("sessions of one", |tree| tree.sessions(sessions))?;
        }
    }
    Ok(())
}
