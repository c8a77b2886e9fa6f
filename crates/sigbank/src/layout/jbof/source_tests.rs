use super::super::{ArrayFile, Creation, Kept};
use super::*;
use crate::convert::copy::{CopyOptions, plan, run};
use crate::layout::{Layout, contents, detect, open, read, summary};
use crate::loader::{Column, Loader, Options, Shuffle};
use crate::store::{LocalStore, MemoryStore, Store};
use crate::uri::RelPath;
use sigbank_format::array::{EncodeOptions, Format, encode, npy};
use sigbank_format::model::Array;
use std::path::{Path, PathBuf};

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}

fn array(dtype: &str, shape: &[usize], data: Vec<u8>) -> Array {
    Array::new(dtype.parse().unwrap(), shape.to_vec(), data.into()).unwrap()
}

fn add(item: &Item, name: &str, format: Format, values: &Array, metadata: &str, kept: Option<Kept>) {
    let options = EncodeOptions { name, sample_rate: Some(8000), subtype: None, lossy: false };
    let file = encode(format, values, &options).unwrap();
    let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
    item.add_array_keeping(name, &ArrayFile::new(format.extension(), &parts), &json(metadata), kept.as_ref()).unwrap();
}

fn shorts(values: &[i16]) -> Array {
    array("<i2", &[values.len()], values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

fn floats(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Three items: `x` (>i4) in all, `wav` of other lengths, `m` (mat, its shape kept) in one.
fn fill(root: &Path) -> Dataset {
    let dataset =
        Dataset::create(root, &Creation { metadata: json(r#"{"owner": "me"}"#), itemformat: Some("{n}".into()), durable: false })
            .unwrap();
    for (n, name) in ["b", "a", "c"].into_iter().enumerate() {
        let item = dataset.add_item(Some(name), &json(&format!("{{\"n\": {n}}}"))).unwrap();
        add(&item, "x", Format::Npy, &array(">i4", &[2], vec![0, 0, 1, n as u8, 0, 0, 0, 9]), r#"{"unit": "V"}"#, None);
        add(&item, "wav", Format::Wav, &shorts(&vec![-16384; n + 1]), "{}", None);
    }
    let kept = Kept { shape: vec![3], dtype: Some("float16".parse().unwrap()) };
    let halves = array("<f2", &[3], vec![0, 0x3c, 0, 0xc0, 0, 0x38]);
    add(&dataset.item("c").unwrap(), "m", Format::Mat, &halves, "{}", Some(kept));
    dataset
}

fn fresh() -> (tempfile::TempDir, PathBuf, JbofSource) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("set");
    let source = JbofSource::new(fill(&root)).unwrap();
    (dir, root, source)
}

#[test]
fn items_are_records_and_array_names_are_fields() {
    let (_dir, root, source) = fresh();
    let fields: Vec<_> = source.schema().fields.iter().map(|f| (f.name.as_str(), f.ty.to_string())).collect();
    assert_eq!(fields, [("m", "bytes".into()), ("wav", "bytes".into()), ("x", "int32[2]".into())]);
    let metadata: Vec<_> = source.schema().fields.iter().map(|f| serde_json::to_string(&f.metadata).unwrap()).collect();
    assert_eq!(metadata[0], r#"{"records":1,"ragged":true,"dtype":"float16"}"#);
    assert_eq!(metadata[1], r#"{"samplerate":8000.0,"ragged":true,"dtype":"float64"}"#);
    assert_eq!(metadata[2], r#"{"metadata":{"unit":"V"}}"#);
    assert_eq!((source.id(0), source.id(2), source.id(3)), (Some("a"), Some("c"), None));
    assert_eq!((source.ordinal("b"), source.ordinal("bb"), source.has(2, 0), source.has(1, 0)), (Some(1), None, true, false));
    assert_eq!((source.ids("all", 1..3).unwrap().concat().as_str(), source.by_id("c").unwrap()), ("bc", ("all".to_owned(), 2)));
    let e = source.by_id("bc").unwrap_err();
    assert!(e.code() == Code::NotFound && e.to_string().contains("'b', 'c'"), "{e}");
    assert_eq!(source.ids("all", 1..4).unwrap_err().code(), Code::NotFound);
    let stored = crate::layout::read_stored(&source, "all", &[2, 0], &[0]).unwrap();
    assert_eq!(stored[0][0].ty.as_ref().unwrap().to_string(), "float16[3]");
    assert_eq!((&stored[1][0].ty, stored[1][0].bytes.len()), (&None, 0));
    let rows = read(&source, "all", &[2, 0], &[0, 1, 2]).unwrap();
    assert_eq!(rows[0], [vec![0, 0x3c, 0, 0xc0, 0, 0x38], floats(&[-0.5; 3]), vec![2, 1, 0, 0, 9, 0, 0, 0]]);
    assert_eq!(rows[1], [vec![], floats(&[-0.5; 2]), vec![1, 1, 0, 0, 9, 0, 0, 0]]);
    assert_eq!(
        (source.metadata()["owner"].as_str(), source.storage().as_str()),
        (Some("me"), "arrays in files: 1 mat, 3 npy, 3 wav")
    );
    assert_eq!(source.units("all").unwrap().len(), 1);
    assert_eq!((source.unit_name("all", 0).unwrap().as_str(), source.unit_metadata("all", 0).unwrap().len()), ("a to c", 0));
    assert!(source.units("train").unwrap_err().to_string().contains("'all'"));
    let figures = source.figures().unwrap().unwrap();
    let on_disk = |files: &[&str]| files.iter().map(|file| std::fs::metadata(root.join(file)).unwrap().len()).sum::<u64>();
    let files = ["a/x.npy", "b/x.npy", "c/x.npy", "a/wav.wav", "b/wav.wav", "c/wav.wav", "c/m.mat"];
    assert_eq!((figures.value_bytes, figures.stored_bytes, figures.missing), (Some(3 * 8 + 6 * 8 + 6), on_disk(&files), 0));
    let verified = source.verify(&mut |_, _| true).unwrap();
    let documents = ["a", "b", "c"].map(|item| ["_metadata", "x", "wav"].map(|name| format!("{item}/{name}.json"))).concat();
    let documents: Vec<_> = documents.iter().map(String::as_str).chain(["c/m.json"]).collect();
    assert_eq!((verified.units, verified.records, verified.bytes), (1, 3, on_disk(&files) + on_disk(&documents)));
    assert_eq!(source.root_digest().unwrap(), format!("md5:{}", source.dataset().hash(1).unwrap()));
    assert_eq!(verified.root, Some(source.root_digest().unwrap()));
    assert_eq!(summary(&source).unwrap().layout, "jbof");
}

#[test]
fn batches_of_a_field_are_what_single_reads_are_in_every_order() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(&dir.path().join("set"), &Creation::default()).unwrap();
    for n in 0..300u16 {
        let item = dataset.add_item(Some(&format!("{n:03}")), &Json::EMPTY).unwrap();
        add(&item, "x", Format::Npy, &shorts(&vec![n as i16; 200]), "{}", None);
        if n % 3 == 0 {
            add(&item, "y", Format::Npy, &shorts(&vec![-1; usize::from(n)]), "{}", None);
        }
    }
    let source = Arc::new(JbofSource::new(dataset).unwrap());
    let units = source.units("all").unwrap();
    assert!((0..units.len()).all(|unit| units.count(unit) <= 64) && units.len() == 5, "{units:?}");
    for shuffle in [Shuffle::None, Shuffle::Buffer(50), Shuffle::Global] {
        let options = Options { shuffle, seed: 3, threads: 3, ..Options::new("all", 64) };
        let mut seen = Vec::new();
        for batch in Loader::new(source.clone(), options).unwrap() {
            let batch = batch.unwrap();
            let [Column::Fixed(x), Column::Var(y)] = &batch.columns[..] else { panic!("{batch:?}") };
            for (row, y) in x.chunks(400).zip(y) {
                let n = u16::from_le_bytes([row[0], row[1]]);
                assert!(row.chunks(2).all(|v| v == n.to_le_bytes()));
                assert_eq!(y.len(), if n % 3 == 0 { usize::from(n) * 2 } else { 0 });
                seen.push(n);
            }
        }
        assert_eq!(seen.is_sorted(), shuffle == Shuffle::None);
        seen.sort_unstable();
        assert_eq!(seen, (0..300).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_damaged_is_named_and_the_rest_is_read() {
    let (_dir, root, before) = fresh();
    std::fs::write(root.join("b/wav.wav"), b"RIFF").unwrap();
    std::fs::write(root.join("c/x.json"), b"{\"_filename\": \"../../etc/passwd\"}").unwrap();
    let text = "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}\n";
    let structured = [b"\x93NUMPY\x01\x00", &[text.len() as u8, 0][..], text.as_bytes(), &[1, 0, 0, 0]].concat();
    std::fs::write(root.join("a/s.npy"), structured).unwrap();
    std::fs::write(root.join("a/s.json"), b"{\"_filename\": \"s.npy\"}").unwrap();
    let source = JbofSource::new(Dataset::open(&root).unwrap()).unwrap();
    let types: Vec<_> = source.schema().fields.iter().map(|f| (f.name.as_str(), f.ty.to_string())).collect();
    assert_eq!(types, [("m", "bytes"), ("s", "bytes"), ("wav", "bytes"), ("x", "int32[2]")].map(|(a, b)| (a, b.to_owned())));
    let unreadable = |field: usize| source.schema().fields[field].metadata.get("unreadable").and_then(Value::as_u64);
    assert_eq!([0, 1, 2, 3].map(unreadable), [None, Some(1), Some(1), Some(1)]);
    for (ordinal, field, code, words) in [
        (1, 2, Code::Corrupt, "item \"b\", array \"wav\""),
        (2, 3, Code::NotFound, "item \"c\", array \"x\""),
        (0, 1, Code::Unsupported, "item \"a\", array \"s\""),
    ] {
        let e = read(&source, "all", &[ordinal], &[field]).unwrap_err();
        assert!(e.code() == code && e.to_string().contains(words), "{e}");
        let others: Vec<usize> = (0..4).filter(|f| *f != field).collect();
        assert_eq!(read(&source, "all", &[ordinal], &others).unwrap().len(), 1);
    }
    let e = source.verify(&mut |_, _| true).unwrap_err();
    assert!(e.to_string().contains("item \"a\", array \"s\""), "{e}");
    // Of the source that was opened before, what was a whole array is no other now.
    std::fs::write(root.join("a/x.npy"), npy::to_bytes(&shorts(&[1, 2, 3, 4])).unwrap()).unwrap();
    let e = read(&before, "all", &[0], &[2]).unwrap_err();
    assert!(
        e.code() == Code::Conflict && e.to_string().contains("int32[2] when the data set was opened, and int16[4] now"),
        "{e}"
    );
    std::fs::remove_dir_all(root.join("b")).unwrap();
    let e = read(&before, "all", &[1], &[2]).unwrap_err();
    assert!(e.code() == Code::NotFound && e.to_string().contains("open it again"), "{e}");
}

#[test]
fn every_flipped_bit_that_a_format_shows_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("set");
    let dataset = Dataset::create(&root, &Creation::default()).unwrap();
    let noise: Vec<i16> = (0..6000)
        .scan(1u32, |s, _| {
            Some({
                *s = s.wrapping_mul(1664525).wrapping_add(1013904223);
                (*s >> 18) as i16
            })
        })
        .collect();
    let item = dataset.add_item(Some("i"), &json(r#"{"a": 1}"#)).unwrap();
    add(&item, "f", Format::Flac, &shorts(&noise), "{}", None);
    add(&item, "o", Format::Ogg, &shorts(&noise), "{}", None);
    let source = JbofSource::new(dataset).unwrap();
    source.verify(&mut |_, _| true).unwrap();
    for (file, at) in [("i/f.flac", 0.9), ("i/f.flac", 0.3), ("i/o.ogg", 0.9), ("i/o.ogg", 0.6)] {
        let path = root.join(file);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[(whole.len() as f64 * at) as usize] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let e = source.verify(&mut |_, _| true).unwrap_err();
        assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with(file), "{file} {at}: {e}");
        std::fs::write(&path, &whole).unwrap();
    }
    std::fs::write(root.join("i/n.npy"), [npy::to_bytes(&shorts(&noise)).unwrap(), vec![0]].concat()).unwrap();
    std::fs::write(root.join("i/n.json"), b"{\"_filename\": \"n.npy\"}").unwrap();
    let e = source.verify(&mut |_, _| true).unwrap_err();
    assert!(e.to_string().contains("1 bytes follow") && e.to_string().contains("array \"n\""), "{e}");
    std::fs::write(root.join("i/_metadata.json"), b"{\"a\": }").unwrap();
    let e = source.verify(&mut |_, _| true).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.to_string().contains("item \"i\""), "{e}");
    assert_eq!(source.verify(&mut |_, _| false).unwrap_err().code(), Code::Conflict);
}

#[test]
fn units_are_runs_of_small_items() {
    assert_eq!(runs(&[1, 1, 1, 1, 1], 10, 2), [2, 2, 1]);
    assert_eq!(runs(&[4, 4, 4, 100, 0, 0, 11], 10, 64), [2, 1, 1, 2, 1]);
    assert_eq!(runs(&[], 10, 2), [0; 0]);
}

#[test]
fn only_data_sets_are_taken_for_some() {
    let (dir, root, _) = fresh();
    let address = |path: &Path| path.to_string_lossy().into_owned();
    let opened = |path: &Path| open(&address(path)).map(|source| source.splits()[0].records);
    assert_eq!(opened(&root).unwrap(), 3);
    let says = |path: &Path, words: &[&str]| {
        let e = open(&address(path)).unwrap_err();
        assert!(e.code() == Code::Unsupported && words.iter().all(|word| e.to_string().contains(word)), "{e}");
    };
    says(
        &root.join("a"),
        &["an item of a JBOF data set", &format!("({})", "open the folder that it lies in: ".to_owned() + &address(&root))],
    );
    says(dir.path(), &["JBOF data sets lie in this folder (set)"]);
    let loose = dir.path().join("loose");
    std::fs::create_dir(&loose).unwrap();
    std::fs::write(loose.join("_metadata.json"), b"{}").unwrap();
    says(&loose, &["dataset_info.json", "root.json", "_metadata.json", "sigbank import"]);
    std::fs::write(loose.join("x"), b"hello").unwrap();
    says(&loose.join("x"), &["zip archive", "another file"]);
    // Written before there were templates: items make it one. A damaged document is said to be.
    std::fs::write(root.join("_metadata.json"), b"{\"owner\": \"me\"}").unwrap();
    assert_eq!(opened(&root).unwrap(), 3);
    std::fs::write(root.join("_metadata.json"), b"{").unwrap();
    assert_eq!(opened(&root).unwrap_err().code(), Code::Corrupt);
    std::fs::remove_file(root.join("_metadata.json")).unwrap();
    says(&root, &["items of a JBOF data set (a, b, c)", "{\"_itemformat\": null}"]);
}

fn shared(root: &Path) -> Arc<dyn Store> {
    Arc::new(super::super::local_store(root).unwrap())
}

#[test]
fn a_data_set_is_copied_and_brought_forward_root_last() {
    let (dir, root, source) = fresh();
    std::fs::write(root.join("notes.txt"), b"mine").unwrap();
    std::fs::write(root.join("a/.DS_Store"), b"litter").unwrap();
    let from = shared(&root);
    assert_eq!(detect(&*from).unwrap(), Some(Layout::Jbof));
    let all = contents(&from).unwrap();
    let names = |objects: &[crate::layout::Object]| objects.iter().map(|o| o.path.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(names(&all.objects), "__init__.py a/wav.wav a/x.npy b/wav.wav b/x.npy c/m.mat c/wav.wav c/x.npy");
    assert_eq!((all.documents.len(), all.entrances.len(), all.root()), (10, 1, source.dataset().document_text().unwrap()));
    let away: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let todo = plan(&from, &away, &CopyOptions::default()).unwrap();
    assert_eq!(todo.todo.last().map(|object| object.path.as_str()), Some("_metadata.json"));
    run(&todo, &mut |_, _| true).unwrap();
    let hash = |store: &Arc<dyn Store>| Dataset::open_store(store.clone()).unwrap().hash(1).unwrap();
    let own = source.dataset().hash(1).unwrap();
    assert_eq!(hash(&away), own);
    // Back into a folder, where only what belongs to it is.
    let back = dir.path().join("back");
    let to = shared(&back);
    run(&plan(&away, &to, &CopyOptions::default()).unwrap(), &mut |_, _| true).unwrap();
    let dirs = LocalStore::open(&back).unwrap().list_dir(None).unwrap();
    let dirs: Vec<_> = dirs.iter().map(|entry| entry.path().to_string()).filter(|name| name != "__pycache__").collect();
    assert_eq!((dirs.join(" ").as_str(), hash(&to)), ("a b c __init__.py _metadata.json", own));
    // A further item comes with the next run; what was deleted at the source is not deleted here.
    let dataset = Dataset::open_to_write(&root, false).unwrap();
    add(&dataset.add_item(Some("d"), &Json::EMPTY).unwrap(), "x", Format::Npy, &shorts(&[1]), "{}", None);
    let update = CopyOptions { update: true, ..CopyOptions::default() };
    assert_eq!(plan(&from, &away, &CopyOptions::default()).unwrap_err().code(), Code::AlreadyExists);
    let report = run(&plan(&from, &away, &update).unwrap(), &mut |_, _| true).unwrap();
    assert_eq!((report.objects, hash(&away)), (3, dataset.hash(1).unwrap()));
    dataset.delete_item("b").unwrap();
    let kept = plan(&from, &away, &update).unwrap().kept;
    assert_eq!(kept.first().map(|path| path.as_str()), Some("b/_metadata.json"));
    away.delete(&RelPath::parse("a/x.npy").unwrap()).unwrap();
    let e = read(&JbofSource::new(Dataset::open_store(away).unwrap()).unwrap(), "all", &[0], &[2]).unwrap_err();
    assert!(e.to_string().contains("item \"a\", array \"x\""), "{e}");
}

#[test]
fn what_nobody_reads_and_two_rates_of_one_array_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("set");
    let item = Dataset::create(&root, &Creation::default()).unwrap().add_item(Some("i"), &json("{}")).unwrap();
    add(&item, "w", Format::Wav, &shorts(&[1, 2, 3]), "{}", None);
    let source = JbofSource::new(Dataset::open(&root).unwrap()).unwrap();
    let rate = item.array("w").unwrap().open(Default::default()).unwrap().info().sample_rate().unwrap();
    for said in [format!("{rate}"), format!("{rate}.5"), format!("\"{rate}\""), "null".into()] {
        std::fs::write(root.join("i/w.json"), format!("{{\"_filename\": \"w.wav\", \"samplerate\": {said}}}")).unwrap();
        let found = source.verify(&mut |_, _| true).unwrap().root;
        assert_eq!(found, Some(source.root_digest().unwrap()), "{said}");
    }
    for said in ["1", "\"fast\"", "[]", "-5.5"] {
        std::fs::write(root.join("i/w.json"), format!("{{\"_filename\": \"w.wav\", \"samplerate\": {said}}}")).unwrap();
        let e = source.verify(&mut |_, _| true).unwrap_err();
        assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with("i/w.wav"), "{e}");
        assert!(e.to_string().contains(&format!("{said}, but the file says {rate} Hz")), "{e}");
    }
    std::fs::write(root.join("i/w.json"), "{\"_filename\": \"w.wav\"}").unwrap();
    std::fs::write(root.join("i/notes.txt"), vec![7; 700_000]).unwrap();
    assert_eq!(source.verify(&mut |_, _| true).unwrap().root, Some(source.root_digest().unwrap()));
    std::fs::copy(root.join("i/w.wav"), root.join("i/w.flac")).unwrap();
    let e = source.verify(&mut |_, _| true).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.to_string().contains("no array has the file w.flac: w.json"), "{e}");
}

#[test]
fn what_is_read_is_hashed_in_whatever_order() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let orders: [&[(u64, usize)]; 5] = [
        &[],
        &[(0, 1_000_000)],
        &[(999_000, 1000), (0, 12), (8, 100), (4, 50), (300, 9)],
        &[(5, 5), (0, 5), (0, 700_000)],
        &[(0, 0)],
    ];
    for order in orders {
        let file = super::super::hash::Hashed::new(Arc::new(bytes::Bytes::from(bytes.clone())));
        for (at, len) in order {
            let mut part = vec![0; *len];
            crate::store::ReadAt::read_at(&file, *at, &mut part).unwrap();
            assert_eq!(part, bytes[*at as usize..*at as usize + len]);
        }
        assert_eq!(file.finish().unwrap(), super::super::hash::of_bytes(&bytes), "{order:?}");
    }
}
