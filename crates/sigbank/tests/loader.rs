//! The loader against the pure function that defines its order.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#[path = "support/memory.rs"]
mod memory;

use memory::{ID, Memory, NOTE, TRACE};
use proptest::prelude::*;
use sigbank::error::Code;
use sigbank::layout::Source;
use sigbank::loader::order::Order;
use sigbank::loader::{Batch, Column, Loader, Next, Options, Shuffle};
use sigbank::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

fn ids(batch: &Batch) -> Vec<(u32, u32)> {
    let Some(Column::Fixed(bytes)) = batch.columns.first() else { panic!("no ids") };
    assert_eq!(bytes.len(), batch.rows * 8);
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
    bytes.chunks(8).map(|id| (word(&id[..4]), word(&id[4..]))).collect()
}

fn check_values(source: &Memory, batch: &Batch) {
    let (Column::Fixed(traces), Column::Var(notes)) = (&batch.columns[1], &batch.columns[2]) else { panic!("columns") };
    assert_eq!(notes.len(), batch.rows);
    let width = traces.len() / batch.rows;
    for (row, (unit, index)) in ids(batch).into_iter().enumerate() {
        assert_eq!(&traces[row * width..(row + 1) * width], source.trace(unit, index), "{unit} {index}");
        assert_eq!(notes[row], Memory::note(unit, index).as_bytes());
    }
}

fn load(source: Arc<dyn Source>, options: Options) -> Result<Vec<(u32, u32)>> {
    let mut all = Vec::new();
    for batch in Loader::new(source, options)? {
        all.extend(ids(&batch?));
    }
    Ok(all)
}

fn expected(source: &Memory, options: &Options) -> Vec<(u32, u32)> {
    let order = Order::new(source.units("train").unwrap(), options.units.clone(), options.shuffle, options.seed).unwrap();
    let mut all: Vec<_> = (0..options.epochs.unwrap()).flat_map(|e| order.epoch(e).collect::<Vec<_>>()).collect();
    all.drain(..options.start as usize);
    if options.drop_last {
        all.truncate(all.len() / options.batch_size * options.batch_size);
    }
    all
}

fn shuffles() -> impl Strategy<Value = Shuffle> {
    prop_oneof![Just(Shuffle::None), (1u64..60).prop_map(Shuffle::Buffer), Just(Shuffle::Buffer(10_000)), Just(Shuffle::Global)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn batches_are_what_the_order_says(
        counts in prop::collection::vec(prop_oneof![0u64..4, 0u64..90], 1..12),
        // Also records so large that they are read in the order of the output.
        trace in prop_oneof![4 => 0usize..40, 1 => Just(40_000)],
        batch in 1usize..50,
        threads in 1usize..5,
        random in any::<bool>(),
        shuffle in shuffles(),
        seed in any::<u64>(),
        epochs in 1u64..4,
        (drop_last, subset) in any::<(bool, bool)>(),
        prefetch in prop_oneof![Just(None), (0usize..3000).prop_map(Some)],
        start in any::<prop::sample::Index>(),
    ) {
        let shuffle = if random || shuffle != Shuffle::Global { shuffle } else { Shuffle::Buffer(7) };
        let source = Arc::new(Memory::new(&counts, trace, random));
        let chosen: Vec<u32> = (0..counts.len() as u32).rev().step_by(2).collect();
        let records: u64 = match subset {
            true => chosen.iter().map(|&u| counts[u as usize]).sum(),
            false => counts.iter().sum(),
        };
        let options = Options {
            units: subset.then_some(chosen), threads, shuffle, seed, drop_last, epochs: Some(epochs), prefetch_bytes: prefetch,
            start: start.index(1 + (records * epochs) as usize) as u64, ..Options::new("train", batch)
        };
        if records == 0 {
            prop_assert_eq!(Loader::new(source, options).unwrap_err().code(), Code::Invalid);
            return Ok(());
        }
        let want = expected(&source, &options);
        let mut got = Vec::new();
        let mut loader = Loader::new(source.clone(), options.clone()).unwrap();
        while let Some(b) = loader.next() {
            let b = b.unwrap();
            prop_assert_eq!(b.first_position, options.start + got.len() as u64);
            prop_assert!(b.rows == batch || got.len() + b.rows == want.len());
            check_values(&source, &b);
            got.extend(ids(&b));
            prop_assert_eq!(loader.position(), options.start + got.len() as u64);
        }
        prop_assert_eq!(got, want);
        prop_assert!(matches!(loader.next_timeout(Duration::ZERO), Ok(Next::End)));
    }
}

#[test]
fn a_resume_at_every_position_gives_the_tail() {
    for (random, shuffle) in
        [(false, Shuffle::Buffer(20)), (true, Shuffle::Buffer(20)), (true, Shuffle::Global), (false, Shuffle::None)]
    {
        let source = Arc::new(Memory::new(&[7, 0, 30, 1, 24], 8, random));
        let options = Options { shuffle, epochs: Some(2), threads: 2, seed: 3, ..Options::new("train", 7) };
        let whole = load(source.clone(), options.clone()).unwrap();
        for start in 0..=124 {
            let tail = load(source.clone(), Options { start, ..options.clone() }).unwrap();
            assert_eq!(tail, whole[start as usize..], "start {start} {shuffle:?}");
        }
        let past = Loader::new(source, Options { start: 125, ..options }).unwrap_err();
        assert!(past.code() == Code::Invalid && past.to_string().contains("125") && past.to_string().contains("124"), "{past}");
    }
}

#[test]
fn epochs_without_end_run_on() {
    let source = Arc::new(Memory::new(&[5, 6], 8, true));
    let options = Options { epochs: None, shuffle: Shuffle::Buffer(4), threads: 2, ..Options::new("train", 4) };
    let all: Vec<_> = Loader::new(source, options).unwrap().take(55).flat_map(|b| ids(&b.unwrap())).collect();
    let mut epochs: Vec<Vec<_>> = all.chunks(11).map(<[_]>::to_vec).collect();
    assert!(epochs.len() == 20 && epochs[3] != epochs[4]);
    epochs.iter_mut().for_each(|e| e.sort_unstable());
    assert!(epochs.iter().all(|e| *e == epochs[0]));
}

#[test]
fn a_failing_unit_fails_its_first_batch_and_not_those_before() {
    let counts = [10, 3, 0, 25, 8, 14];
    for random in [false, true] {
        for bad in [0, 1, 3, 4, 5] {
            for threads in 1..4 {
                let source = Memory::new(&counts, 16, random)
                    .before_read(move |unit, _| if unit == bad { Err(Error::corrupt("bad bytes").at("x/1")) } else { Ok(()) });
                let options = Options { threads, epochs: None, ..Options::new("train", 4) };
                let mut loader = Loader::new(Arc::new(source), options).unwrap();
                let before = counts[..bad].iter().sum::<u64>() / 4;
                for _ in 0..before {
                    assert_eq!(loader.next().unwrap().unwrap().rows, 4);
                }
                assert_eq!(loader.next().unwrap().unwrap_err().to_string(), "x/1: bad bytes");
                assert!(loader.next().is_none() && loader.position() == before * 4);
            }
        }
    }
}

#[test]
fn a_panic_in_a_source_is_an_error_that_names_the_unit() {
    let source = Memory::new(&[10, 10, 10], 16, false).before_read(|unit, _| {
        assert!(unit != 1, "index out of bounds");
        Ok(())
    });
    let mut loader = Loader::new(Arc::new(source), Options { threads: 2, ..Options::new("train", 5) }).unwrap();
    assert!(loader.next().unwrap().is_ok() && loader.next().unwrap().is_ok());
    let e = loader.next().unwrap().unwrap_err();
    assert!(e.path() == Some("shard-1") && e.message().contains("index out of bounds"), "{e}");
    assert!(loader.next().is_none());
}

#[test]
fn a_slow_consumer_bounds_what_is_read() {
    let rows = Arc::new(AtomicUsize::new(0));
    for (random, shuffle, most) in [
        // Two units ahead of the batch at the front, plus the one that the front itself needs.
        (false, Shuffle::None, 300),
        (false, Shuffle::Buffer(400), 300 + 400 + 100),
        (true, Shuffle::None, 200),
        (true, Shuffle::Global, 200),
    ] {
        rows.store(0, Ordering::Relaxed);
        let seen = rows.clone();
        let source = Memory::new(&[100; 50], 10_000, random).before_read(move |_, records| {
            seen.fetch_add(records.len(), Ordering::Relaxed);
            Ok(())
        });
        let mut loader = Loader::new(Arc::new(source), Options { threads: 2, shuffle, ..Options::new("train", 10) }).unwrap();
        for batch in 0..30 {
            loader.next().unwrap().unwrap();
            std::thread::sleep(Duration::from_millis(2));
            let ahead = rows.load(Ordering::Relaxed) - batch * 10;
            assert!(ahead <= most, "{ahead} rows read at batch {batch}, {random} {shuffle:?}");
        }
    }
}

#[test]
fn dropping_it_frees_threads_and_source_at_once() {
    let source: Arc<dyn Source> = Arc::new(Memory::new(&[1000; 50], 1000, true));
    for round in 0..200 {
        let shuffle = if round % 2 == 0 { Shuffle::None } else { Shuffle::Buffer(3000) };
        let options = Options { threads: 3, shuffle, epochs: None, ..Options::new("train", 100) };
        let mut loader = Loader::new(source.clone(), options).unwrap();
        let kept = (round % 3 > 0).then(|| loader.next().unwrap().unwrap());
        drop(loader);
        assert_eq!(Arc::strong_count(&source), 1, "a thread still has the source");
        // A batch outlives its loader.
        assert!(kept.is_none_or(|b| ids(&b).len() == 100));
    }
    let mut loader = Loader::new(source.clone(), Options { epochs: None, ..Options::new("train", 100) }).unwrap();
    assert!(loader.by_ref().take(3).all(|b| b.is_ok()));
    drop(loader);
    let mut ended = Loader::new(source.clone(), Options::new("train", 10_000)).unwrap();
    assert_eq!(ended.by_ref().map(|b| b.unwrap().rows).sum::<usize>(), 50_000);
    assert_eq!(Arc::strong_count(&source), 2, "the loader's own, but no thread's");
}

#[test]
fn a_stop_at_any_moment_wakes_every_thread() {
    let source: Arc<dyn Source> = Arc::new(Memory::new(&[40; 50], 100, true));
    let began = Instant::now();
    for round in 0..2000u32 {
        let options = Options { threads: 3, prefetch_bytes: Some(0), shuffle: Shuffle::Buffer(50), ..Options::new("train", 20) };
        let mut loader = Loader::new(source.clone(), options).unwrap();
        for _ in 0..round % 5 {
            loader.next().unwrap().unwrap();
        }
        (0..round % 97 * 20).for_each(|_| std::hint::spin_loop());
        drop(loader);
        assert_eq!(Arc::strong_count(&source), 1, "round {round}: a thread still waits");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn dropping_it_interrupts_a_long_read() {
    let source = Memory::new(&[100_000], 10, false).before_read(|_, _| {
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    });
    let source: Arc<dyn Source> = Arc::new(source);
    let mut loader = Loader::new(source.clone(), Options { threads: 1, ..Options::new("train", 100) }).unwrap();
    assert!(matches!(loader.next_timeout(Duration::from_millis(1)), Ok(Next::Pending)));
    let began = Instant::now();
    drop(loader);
    assert!(began.elapsed() < Duration::from_millis(500) && Arc::strong_count(&source) == 1);
}

#[test]
fn waiting_has_a_limit_and_loses_nothing() {
    let gate = Arc::new(Barrier::new(2));
    let inner = gate.clone();
    let source = Memory::new(&[4, 4], 8, false).before_read(move |unit, _| {
        if unit == 1 {
            inner.wait();
        }
        Ok(())
    });
    let mut loader = Loader::new(Arc::new(source), Options { threads: 1, ..Options::new("train", 4) }).unwrap();
    assert!(loader.next().unwrap().is_ok());
    for _ in 0..3 {
        assert!(matches!(loader.next_timeout(Duration::from_millis(5)), Ok(Next::Pending)));
        assert_eq!(loader.position(), 4);
    }
    gate.wait();
    let Ok(Next::Batch(batch)) = loader.next_timeout(Duration::from_secs(20)) else { panic!("no batch") };
    assert_eq!((batch.first_position, ids(&batch)[0]), (4, (1, 0)));
}

#[test]
fn units_are_read_at_the_same_time() {
    // Each read waits for another one: with one at a time this would hang.
    let pair = Arc::new(Barrier::new(2));
    for random in [false, true] {
        let pair = pair.clone();
        let source = Memory::new(&[64; 8], 8192, random).before_read(move |_, _| {
            pair.wait();
            Ok(())
        });
        let options = Options { threads: 2, ..Options::new("train", 16) };
        assert_eq!(load(Arc::new(source), options).unwrap().len(), 512);
    }
}

#[test]
fn fields_come_as_asked_for() {
    let source = Arc::new(Memory::new(&[5, 4], 12, false));
    let options = Options { fields: Some(vec![NOTE, TRACE]), ..Options::new("train", 9) };
    let batch = Loader::new(source.clone(), options).unwrap().next().unwrap().unwrap();
    let [Column::Var(notes), Column::Fixed(traces)] = &batch.columns[..] else { panic!("columns") };
    assert_eq!((notes[2].as_slice(), notes.len(), traces.len()), (b"0/20/2".as_slice(), 9, 108));
    assert_eq!(&traces[96..], source.trace(1, 3));
    let none = Options { fields: Some(vec![]), ..Options::new("train", 9) };
    let batch = Loader::new(source, none).unwrap().next().unwrap().unwrap();
    assert_eq!((batch.rows, batch.columns.len()), (9, 0));
}

#[test]
fn what_cannot_be_loaded_is_refused_at_once() {
    let source = Arc::new(Memory::new(&[5, 0], 12, false));
    let refused = |options: Options| {
        let e = Loader::new(source.clone(), options).unwrap_err();
        (e.code(), e.to_string())
    };
    let base = || Options::new("train", 4);
    assert_eq!(refused(Options::new("holdout", 4)).0, Code::NotFound);
    assert_eq!(refused(Options { batch_size: 0, ..base() }).0, Code::Invalid);
    assert_eq!(refused(Options { batch_size: 1 << 40, ..base() }).0, Code::Invalid);
    assert!(refused(Options { fields: Some(vec![ID, 3]), ..base() }).1.contains("field 3"));
    assert!(refused(Options { units: Some(vec![2]), ..base() }).1.contains("unit 2"));
    assert!(refused(Options { units: Some(vec![0, 0]), ..base() }).1.contains("twice"));
    assert_eq!(refused(Options { units: Some(vec![]), ..base() }).0, Code::Invalid);
    assert_eq!(refused(Options { units: Some(vec![1]), ..base() }).0, Code::Invalid);
    assert_eq!(refused(Options { shuffle: Shuffle::Global, ..base() }).0, Code::Unsupported);
    let huge = Arc::new(Memory::new(&[1 << 33], 12, true));
    assert_eq!(Loader::new(huge, base()).unwrap_err().code(), Code::Limit);
}

#[test]
fn a_batch_that_is_too_large_for_memory_is_an_error() {
    // 2^31 rows of 2^20 bytes: more than an address space.
    let source = Arc::new(Memory::new(&[u64::from(u32::MAX) - 1], 1 << 20, true));
    let mut loader =
        Loader::new(source, Options { threads: 2, fields: Some(vec![TRACE]), ..Options::new("train", 1 << 31) }).unwrap();
    let e = loader.next().unwrap().unwrap_err();
    assert!(e.code() == Code::Limit && e.to_string().contains("smaller batch size"), "{e}");
    assert!(loader.next().is_none());
}

#[test]
fn only_what_is_wanted_is_asked_for() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let source = Memory::new(&[6, 6], 8, false).before_read(move |unit, records| {
        log.lock().unwrap().push((unit, records.to_vec()));
        Ok(())
    });
    let options = Options { start: 2, epochs: Some(2), threads: 1, drop_last: true, ..Options::new("train", 5) };
    assert_eq!(load(Arc::new(source), options).unwrap().len(), 20);
    let whole = || (0..6).collect::<Vec<u32>>();
    assert_eq!(*asked.lock().unwrap(), [(0, vec![2, 3, 4, 5]), (1, whole()), (0, whole()), (1, vec![0, 1, 2, 3])]);
}
