//! What the layout-neutral side costs where each request is a round trip.

use super::annotations::rows;
use super::support::*;
use sigbank::Code;
use sigbank::format::record::signal::{FieldMetadata, RecordMetadata};
use sigbank::layout::Source;
use sigbank::layout::signal_dataset::{
    AnnotationOptions, Dataset, Elsewhere, Options as SignalOptions, Publication, PublishedShard, Record, SignalSource, publish,
    publish_annotations, write_shard,
};
use sigbank::loader::{Column, Loader, Options, Shuffle};
use sigbank::store::bucket::BucketStore;
use sigbank::store::{LocalStore, Store};
use std::path::Path;
use std::sync::Arc;

/// A bucket with a dataset of so many records, and nothing counted yet.
fn bucket(records: u64, per_shard: u64) -> (BucketStore, Arc<dyn Store>) {
    let bucket = BucketStore::new(memory(), 1 << 20);
    let store: Arc<dyn Store> = Arc::new(bucket.clone());
    dataset(&store, records, per_shard, &options());
    bucket.take();
    (bucket, store)
}

#[test]
fn annotations_come_beside_each_record_and_many_cost_one_request() {
    let (bucket, store) = bucket(100, 50);
    let dataset = Dataset::open_store(store, options()).unwrap();
    assert!(dataset.annotated(7..9).unwrap().all(|rows| rows.unwrap().is_empty()));
    for (name, records_per_shard) in [("a", 30), ("b", 1000)] {
        publish_annotations(&dataset, name, rows(0..100), &AnnotationOptions { records_per_shard, ..Default::default() })
            .unwrap();
    }
    bucket.take();
    let all: Vec<_> = dataset.annotated(20..95).unwrap().map(Result::unwrap).collect();
    assert_eq!(all.len(), 75);
    for (at, rows) in (20..).zip(&all) {
        let expected: Vec<_> = ["a", "b"].map(|name| (Arc::from(name), super::annotations::row(at))).into();
        assert_eq!(*rows, expected);
    }
    let asked = bucket.take();
    // Pointer, revision and two roots; five objects, each opened, and read in few pieces.
    assert!(asked.get <= 4 + 5 + 12 && asked.head == 0, "{asked:?}");
    assert_eq!(dataset.annotated(99..101).err().unwrap().code(), Code::NotFound);
    let source = dataset.source().unwrap();
    assert_eq!(source.annotation_sets().unwrap(), ["a", "b"]);
    let told: Vec<_> = source.annotations("b", "all", 98..100).unwrap().map(Result::unwrap).collect();
    assert_eq!((told.len(), told[1].id.as_str(), told[1].status), (2, "r99", "success"));
    assert_eq!(serde_json::to_string(&told[1].values).unwrap(), r#"{"snr":99.5}"#);
    for (set, split, range) in [("c", "all", 0..1), ("a", "train", 0..1), ("a", "all", 0..101)] {
        assert_eq!(source.annotations(set, split, range).err().unwrap().code(), Code::NotFound, "{set} {split}");
    }
}

/// Root, snapshot and page; of two shards (whose objects are the same) the end and some records.
const OPEN: u64 = 3 + 1 + 2;

#[test]
fn opening_and_a_record_cost_the_same_however_many_shards_there_are() {
    for shards in [3, 1000] {
        let far = BucketStore::new(memory(), 1 << 20);
        let store: Arc<dyn Store> = Arc::new(far.clone());
        // The same objects under other work ids.
        let one = self::shards(&*store, 10, 10, &options()).remove(0);
        let all: Vec<_> = (0..shards).map(|i| PublishedShard { work_id: format!("w{i:05}"), ..one.clone() }).collect();
        publish(&store, &all, &Publication::new("many", "v1"), &options()).unwrap();
        far.take();
        let source = Dataset::open_store(Arc::new(far.clone()), options()).unwrap().source().unwrap();
        let splits = source.splits();
        assert_eq!((splits[0].records, splits[0].units, source.schema_of()), (shards * 10, shards, Some(20)));
        assert_eq!(source.schema().fields[0].ty.to_string(), "float32[2, 20]");
        let asked = far.take();
        assert_eq!((asked.get, asked.head, asked.list), (OPEN, 0, 0), "{shards}");
        let own = source.read_own("all", &[shards * 10 - 1]).unwrap().unwrap();
        assert_eq!((own.len(), own[0][0].0.as_str(), own[0][0].1.bytes.len()), (1, "x", 160));
        assert_eq!(far.take().get, 2, "{shards}");
    }
}

#[test]
fn ids_are_read_once() {
    let (bucket, store) = bucket(60, 20);
    let source = Dataset::open_store(store, options()).unwrap().source().unwrap();
    bucket.take();
    assert_eq!(source.by_id("r37").unwrap(), ("all".into(), 37));
    let asked = bucket.take();
    assert!(asked.get > 0 && asked.get <= 2 * 3, "{asked:?}");
    assert_eq!(source.by_id("r59").unwrap().1, 59);
    let e = source.by_id("r6o").unwrap_err();
    assert!(e.code() == Code::NotFound && e.to_string().contains("near it: 'r6'"), "{e}");
    assert_eq!(source.clone().ids("all", 0..60).unwrap(), (0..60).map(|i| format!("r{i}")).collect::<Vec<_>>());
    assert_eq!(bucket.take().get, 0);
}

/// A dataset of three shards whose middle one has records of another shape, or with a field more, or one less.
fn of_three(middle: impl Fn(u64) -> Record) -> (BucketStore, SignalSource) {
    let bucket = BucketStore::new(memory(), 1 << 20);
    let store: Arc<dyn Store> = Arc::new(bucket.clone());
    let plain = |i: u64| Ok(record(i));
    let shards = [
        write_shard(&*store, (0..5).map(plain), "a", 0, &options()).unwrap(),
        write_shard(&*store, (5..10).map(|i| Ok(middle(i))), "b", 0, &options()).unwrap(),
        write_shard(&*store, (10..15).map(plain), "c", 0, &options()).unwrap(),
    ];
    let source = publish(&store, &shards, &Publication::new("three", "v1"), &options()).unwrap().source().unwrap();
    bucket.take();
    (bucket, source)
}

/// What batches of a source hold of `x`: fixed rows, or values with their types; or the error.
fn loaded(source: Arc<dyn Source>) -> sigbank::Result<(u64, u64)> {
    loaded_by(source, Options { ragged: true, ..Options::new("all", 4) })
}

fn loaded_by(source: Arc<dyn Source>, options: Options) -> sigbank::Result<(u64, u64)> {
    let (mut fixed, mut stored) = (0, 0);
    for batch in Loader::new(source, options)? {
        let batch = batch?;
        match batch.columns.last().unwrap() {
            Column::Fixed(_) => fixed += batch.rows as u64,
            Column::Stored(rows) => stored += rows.len() as u64,
            Column::Var(_) => panic!("no type"),
        }
    }
    Ok((fixed, stored))
}

#[test]
fn records_that_differ_are_told_by_name_and_then_all_are_looked_at() {
    let other = |i: u64| Record { metadata: RecordMetadata::new(format!("r{i}"), ragged(3).metadata.fields), ..ragged(3) };
    let more = |i: u64| {
        let mut record = record(i);
        let (field, data) = (ragged(3).metadata.fields.remove(0), ragged(3).data.remove(0));
        record.metadata.fields.push(FieldMetadata { name: "y".into(), ..field });
        record.data.push(data);
        record
    };
    let fewer = |i: u64| {
        let mut record = more(i);
        record.metadata.fields.remove(0);
        record.data.remove(0);
        record
    };
    type Made<'a> = &'a dyn Fn(u64) -> Record;
    let cases: [(Made<'_>, &str, (u64, u64)); 3] = [
        (&other, "field 'x' is uint8[3], and float32[2, 20] in the 10 records looked at", (0, 15)),
        (&more, "it has a field 'y', which none of the 10 records looked at has", (0, 15)),
        (&fewer, "it has a field 'y'", (0, 15)),
    ];
    for (middle, told, expected) in cases {
        let (bucket, source) = of_three(middle);
        let source = Arc::new(source);
        // Nothing is looked at beforehand where that costs requests.
        assert!(source.exact(true).unwrap().is_none());
        assert_eq!(bucket.take().get, 0);
        let e = loaded(source.clone()).unwrap_err();
        assert!(e.code() == Code::Unsupported && e.to_string().contains(told), "{e}");
        assert!(e.to_string().contains("record 'r") && e.to_string().contains("Source::exact"), "{e}");
        let exact = source.exact(true).unwrap().unwrap();
        assert_eq!(loaded(exact.clone()).unwrap(), expected);
        assert!(exact.schema_of().is_none() && exact.exact(false).unwrap().is_none());
        // A clone knows it without a request.
        bucket.take();
        source.exact(true).unwrap().unwrap();
        assert_eq!(bucket.take().get, 0);
    }
}

#[test]
fn batches_are_read_in_large_pieces_wherever_the_records_lie() {
    let dir = tempfile::tempdir().unwrap();
    let local = |root: &Path| -> Arc<dyn Store> { Arc::new(LocalStore::create(root).unwrap()) };
    let store = local(&dir.path().join("far"));
    dataset(&store, 4000, 1000, &options());
    let (bucket, everything) = (BucketStore::new(store, 1 << 20), BucketStore::new(local(Path::new("/")), 1 << 20));
    let of_all = Dataset::open_store(Arc::new(bucket.clone()), options()).unwrap();
    // A view in a store that is near, of objects that are not.
    let (near, reached) = (memory(), everything.clone());
    let reaching = SignalOptions { elsewhere: Elsewhere::new(move |_| Ok(Arc::new(reached.clone()))), ..options() };
    let all = of_all.select((0..4000).collect()).unwrap();
    let view = all.publish(&near, &Publication::new("view", "v1"), &reaching).unwrap();
    for (dataset, counted) in [(of_all, bucket), (view, everything)] {
        let source = Arc::new(dataset.source().unwrap());
        assert_eq!((source.round_trip(), source.exact(true).unwrap().is_none()), (1 << 20, true));
        for shuffle in [Shuffle::None, Shuffle::Buffer(500)] {
            counted.take();
            let (fixed, _) = loaded_by(source.clone(), Options { shuffle, ..Options::new("all", 64) }).unwrap();
            let asked = counted.take();
            // For each shard its end, where it is not open, and its records in one piece.
            assert!(fixed == 4000 && (4..=4 + 4 + 1).contains(&asked.get), "{asked:?}");
        }
    }
}
