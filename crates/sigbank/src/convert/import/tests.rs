use super::*;
use crate::Code;
use crate::layout::jbof::Dataset;
use sigbank_format::array::{EncodeOptions, Format, encode, npy};
use sigbank_format::model::Array;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn file(format: Format, n: u8) -> Vec<u8> {
    let array = Array::new("<i2".parse().unwrap(), vec![80], vec![n; 160].into()).unwrap();
    let options = EncodeOptions { name: "x", sample_rate: Some(8000), subtype: None, lossy: false };
    let file = encode(format, &array, &options).unwrap();
    file.parts.iter().flat_map(|part| part.to_vec()).collect()
}

pub(super) fn tree(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let loose = dir.path().join("loose");
    for (name, bytes) in files {
        let path = loose.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let dest = dir.path().join("set");
    (dir, loose, dest)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn patterns(all: &[&str]) -> ImportOptions {
    ImportOptions { patterns: all.iter().map(|pattern| pattern.parse().unwrap()).collect(), ..Default::default() }
}

/// Each item: its name, its metadata, its arrays with theirs.
pub(super) fn told(plan: &ImportPlan) -> Vec<String> {
    let text = |object: &serde_json::Map<String, serde_json::Value>| serde_json::to_string(object).unwrap();
    let array = |array: &PlannedArray| format!("{}<{}{}", array.name, array.source, text(&array.metadata));
    let item = |item: &PlannedItem| {
        format!("{} {} {}", item.name, text(&item.metadata), item.arrays.iter().map(array).collect::<Vec<_>>().join(" "))
    };
    plan.items.iter().map(item).collect()
}

#[test]
fn a_folder_becomes_a_data_set_byte_for_byte() {
    let wav = file(Format::Wav, 1);
    let (dir, loose, dest) = tree(&[
        ("ann/1.wav", wav.clone()),
        ("ann/2.WAV", file(Format::Wav, 2)),
        ("bob/1.flac", wav.clone()),
        ("bob/x.npy", npy::to_bytes(&Array::new("|u1".parse().unwrap(), vec![2], vec![1, 2].into()).unwrap()).unwrap()),
        ("bob/m.mat", file(Format::Mat, 3)),
        ("readme.txt", vec![1]),
        ("bob/.DS_Store", vec![1]),
    ]);
    let plan = plan(&loose, &ImportOptions::default()).unwrap();
    let audio = r#"{"bits":16,"channels":1,"duration":0.01,"samplerate":8000}"#;
    let of_array = r#"{"channels":1,"bits":16,"samplerate":8000,"duration":0.01}"#;
    assert_eq!(
        told(&plan),
        [
            format!("ann-1 {audio} signal<ann/1.wav{of_array}"),
            format!("ann-2 {audio} signal<ann/2.WAV{of_array}"),
            format!("bob-1 {audio} signal<bob/1.flac{of_array}"),
            "bob-m {} signal<bob/m.mat{}".into(),
            "bob-x {} signal<bob/x.npy{}".into(),
        ]
    );
    assert_eq!((plan.left_out.len(), plan.left_out[0].source.as_str(), plan.litter), (1, "readme.txt", 1));
    let mut heard = Vec::new();
    let report = run(&plan, &dest, false, &mut |done, all| heard.push((done, all))).unwrap();
    assert_eq!((report.items, report.arrays, report.bytes, report.resumed), (5, 5, plan.bytes(), 0));
    assert_eq!((heard.first(), heard.last()), (Some(&(0, report.bytes)), Some(&(report.bytes, report.bytes))));
    assert_eq!(
        (names(dir.path()), names(&dest.join("bob-1"))),
        (vec!["loose".to_owned(), "set".into()], vec!["_metadata.json".to_owned(), "signal.json".into(), "signal.wav".into()])
    );
    assert_eq!(fs::read(dest.join("bob-1/signal.wav")).unwrap(), wav);
    let dataset = Dataset::open(&dest).unwrap();
    assert_eq!(dataset.item("bob-1").unwrap().metadata().unwrap().as_str(), audio);
    assert_eq!(dataset.item("bob-m").unwrap().array("signal").unwrap().elements().unwrap().data().len(), 160);
    assert!(!dest.join("__pycache__/sigbank/import").exists());
    let e = run(&plan, &dest, false, &mut |_, _| ()).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && names(dir.path()) == ["loose", "set"], "{e}");
    assert_eq!(run(&plan, &loose.join("in"), false, &mut |_, _| ()).unwrap_err().code(), Code::Invalid);
    assert_eq!(super::plan(&dest, &ImportOptions::default()).unwrap_err().code(), Code::Unsupported);
}

#[test]
fn paths_and_tables_say_what_is_of_an_item_and_what_of_an_array() {
    let (dir, loose, _) = tree(&[
        ("ann/01_mic.wav", file(Format::Wav, 1)),
        ("ann/01_ref.wav", file(Format::Wav, 2)),
        ("bob/02_mic.wav", file(Format::Wav, 3)),
        ("odd.wav", file(Format::Wav, 4)),
    ]);
    let table = dir.path().join("t.csv");
    fs::write(&table, "speaker,age,take\nann,30,1\ncat,5,9\n").unwrap();
    let by_take = ImportOptions {
        table: Some(Table::read(&table, Some("speaker")).unwrap()),
        ..patterns(&["{speaker}/{take:int}_{array}.wav"])
    };
    let plan = super::plan(&loose, &by_take).unwrap();
    let of_array = r#"{"channels":1,"bits":16,"samplerate":8000,"duration":0.01}"#;
    let header = r#""bits":16,"channels":1,"duration":0.01,"samplerate":8000}"#;
    assert_eq!(
        told(&plan),
        [
            format!(
                "ann-1 {{\"age\":30,\"speaker\":\"ann\",\"take\":1,{header} mic<ann/01_mic.wav{of_array} ref<ann/01_ref.wav{of_array}"
            ),
            format!("bob-2 {{\"speaker\":\"bob\",\"take\":2,{header} mic<bob/02_mic.wav{of_array}"),
        ]
    );
    assert_eq!((plan.left_out[0].source.as_str(), plan.left_out[0].reason.as_str()), ("odd.wav", "its path is of no pattern"));
    assert_eq!((&plan.unused_rows[..], &plan.without_row[..]), (&["cat".to_owned()][..], &["bob/02_mic.wav".to_owned()][..]));
    // What differs within an item is said of its arrays.
    let by_speaker = ImportOptions {
        item: Some("{speaker}".parse().unwrap()),
        array: Some("{take}_{stem}".parse().unwrap()),
        ..patterns(&["{speaker}/{take}_{kind}"])
    };
    let plan = super::plan(&loose, &by_speaker).unwrap();
    let arrays: Vec<_> = plan.items[0]
        .arrays
        .iter()
        .map(|array| (array.name.as_str(), array.metadata.get("kind").unwrap().as_str().unwrap()))
        .collect();
    assert_eq!(arrays, [("01_01_mic", "mic"), ("01_01_ref", "ref")]);
    assert_eq!(
        serde_json::to_string(&plan.items[0].metadata).unwrap(),
        format!("{{\"speaker\":\"ann\",\"take\":\"01\",{header}")
    );
    fs::write(&table, "speaker,take\nann,7\n").unwrap();
    let contradicting = ImportOptions { table: Some(Table::read(&table, Some("speaker")).unwrap()), ..by_take };
    let e = super::plan(&loose, &contradicting).unwrap_err();
    assert!(e.to_string().contains("'take' is 1 by the path, and 7 in the table"), "{e}");
}

#[test]
fn names_that_meet_are_refused_with_both_files_and_bad_files_by_name() {
    let (_dir, loose, dest) = tree(&[("a-b/c.wav", file(Format::Wav, 1)), ("a/b-c.wav", file(Format::Wav, 2))]);
    let e = plan(&loose, &ImportOptions::default()).unwrap_err();
    assert_eq!(e.code(), Code::AlreadyExists);
    assert!(e.to_string().contains("'a-b/c.wav' and 'a/b-c.wav' would both be the array 'signal' of the item 'a-b-c'"), "{e}");
    let by_parent = ImportOptions { item: Some("{parent}_{stem}".parse().unwrap()), ..Default::default() };
    assert_eq!(plan(&loose, &by_parent).unwrap().items.len(), 2);
    for (template, words) in [("{speaker}", "'speaker'"), ("{ext}/../x", ""), (".{stem}", "begin with a dot")] {
        let options = ImportOptions { item: Some(template.parse().unwrap()), ..Default::default() };
        match plan(&loose, &options) {
            Err(e) => assert!(e.code() == Code::Invalid || e.code() == Code::AlreadyExists, "{e}"),
            Ok(plan) => panic!("{template}: {:?}", told(&plan)),
        }
        let _ = words;
    }
    fs::write(loose.join("a/cut.wav"), b"RIFF\x10\0\0\0WAVE").unwrap();
    fs::write(loose.join("a/text.npy"), b"hello").unwrap();
    let e = plan(&loose, &by_parent).unwrap_err();
    assert!(
        e.path().unwrap().ends_with("a/cut.wav") && e.to_string().contains("2 files cannot be read: a/cut.wav, a/text.npy"),
        "{e}"
    );
    let left = plan(&loose, &ImportOptions { skip_bad: true, ..by_parent }).unwrap();
    let sources: Vec<_> = left.left_out.iter().map(|skipped| skipped.source.as_str()).collect();
    assert_eq!((sources, left.items.len()), (vec!["a/cut.wav", "a/text.npy"], 2));
    assert!(!dest.exists());
    let none = plan(&loose, &patterns(&["nothing"])).unwrap_err();
    assert!(none.to_string().contains("no file is left to import: 4 are left out"), "{none}");
}

#[test]
fn a_killed_import_goes_on_where_it_was() {
    let files: Vec<(String, Vec<u8>)> = (0..20).map(|n| (format!("{n:02}.wav"), file(Format::Wav, n))).collect();
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let (dir, loose, dest) = tree(&files);
    let whole = plan(&loose, &ImportOptions::default()).unwrap();
    let copy = dir.path().join("copy");
    run(&whole, &copy, true, &mut |_, _| ()).unwrap();
    let hash = |path: &Path| Dataset::open(path).unwrap().hash(1).unwrap();
    // As it is left by a kill: some items whole, one without its array, one whose array has no document yet.
    let staged = dir.path().join(".set.importing");
    let killed = || {
        let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&whole, &dest, false, &mut |done, all| assert!(done < all / 2, "killed here"))
        }));
        assert!(stop.is_err() && staged.is_dir() && !dest.exists());
    };
    killed();
    let there = names(&staged);
    let some: Vec<_> = there.iter().filter(|name| name.chars().all(|c| c.is_ascii_digit())).collect();
    fs::remove_file(staged.join(some[0]).join("signal.wav")).unwrap();
    fs::remove_file(staged.join(some[0]).join("signal.json")).unwrap();
    let report = run(&whole, &dest, false, &mut |_, _| ()).unwrap();
    assert_eq!((report.items, report.resumed), (20, some.len() as u64 - 1));
    assert_eq!((hash(&dest), names(dir.path())), (hash(&copy), vec!["copy".to_owned(), "loose".into(), "set".into()]));
    fs::remove_dir_all(&dest).unwrap();
    // What changed meanwhile is another plan, which begins anew.
    killed();
    fs::write(loose.join("00.wav"), file(Format::Wav, 99)).unwrap();
    let changed = plan(&loose, &ImportOptions::default()).unwrap();
    assert_eq!(run(&changed, &dest, false, &mut |_, _| ()).unwrap().resumed, 0);
    assert_eq!(fs::read(dest.join("00/signal.wav")).unwrap(), file(Format::Wav, 99));
    fs::remove_dir_all(&dest).unwrap();
    fs::write(loose.join("07.wav"), b"short").unwrap();
    let e = run(&changed, &dest, false, &mut |_, _| ()).unwrap_err();
    assert!(e.code() == Code::Conflict && e.path().unwrap().ends_with("07.wav") && !dest.exists(), "{e}");
    let lock = fs::File::create(dir.path().join(".set.importing.lock")).unwrap();
    lock.try_lock().unwrap();
    let e = run(&whole, &dest, false, &mut |_, _| ()).unwrap_err();
    assert!(e.to_string().contains("another import"), "{e}");
}

#[test]
fn what_the_table_says_of_samples_must_be_what_the_header_says() {
    let (dir, loose, _) = tree(&[("a.wav", file(Format::Wav, 1)), ("b.wav", file(Format::Wav, 2))]);
    let rate = plan(&loose, &ImportOptions::default()).unwrap().items[0].metadata["samplerate"].clone();
    let table = dir.path().join("t.csv");
    let with = |text: String, skip_bad| {
        fs::write(&table, text).unwrap();
        plan(&loose, &ImportOptions { table: Some(Table::read(&table, None).unwrap()), skip_bad, ..Default::default() })
    };
    let same = with(format!("path,samplerate,snr\na.wav,{rate}.0,3\nb.wav,{rate},4\n"), false).unwrap();
    assert_eq!(same.items[0].metadata["samplerate"].as_f64(), rate.as_f64());
    let other = format!("path,samplerate\na.wav,{rate}\nb.wav,44101\n");
    let e = with(other.clone(), false).unwrap_err();
    assert!(e.path().unwrap().ends_with("b.wav"), "{e}");
    assert!(e.to_string().contains(&format!("'samplerate' is 44101 by its path or the table, and {rate} in its header")), "{e}");
    let left = with(other, true).unwrap();
    assert_eq!((left.items.len(), left.left_out[0].source.as_str()), (1, "b.wav"));
    let doubt = with("path,snr\na.wav,3\nb.wav,?\nc.wav,4\n".into(), false).unwrap();
    assert_eq!((doubt.warnings.len(), &doubt.items[0].metadata["snr"]), (1, &"3".into()));
}

#[test]
fn files_that_are_damaged_behind_their_headers_are_left_out_on_demand() {
    let ramp: Vec<u8> = (0..20_000u32).flat_map(|n| ((n * n) as i16).to_le_bytes()).collect();
    let array = Array::new("<i2".parse().unwrap(), vec![20_000], ramp.into()).unwrap();
    let options = EncodeOptions { name: "x", sample_rate: Some(8000), subtype: None, lossy: false };
    let flac = encode(Format::Flac, &array, &options).unwrap().parts.concat();
    let mut torn = flac.clone();
    let middle = torn.len() / 2;
    torn[middle..middle + 64].fill(0x55);
    let (_dir, loose, dest) = tree(&[("good.flac", flac), ("torn.flac", torn)]);
    assert_eq!(plan(&loose, &ImportOptions::default()).unwrap().items.len(), 2);
    let left = plan(&loose, &ImportOptions { skip_bad: true, ..Default::default() }).unwrap();
    assert_eq!((left.items.len(), left.left_out.len(), left.left_out[0].source.as_str()), (1, 1, "torn.flac"));
    run(&left, &dest, false, &mut |_, _| ()).unwrap();
    assert_eq!(Dataset::open(&dest).unwrap().item_names().unwrap(), ["good"]);
}
