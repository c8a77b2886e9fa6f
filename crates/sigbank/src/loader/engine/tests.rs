use super::super::{Column, FieldSpec};
use super::*;
use crate::format::model::{Metadata, Schema};
use crate::layout::{RowSink, Split, Units, Verified};
use std::sync::atomic::AtomicUsize;

/// Records of one field that say their ordinal.
#[derive(Debug)]
struct Numbers {
    units: Arc<Units>,
    random_access: bool,
    schema: Schema,
    metadata: Metadata,
    width: usize,
    /// Whether it is far away, and whether parts of its units are worth a request.
    far: Option<bool>,
    reading: AtomicUsize,
    most: AtomicUsize,
}

impl Source for Numbers {
    fn layout(&self) -> &'static str {
        "numbers"
    }
    fn location(&self) -> String {
        String::new()
    }
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn splits(&self) -> Vec<Split> {
        Vec::new()
    }
    fn units(&self, _: &str) -> Result<Arc<Units>> {
        Ok(self.units.clone())
    }
    fn unit_name(&self, _: &str, unit: usize) -> Result<String> {
        Ok(unit.to_string())
    }
    fn unit_metadata(&self, _: &str, _: usize) -> Result<Metadata> {
        Ok(Metadata::new())
    }
    fn random_access(&self) -> bool {
        self.random_access
    }
    fn round_trip(&self) -> u64 {
        if self.far.is_some() { 1 << 20 } else { 0 }
    }
    fn parts_far_away(&self) -> bool {
        self.far == Some(true)
    }
    fn read_unit(&self, _: &str, unit: usize, records: &[u32], _: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let now = self.reading.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        for (row, &index) in records.iter().enumerate() {
            let ordinal = self.units.start(unit).unwrap_or(0) + u64::from(index);
            out.place(row, 0, self.width)?.fill(ordinal as u8);
        }
        self.reading.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
    fn verify(&self, _: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        Ok(Verified::default())
    }
    fn root_digest(&self) -> Result<String> {
        Ok(String::new())
    }
}

fn job(counts: &[u64], width: usize, random_access: bool, shuffle: Shuffle, batch: u32, threads: usize) -> Job {
    job_at(None, counts, width, random_access, shuffle, batch, threads)
}

fn job_at(
    far: Option<bool>,
    counts: &[u64],
    width: usize,
    random_access: bool,
    shuffle: Shuffle,
    batch: u32,
    threads: usize,
) -> Job {
    let units = Arc::new(Units::from_counts(counts.iter().copied()));
    let source = Numbers {
        units: units.clone(),
        random_access,
        schema: Schema::default(),
        metadata: Metadata::new(),
        width,
        far,
        reading: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    };
    let order = Order::new(units, None, shuffle, 1).unwrap();
    let end = order.records();
    let fields = [FieldSpec { name: "n".into(), len: Some(width), about: 0, as_stored: false }].into();
    Job {
        source: Arc::new(source),
        split: "s".into(),
        positions: vec![0],
        fields,
        order,
        batch,
        threads,
        end,
        prefetch_bytes: None,
    }
}

#[test]
fn the_way_to_read_fits_the_source() {
    let way = |width, random, shuffle| job(&[1000; 20], width, random, shuffle, 32, 2).sizes().way;
    assert_eq!(way(1024, true, Shuffle::None), Way::Slices(256));
    assert_eq!(way(1024, true, Shuffle::Buffer(8000)), Way::Slices(500));
    assert_eq!(way(1024, true, Shuffle::Global), Way::ByOutput(256));
    assert_eq!(way(1 << 17, true, Shuffle::Buffer(8000)), Way::ByOutput(2));
    assert_eq!(way(1 << 20, true, Shuffle::None), Way::Slices(1));
    assert_eq!(way(1 << 17, false, Shuffle::Buffer(8000)), Way::WholeUnits);
    // Two units ahead, small ones as many as threads, and the shuffle's records.
    let window = |width, threads, shuffle| job(&[1000; 20], width, false, shuffle, 100, threads).sizes().window;
    assert_eq!(window(1 << 16, 8, Shuffle::None), 20);
    assert_eq!(window(1 << 10, 8, Shuffle::None), 80);
    assert_eq!(window(1 << 16, 8, Shuffle::Buffer(3000)), 50);
    let few = Job { prefetch_bytes: Some(0), ..job(&[1000; 20], 16, false, Shuffle::None, 100, 2) };
    assert_eq!(few.sizes().window, 1);
}

/// Far away units are fetched whole and ahead, or in pieces that are worth a request, by many threads at once.
#[test]
fn far_away_requests_are_large() {
    let sizes = |parts, shuffle| job_at(Some(parts), &[1000; 20], 1 << 10, true, shuffle, 32, 16).sizes();
    let told = |s: Sizes| (s.way, s.window, s.ahead);
    assert_eq!(told(sizes(true, Shuffle::None)), (Way::Slices(1024), 1025, 0));
    assert_eq!(told(sizes(true, Shuffle::Buffer(32_000))), (Way::Slices(2000), 3001, 0));
    assert_eq!(sizes(true, Shuffle::Global).way, Way::ByOutput(256));
    assert_eq!(told(sizes(false, Shuffle::None)), (Way::WholeUnits, 500, ahead::MOST));
}

/// What values of no fixed size take is counted as they come, whatever was expected of them.
#[test]
fn large_values_among_small_ones_hold_the_reading_back() {
    let fields = [FieldSpec { name: "n".into(), len: None, about: 1000, as_stored: false }].into();
    let job = job(&[10; 100], 100_000, true, Shuffle::None, 5, 2);
    let job = Job { fields, prefetch_bytes: Some(1 << 20), ..job };
    let Sizes { room, window, .. } = job.sizes();
    assert_eq!((room, window), ((1 << 20) + 2 * 5 * 1000, 210));
    let engine = Engine::start(Arc::new(job), 0).unwrap();
    let mut most = 0;
    for _ in 0..200 {
        assert_eq!(engine.next(None).unwrap().unwrap().rows, 5);
        while lock(&engine.shared.state).running > 0 {
            std::thread::yield_now();
        }
        most = most.max(lock(&engine.shared.state).held);
    }
    // Two tasks of ten were begun with almost no room left.
    assert!(most > room / 2 && most <= room + 2 * 10 * 100_000, "{most} bytes were held, {room} may be");
    assert_eq!(lock(&engine.shared.state).held, 0);
}

/// A consumer that stops for a while at each batch: what lives is bounded by the window and does not grow.
#[test]
fn live_memory_is_bounded_and_used_again() {
    for (random_access, shuffle, bound) in [
        (false, Shuffle::None, 2 * 100 + 3 * 10),
        (false, Shuffle::Buffer(200), 2 * 100 + 200 + 3 * 10),
        (true, Shuffle::None, 4 * 26 + 5 * 10),
        (true, Shuffle::Buffer(200), 4 * 26 + 200 + 5 * 10),
        (true, Shuffle::Global, 4 * 26 + 5 * 10),
    ] {
        let engine = Engine::start(Arc::new(job(&[100; 40], 10_000, random_access, shuffle, 10, 2)), 0).unwrap();
        let mut most = 0;
        for n in 0..400 {
            let batch = engine.next(None).unwrap().unwrap();
            if n % 8 == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
            most = most.max(engine.shared.pool.live());
            assert_eq!(batch.columns.len(), 1);
        }
        let rows = most / 10_000;
        assert!(rows <= bound && rows * 3 > bound, "{rows} rows lived, {bound} may ({random_access} {shuffle:?})");
    }
}

#[test]
fn a_window_of_nothing_still_gets_through() {
    for threads in 1..4 {
        for shuffle in [Shuffle::None, Shuffle::Buffer(30), Shuffle::Buffer(1000)] {
            for random_access in [false, true] {
                let job = Job { prefetch_bytes: Some(0), ..job(&[50, 1, 30, 0, 2], 5, random_access, shuffle, 7, threads) };
                let mut engine = Engine::start(Arc::new(job), 0).unwrap();
                if let Some(shared) = Arc::get_mut(&mut engine.shared) {
                    shared.window = 0;
                }
                let rows: usize = (0..12).map(|_| engine.next(None).unwrap().unwrap().rows).sum();
                assert_eq!(rows, 83);
            }
        }
    }
}

#[test]
fn a_plan_that_leaves_a_batch_open_is_an_error_and_no_hang() {
    let job = Job { end: 100, ..job(&[20], 5, true, Shuffle::None, 30, 2) };
    let job = Job { order: Order::new(Units::from_counts([20]).into(), None, Shuffle::None, 0).unwrap(), ..job };
    let engine = Engine::start(Arc::new(job), 90).unwrap();
    // The rows of the batch reach to 100, and the plan's tasks are taken away.
    *lock(&engine.shared.plan) = Ahead::new(Plan::new(engine.shared.job.order.clone(), Way::Slices(1), 0, 0), 0);
    loop {
        match engine.next(None) {
            Ok(Some(Batch { columns, .. })) => assert!(matches!(columns.first(), Some(Column::Fixed(_)))),
            Ok(None) => panic!("no deadline was set"),
            Err(e) => {
                assert!(e.message().contains("never filled"), "{e}");
                break;
            }
        }
    }
}
