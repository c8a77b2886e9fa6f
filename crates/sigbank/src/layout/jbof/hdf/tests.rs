use super::export::export_in;
use super::{HdfStore, export, import};
use crate::layout::jbof::{ArrayFile, Creation, Dataset, Kept};
use crate::store::{MemoryStore, Store};
use crate::uri::RelPath;
use crate::{Code, Error};
use sigbank_format::array::{self, EncodeOptions, Format, Subtype, npy};
use sigbank_format::model::Array;
use sigbank_format::model::json::Json;
use std::path::Path;
use std::sync::Arc;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}

fn array(dtype: &str, shape: &[usize]) -> Array {
    let dtype: sigbank_format::model::DType = dtype.parse().unwrap();
    let len = shape.iter().product::<usize>() * dtype.itemsize();
    let one = dtype.kind() == sigbank_format::model::Kind::Bool;
    let data: Vec<u8> = (0..len).map(|n| if one { n as u8 % 2 } else { (n * 7 % 120) as u8 + 1 }).collect();
    Array::new(dtype, shape.to_vec(), data.into()).unwrap()
}

const DTYPES: [&str; 22] = [
    "bool", "i1", "<i2", ">i2", "<i4", ">i8", "u1", "<u2", ">u4", "<u8", "<f2", "<f4", ">f4", "<f8", "<f16", "<c8", ">c16", "S3",
    "<U2", "<M8[ns]", "<m8[s]", "V5",
];

fn of_every_kind(root: &Path) -> Dataset {
    let itemformat = Some("{a}".to_owned());
    let metadata = json(r#"{"license": "CC0", "n": null}"#);
    let dataset = Dataset::create(root, &Creation { metadata, itemformat, ..Creation::default() }).unwrap();
    let item = dataset.add_item(Some("é 1"), &json(r#"{"a": 1, "b": true, "d": {"x": [1, null]}, "s": "ü"}"#)).unwrap();
    for (i, dtype) in DTYPES.iter().enumerate() {
        for (j, shape) in [&[][..], &[3], &[2, 3], &[0, 4]].into_iter().enumerate() {
            let file = npy::to_bytes(&array(dtype, shape)).unwrap();
            item.add_array(&format!("a{i}_{j}"), &ArrayFile::new("npy", &[&file]), &json(r#"{"unit": "V"}"#)).unwrap();
        }
    }
    dataset.add_item(Some("empty"), &Json::EMPTY).unwrap();
    let audio = dataset.add_item(Some("audio"), &Json::EMPTY).unwrap();
    let samples: Vec<u8> = (0..200i32).flat_map(|n| (f64::from(n * 7919 % 8_388_608) / 8_388_608.0).to_le_bytes()).collect();
    let samples = |shape: Vec<usize>| Array::new("<f8".parse().unwrap(), shape, samples.clone().into()).unwrap();
    let cases = [
        ("w16", Format::Wav, Subtype::Pcm16, vec![200]),
        ("w24", Format::Wav, Subtype::Pcm24, vec![100, 2]),
        ("wf", Format::Wav, Subtype::Float, vec![200]),
        ("one", Format::Wav, Subtype::Pcm16, vec![200, 1]),
        ("f24", Format::Flac, Subtype::Pcm24, vec![200]),
        ("ogg", Format::Ogg, Subtype::Vorbis, vec![200]),
    ];
    for (name, format, subtype, shape) in cases {
        let array = samples(shape);
        let options = EncodeOptions { name, sample_rate: Some(8000), subtype: Some(subtype), lossy: true };
        add(&audio, name, format, &array, &options);
    }
    for (name, dtype, shape) in [("flags", "bool", &[3][..]), ("half", "<f2", &[2, 2]), ("z", "<c8", &[2, 3])] {
        add(&audio, name, Format::Mat, &array(dtype, shape), &EncodeOptions { name, ..EncodeOptions::default() });
    }
    dataset
}

fn add(item: &crate::layout::jbof::Item, name: &str, format: Format, array: &Array, options: &EncodeOptions<'_>) {
    let file = array::encode(format, array, options).unwrap();
    let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
    let kept = Kept::of(format, array, &file, name).unwrap();
    item.add_array_keeping(name, &ArrayFile::new(format.extension(), &parts), &Json::EMPTY, kept.as_ref()).unwrap();
}

/// Every array's dtype (in its order), shape and bytes, and every document but for the files' names.
fn contents(dataset: &Dataset) -> Vec<String> {
    let mut all = vec![format!("{:?} {:?}", dataset.metadata().unwrap(), dataset.itemformat().unwrap())];
    for item in dataset.items().unwrap() {
        all.push(format!("{} {}", item.name(), item.metadata().unwrap().as_str()));
        for entry in item.arrays().unwrap() {
            let mut value = super::super::value::Value::open(&entry).unwrap();
            let mut data = Vec::new();
            let place = &mut data;
            value
                .put(move |len| {
                    place.resize(len, 0);
                    Ok(place)
                })
                .unwrap();
            let order = value.reader().info().stored_dtype.is_big_endian();
            let metadata = entry.metadata().to_value().unwrap();
            all.push(format!("{} {order} {} {:?} {data:?} {:?}", entry.name(), value.dtype(), value.shape(), metadata["unit"]));
        }
    }
    all
}

#[test]
fn every_dtype_and_format_is_the_same_after_a_way_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let dataset = of_every_kind(&at("folder"));
    let expected = contents(&dataset);
    export(&dataset, &at("a.h5")).unwrap();
    let file = Dataset::open_hdf(&at("a.h5")).unwrap();
    assert_eq!(contents(&file), expected);
    let back = import(&file, &at("back")).unwrap();
    assert_eq!(contents(&back), expected);
    let names = |dataset: &Dataset| -> Vec<String> {
        dataset.item("audio").unwrap().arrays().unwrap().iter().map(|e| e.stored_name().unwrap()).collect()
    };
    assert_eq!(
        names(&file),
        ["f24.flac", "flags.mat", "half.mat", "ogg.ogg", "one.wav", "w16.wav", "w24.wav", "wf.wav", "z.mat"]
    );
    assert_eq!(
        names(&back),
        ["f24.flac", "flags.mat", "half.mat", "ogg.wav", "one.wav", "w16.wav", "w24.wav", "wf.wav", "z.mat"]
    );
    // Once more, and in batches, each but for the last of one array.
    export(&back, &at("b.h5")).unwrap();
    assert_eq!(contents(&Dataset::open_hdf(&at("b.h5")).unwrap()), expected);
    export_in(&dataset, &at("c.h5"), 1).unwrap();
    assert_eq!(contents(&Dataset::open_hdf(&at("c.h5")).unwrap()), expected);
    // Into a folder of a folder: every file as it was.
    let copy = import(&dataset, &at("copy")).unwrap();
    assert_eq!(copy.hash(1).unwrap(), dataset.hash(1).unwrap());
    assert_eq!(import(&file, &at("copy")).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 6, "nothing is left over");
}

#[test]
fn what_hdf5_cannot_hold_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(&dir.path().join("set"), &Creation::default()).unwrap();
    let item = dataset.add_item(Some("i"), &Json::EMPTY).unwrap();
    item.add_array("fine", &ArrayFile::new("npy", &[&npy::to_bytes(&array("<f4", &[3])).unwrap()]), &Json::EMPTY).unwrap();
    let structured = b"\x93NUMPY\x01\x00\x76\x00{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
    let mut structured = structured.to_vec();
    structured.resize(127, b' ');
    structured.extend_from_slice(b"\n\0\0\0\0");
    let mut nothing = npy::to_bytes(&array("S1", &[2])).unwrap();
    let at = nothing.windows(2).position(|two| two == b"S1").unwrap();
    nothing[at + 1] = b'0';
    for (name, file) in [("structured", &structured), ("none", &nothing)] {
        item.add_array(name, &ArrayFile::new("npy", &[file]), &Json::EMPTY).unwrap();
        let target = dir.path().join("x.h5");
        std::fs::write(&target, b"what was there").unwrap();
        let e: Error = export(&dataset, &target).unwrap_err();
        assert_eq!(e.code(), Code::Unsupported, "{e}");
        assert!(e.to_string().contains(&format!("the array {name:?} of the item \"i\"")), "{e}");
        assert_eq!(std::fs::read(&target).unwrap(), b"what was there");
        item.delete_array(name).unwrap();
    }
    export(&dataset, &dir.path().join("x.h5")).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_store_of_an_hdf5_file_lists_and_reads_by_ranges_and_is_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = of_every_kind(&dir.path().join("folder"));
    export(&dataset, &dir.path().join("a.h5")).unwrap();
    let memory = MemoryStore::new();
    let path = |text: &str| RelPath::parse(text).unwrap();
    let bytes = std::fs::read(dir.path().join("a.h5")).unwrap();
    memory.create(&path("a.h5"), &[&bytes]).unwrap();
    let store = HdfStore::open(memory.open_read(&path("a.h5")).unwrap()).unwrap();
    let all: Vec<_> = store.list(None).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(all.len(), 1 + 3 + 2 * (4 * DTYPES.len() + 9));
    for entry in &all {
        let whole = store.get(&entry.path).unwrap();
        assert_eq!(entry.size, whole.len() as u64, "{}", entry.path);
        let middle = whole.len() as u64 / 3..whole.len() as u64 / 2;
        let part = store.get_ranges(&entry.path, std::slice::from_ref(&middle)).unwrap();
        assert_eq!(part[0], whole.slice(middle.start as usize..middle.end as usize));
    }
    assert_eq!(store.get(&path("é 1/nothing.npy")).unwrap_err().code(), Code::NotFound);
    assert_eq!(store.get(&path("nothing/a.npy")).unwrap_err().code(), Code::NotFound);
    assert_eq!(store.delete(&path("empty/_metadata.json")).unwrap_err().code(), Code::ReadOnly);
    assert!(store.list(Some(&path("nothing"))).unwrap().next().is_none());
    let shared = Dataset::open_store(Arc::new(store)).unwrap();
    assert_eq!(shared.item_names().unwrap(), ["audio", "empty", "é 1"]);
    // Cut short and damaged files are errors.
    for keep in [0, 7, 100, bytes.len() / 2] {
        memory.create(&path(&format!("{keep}.h5")), &[&bytes[..keep]]).unwrap();
        let opened = HdfStore::open(memory.open_read(&path(&format!("{keep}.h5"))).unwrap());
        let read = opened.and_then(|store| store.list(None)?.try_for_each(|e| store.get(&e?.path).map(drop)));
        assert!(matches!(read.unwrap_err().code(), Code::Corrupt | Code::Unsupported), "{keep}");
    }
}

/// A file is damaged at many places: what comes of it is data or an error, and never memory for what is not there.
#[test]
fn damaged_files_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = of_every_kind(&dir.path().join("folder"));
    export(&dataset, &dir.path().join("a.h5")).unwrap();
    let mut bytes = std::fs::read(dir.path().join("a.h5")).unwrap();
    let (mut refused, mut at) = (0, 11);
    for n in 0..150usize {
        at = (at * 7919 + 13) % bytes.len();
        let old = std::mem::replace(&mut bytes[at], [0, 0xff, 0x80][n % 3]);
        let memory = MemoryStore::new();
        let path = RelPath::parse("a.h5").unwrap();
        memory.create(&path, &[&bytes]).unwrap();
        let opened = HdfStore::open(memory.open_read(&path).unwrap());
        let read = opened.and_then(|store| store.list(None)?.try_for_each(|entry| store.get(&entry?.path).map(drop)));
        refused += u32::from(read.is_err());
        bytes[at] = old;
    }
    assert!(refused > 2, "{refused}");
}
