//! A gc and a publication at once: whatever the order of their calls, what is published is whole, or the publication says what is missing
//! and nothing of it is visible.

use crate::gc::{Clocked, DAY, HOUR, names, rows, verified, write};
use crate::support::*;
use sigbank::convert::copy::{CopyOptions, plan, run as copy};
use sigbank::layout::signal_dataset::{
    AnnotationOptions, Dataset, GcOptions, Publication, VersionPublication, gc, publish, publish_annotations, publish_version,
};
use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
use sigbank::store::*;
use sigbank::{Code, Error, Result};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::SystemTime;

/// What an hour ago was written and is not committed, complete or not.
fn old() -> GcOptions {
    GcOptions { uncommitted: true, ..GcOptions::new(HOUR) }
}

/// Who makes how many calls, in this order; behind the last nobody waits.
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    segments: Vec<(usize, usize)>,
    now: usize,
    ended: [bool; 2],
}

impl Turns {
    fn call(&self, me: usize) {
        let mut state = self.state.lock().unwrap();
        loop {
            let now = state.now;
            let Some((actor, left)) = state.segments.get_mut(now) else { return };
            if *actor == me && *left > 0 {
                *left -= 1;
                return;
            }
            // Only who made the last call of a segment knows that it is done.
            let actor = *actor;
            if actor == me || state.ended[actor] {
                state.now += 1;
                self.changed.notify_all();
            } else {
                state = self.changed.wait(state).unwrap();
            }
        }
    }
    fn end(&self, me: usize) {
        self.state.lock().unwrap().ended[me] = true;
        self.changed.notify_all();
    }
}

type Actor<'a> = dyn Fn(&Arc<dyn Store>) -> Result<()> + Sync + 'a;

/// Runs a publication (actor 0) and a gc (actor 1) over one store in an order of calls; what came of them, and how many calls each made.
fn run(
    store: &Arc<dyn Store>,
    segments: Vec<(usize, usize)>,
    publication: &Actor<'_>,
    options: &GcOptions,
) -> ([Result<()>; 2], [usize; 2]) {
    let turns = Arc::new(Turns { state: Mutex::new(State { segments, now: 0, ended: [false; 2] }), changed: Condvar::new() });
    let collect = |store: &Arc<dyn Store>| gc(store, options).and_then(|found| found.delete(store)).map(|_| ());
    let actors: [&Actor<'_>; 2] = [publication, &collect];
    let results = std::thread::scope(|scope| {
        let start = |me: usize| {
            let (turns, actor, stepped) = (Arc::clone(&turns), actors[me], FaultStore::new(Arc::clone(store)));
            scope.spawn(move || {
                let hook = Arc::clone(&turns);
                let step = Fault::Run(Arc::new(move |_| {
                    hook.call(me);
                    Ok(())
                }));
                stepped.add(Rule::new(step).always());
                let log = stepped.clone();
                let done = actor(&(Arc::new(stepped) as Arc<dyn Store>));
                turns.end(me);
                (done, log.log().len())
            })
        };
        [start(0), start(1)].map(|thread| thread.join().unwrap())
    });
    let calls = [0, 1].map(|me| results[me].1);
    (results.map(|(result, _)| result), calls)
}

/// Every order in which one makes i calls, the other j, and both then end, one behind the other. `prepare` gives a store as a killed run
/// left it, long ago; `visible` says whether the publication can be seen, and checks it.
fn every_order(
    prepare: &dyn Fn() -> Arc<dyn Store>,
    publication: &Actor<'_>,
    visible: &dyn Fn(&Arc<dyn Store>) -> bool,
    rewrite: &dyn Fn(&Arc<dyn Store>),
    options: &GcOptions,
) {
    let (_, [publishing, collecting]) = run(&prepare(), vec![(0, usize::MAX)], publication, options);
    let mut ends = [0; 3];
    for first in [0, 1] {
        let (own, others) = if first == 0 { (publishing, collecting) } else { (collecting, publishing) };
        // Each call of the first; of the other as many as matter.
        for i in 0..=own {
            for j in (1..=others).step_by(7).chain([usize::MAX]) {
                let store = prepare();
                let segments = vec![(first, i), (1 - first, j), (first, usize::MAX), (1 - first, usize::MAX)];
                let ([published, collected], _) = run(&store, segments.clone(), publication, options);
                let seen = visible(&store);
                match &published {
                    Ok(()) => assert!(seen, "{segments:?}"),
                    Err(e) => {
                        assert!(
                            matches!(e.code(), Code::Conflict | Code::NotFound) && e.remedy_text().is_some(),
                            "{segments:?} {e:?}"
                        );
                        assert!(!seen, "{segments:?} {e}");
                        rewrite(&store);
                        publication(&store).unwrap_or_else(|e| panic!("{segments:?} {e}"));
                        assert!(visible(&store));
                    }
                }
                if let Err(e) = &collected {
                    assert!(matches!(e.code(), Code::Conflict | Code::NotFound), "{segments:?} {e:?}");
                }
                verified(&store);
                ends[if published.is_err() {
                    1
                } else if collected.is_err() {
                    2
                } else {
                    0
                }] += 1;
            }
        }
    }
    // Both kinds of ends were met.
    assert!(ends[0] > 0 && ends[1] > 0, "{ends:?}");
}

fn old_run(store: &Arc<dyn Store>, stops_at: &str, run: impl Fn(&Arc<dyn Store>) -> Result<()>) {
    let faulty = FaultStore::new(Arc::clone(store));
    faulty.add(Rule::new(Fault::Fail(Error::storage("killed"))).at(stops_at).on(Op::Create).always());
    faulty.add(Rule::new(Fault::Fail(Error::storage("killed"))).at(stops_at).on(Op::Replace).always());
    let e = run(&(Arc::new(faulty) as Arc<dyn Store>)).unwrap_err();
    assert!(e.to_string().contains("killed"), "{e}");
}

const VERSION: &str = "sigbank/versions/00000001.json";

fn shards_of(store: &dyn Store) -> Vec<sigbank::layout::signal_dataset::PublishedShard> {
    ["more", "most"].map(|work| write(store, work, 0)).into()
}

fn clocked_version() -> Arc<dyn Store> {
    let clock = Arc::new(Clocked::new(0));
    let store: Arc<dyn Store> = Arc::clone(&clock) as _;
    dataset(&store, 2, 1, &options());
    let shards = shards_of(&*store);
    old_run(&store, VERSION, |store| publish_version(store, &shards, &VersionPublication::new("more"), &options()).map(|_| ()));
    clock.backdate(DAY);
    store
}

#[test]
fn a_retried_version_and_a_gc() {
    let shards = shards_of(&*memory());
    let publication =
        |store: &Arc<dyn Store>| publish_version(store, &shards, &VersionPublication::new("more"), &options()).map(|_| ());
    let visible = |store: &Arc<dyn Store>| names(&**store).contains(VERSION);
    let rewrite = |store: &Arc<dyn Store>| {
        shards_of(&**store);
    };
    every_order(&clocked_version, &publication, &visible, &rewrite, &old());
}

#[test]
fn a_retried_first_publication_and_a_gc() {
    let shards = shards_of(&*memory());
    let publication = |store: &Arc<dyn Store>| publish(store, &shards, &Publication::new("d", "s"), &options()).map(|_| ());
    let prepare = || {
        let clock = Arc::new(Clocked::new(0));
        let store: Arc<dyn Store> = Arc::clone(&clock) as _;
        shards_of(&*store);
        old_run(&store, "root.json", publication);
        clock.backdate(DAY);
        store
    };
    let visible = |store: &Arc<dyn Store>| names(&**store).contains("root.json");
    let rewrite = |store: &Arc<dyn Store>| {
        shards_of(&**store);
    };
    every_order(&prepare, &publication, &visible, &rewrite, &GcOptions { unpublished: true, ..old() });
}

#[test]
fn retried_annotations_and_a_gc() {
    let publication = |store: &Arc<dyn Store>| {
        let dataset = Dataset::open_store(Arc::clone(store), options())?;
        let options = AnnotationOptions { publication_id: Some("p".into()), ..AnnotationOptions::default() };
        let rows = rows(&dataset, 0..dataset.len()).into_iter().map(Ok);
        publish_annotations(&dataset, "labels", rows, &options).map(|_| ())
    };
    let prepare = || {
        let clock = Arc::new(Clocked::new(0));
        let store: Arc<dyn Store> = Arc::clone(&clock) as _;
        dataset(&store, 2, 1, &options());
        old_run(&store, "annotations/catalog.json", publication);
        clock.backdate(DAY);
        store
    };
    let visible = |store: &Arc<dyn Store>| names(&**store).contains("annotations/catalog.json");
    every_order(&prepare, &publication, &visible, &|_| (), &GcOptions { old_annotations: true, ..old() });
}

/// A copy too takes over what a killed one left: of a whole dataset, and of what is new of it.
#[test]
fn a_retried_copy_and_a_gc() {
    let from = memory();
    let first = dataset(&from, 2, 1, &options());
    let copied = |store: &Arc<dyn Store>| {
        let plan = plan(&from, store, &CopyOptions { update: true, jobs: 1, ..CopyOptions::default() })?;
        copy(&plan, &mut |_, _| true).map(|_| ())
    };
    let prepare = |stops_at: &'static str, before: bool| {
        let clock = Arc::new(Clocked::new(0));
        let store: Arc<dyn Store> = Arc::clone(&clock) as _;
        if before {
            let whole = memory();
            let shards = sigbank_first(&whole);
            let plan = plan(&shards, &store, &CopyOptions::default()).unwrap();
            copy(&plan, &mut |_, _| true).unwrap();
        }
        old_run(&store, stops_at, copied);
        clock.backdate(DAY);
        store
    };
    let visible = |store: &Arc<dyn Store>| names(&**store).contains("root.json");
    every_order(&|| prepare("root.json", false), &copied, &visible, &|_| (), &GcOptions { unpublished: true, ..old() });

    publish_version(&from, &shards_of(&*from), &VersionPublication::new("more"), &options()).unwrap();
    let options = AnnotationOptions { publication_id: Some("p".into()), ..AnnotationOptions::default() };
    publish_annotations(&first, "labels", rows(&first, 0..2).into_iter().map(Ok), &options).unwrap();
    let visible = |store: &Arc<dyn Store>| names(&**store).contains("annotations/catalog.json");
    let old = GcOptions { old_annotations: true, ..old() };
    every_order(&|| prepare(VERSION, true), &copied, &visible, &|_| (), &old);
}

/// The dataset as it was first.
fn sigbank_first(store: &Arc<dyn Store>) -> Arc<dyn Store> {
    dataset(store, 2, 1, &options());
    Arc::clone(store)
}

/// Makes every file below a folder so old as if it were written a day ago.
fn age(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age(&path);
        } else {
            let file = std::fs::File::options().append(true).open(&path);
            file.unwrap().set_modified(SystemTime::now() - DAY).unwrap();
        }
    }
}

/// On a disk a gc holds a lock, so that one that was killed is told from one at work.
#[test]
fn a_retried_version_and_a_gc_on_a_disk() {
    let prepare = || {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(LocalStore::create(dir.path().join("d")).unwrap());
        dataset(&store, 2, 1, &options());
        let shards = shards_of(&*store);
        old_run(&store, VERSION, |store| {
            publish_version(store, &shards, &VersionPublication::new("more"), &options()).map(|_| ())
        });
        age(dir.path());
        (dir, store, shards)
    };
    let all = old();
    let once = |segments: Vec<(usize, usize)>| {
        let (_dir, store, shards) = prepare();
        let publication =
            |store: &Arc<dyn Store>| publish_version(store, &shards, &VersionPublication::new("more"), &options()).map(|_| ());
        let ([published, _], calls) = run(&store, segments.clone(), &publication, &all);
        assert_eq!(published.is_ok(), names(&*store).contains(VERSION), "{segments:?} {published:?}");
        verified(&store);
        (published, calls)
    };
    let (_, [publishing, _]) = once(vec![(0, usize::MAX)]);
    let (_, [_, collecting]) = once(vec![(1, usize::MAX), (0, usize::MAX)]);
    for i in 0..=publishing {
        once(vec![(0, i), (1, usize::MAX), (0, usize::MAX)]).0.err();
    }
    let failed = (0..=collecting).filter(|i| once(vec![(1, *i), (0, usize::MAX), (1, usize::MAX)]).0.is_err()).count();
    assert!(failed > 0 && failed < collecting, "{failed} of {collecting}");

    // Killed while deleting: its mark stays, its lock does not, and publishing goes on where all is there.
    let (dir, store, shards) = prepare();
    let faulty = FaultStore::new(Arc::clone(&store));
    faulty.add(Rule::new(Fault::Fail(Error::storage("killed"))).on(Op::Delete).at("snapshots").always());
    faulty.add(Rule::new(Fault::Fail(Error::storage("killed"))).on(Op::Replace).at("gc.json").nth(2).always());
    let killed: Arc<dyn Store> = Arc::new(faulty);
    gc(&killed, &all).unwrap().delete(&killed).unwrap_err();
    let mark = dir.path().join("d/sigbank/gc.json");
    assert!(std::fs::read_to_string(&mark).unwrap().contains("deleting"));
    publish_version(&store, &shards, &VersionPublication::new("more"), &options()).unwrap();
    assert!(std::fs::read_to_string(&mark).unwrap().contains("done"));
    verified(&store);
}

/// Without locks nobody knows whether it was killed: publishing is refused until a further gc ends.
#[test]
fn a_killed_gc_in_a_bucket() {
    let store = clocked_version();
    let shards = shards_of(&*memory());
    let faulty = FaultStore::new(Arc::clone(&store));
    faulty.add(Rule::new(Fault::Fail(Error::storage("killed"))).on(Op::Delete).at("snapshots").always());
    faulty.add(Rule::new(Fault::Fail(Error::storage("killed"))).on(Op::Replace).at("gc.json").nth(2).always());
    let killed: Arc<dyn Store> = Arc::new(faulty);
    gc(&killed, &old()).unwrap().delete(&killed).unwrap_err();
    let again = || publish_version(&store, &shards, &VersionPublication::new("more"), &options());
    let e = again().unwrap_err();
    assert!(e.code() == Code::Conflict && e.remedy_text().unwrap().contains("gc"), "{e:?}");
    gc(&store, &old()).unwrap().delete(&store).unwrap();
    assert_eq!(again().unwrap_err().code(), Code::NotFound);
    shards_of(&*store);
    again().unwrap();
    verified(&store);
    // Nor is anything taken for such a mark.
    replace(&*store, "sigbank/gc.json", b"what?");
    let e = publish_version(&store, &[write(&*store, "x", 0)], &VersionPublication::new("x"), &options()).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with("sigbank/gc.json"), "{e:?}");
}
