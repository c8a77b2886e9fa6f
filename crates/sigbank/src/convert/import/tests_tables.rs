//! What tables say beside headers and paths, and tables that fit nothing.

use super::tests::{file, told, tree};
use super::*;
use crate::Code;
use crate::layout::jbof::Dataset;
use crate::query::jbof::{Catalog, Keep, Odd};
use sigbank_format::array::Format;
use std::fs;
use std::path::Path;

fn with(dir: &Path, loose: &Path, csv: &str, options: ImportOptions) -> crate::Result<ImportPlan> {
    let path = dir.join("t.csv");
    fs::write(&path, csv).unwrap();
    plan(loose, &ImportOptions { table: Some(Table::read(&path, None)?), ..options })
}

#[test]
fn every_key_of_the_header_is_as_the_header_says() {
    let (dir, loose, _) = tree(&[("a.wav", file(Format::Wav, 1)), ("n.npy", file(Format::Npy, 1))]);
    // 80 samples at 8000 Hz: 0.01 s.
    for (key, value, found) in [
        ("duration", "99", "0.01"),
        ("duration", "0.02", "0.01"),
        ("bits", "24", "16"),
        ("channels", "2", "1"),
        ("samplerate", "44100", "8000"),
    ] {
        let e = with(dir.path(), &loose, &format!("path,{key}\na.wav,{value}\n"), ImportOptions::default()).unwrap_err();
        let text = e.to_string();
        assert!(text.contains(&format!("'{key}' is {value} by its path or the table, and {found} in its header")), "{text}");
        assert!(text.contains(&format!("original_{key}")) && e.path().unwrap().ends_with("a.wav"), "{text}");
    }
    let csv = "path,samplerate,duration,bits\na.wav,8000.0,0.0,16\nn.npy,44100,0.0,8\n";
    let audio = r#"{"bits":16,"channels":1,"duration":0.01,"samplerate":8000}"#;
    let plan = with(dir.path(), &loose, csv, ImportOptions::default()).unwrap();
    assert!(told(&plan)[0].starts_with(&format!("a {audio} signal")), "{:?}", told(&plan));
    // Where there is no header, it is as the table says; neither is lost in an item that has both.
    assert_eq!(told(&plan)[1], r#"n {"bits":8,"duration":0.0,"samplerate":44100.0} signal<n.npy{}"#);
    let one = ImportOptions { item: Some("x".parse().unwrap()), array: Some("{stem}".parse().unwrap()), ..Default::default() };
    let both = with(dir.path(), &loose, "path,samplerate\na.wav,8000\nn.npy,44100\n", one).unwrap();
    let item = &both.items[0];
    assert!(!item.metadata.contains_key("samplerate") && item.metadata["bits"] == 16);
    assert_eq!((&item.arrays[0].metadata["samplerate"], &item.arrays[1].metadata["samplerate"]), (&8000.into(), &44100.into()));
}

#[test]
fn a_table_that_fits_no_file_is_refused_with_an_example() {
    let (dir, loose, _) = tree(&[("in/a.wav", file(Format::Wav, 1))]);
    for csv in ["path,v\na.wav ,1\n", "path,v\n'in/a.wav',1\n", "path,v\nx/in/a.wav,1\n"] {
        let e = with(dir.path(), &loose, csv, ImportOptions::default()).unwrap_err();
        let row = csv.lines().nth(1).unwrap().split(',').next().unwrap();
        let words = format!("no row of the table fits any file: there is a row of {row:?}, and a file \"in/a.wav\"");
        assert!(e.code() == Code::Invalid && e.to_string().contains(&words), "{e}");
    }
    let path = dir.path().join("t.csv");
    fs::write(&path, "who,v\nAnn,1\n").unwrap();
    let table = Some(Table::read(&path, Some("who")).unwrap());
    let e = plan(&loose, &ImportOptions { table, patterns: vec!["{who}/{}.wav".parse().unwrap()], ..Default::default() })
        .unwrap_err();
    assert!(e.to_string().contains("a row of \"Ann\", and a key of a file \"in\""), "{e}");
}

#[test]
fn hidden_files_are_left_out_at_every_depth() {
    let wav = file(Format::Wav, 1);
    let (_dir, loose, _) =
        tree(&[(".hid.wav", wav.clone()), ("sub/.hidden/z.wav", wav.clone()), ("sub/.y.wav", wav.clone()), ("sub/a.wav", wav)]);
    let plan = plan(&loose, &ImportOptions::default()).unwrap();
    let left: Vec<_> = plan.left_out.iter().map(|left| left.source.as_str()).collect();
    assert_eq!((left, plan.items.len()), (vec![".hid.wav", "sub/.hidden/z.wav", "sub/.y.wav"], 1));
    assert!(plan.left_out[1].reason.starts_with("it is hidden"), "{:?}", plan.left_out);
}

#[test]
fn what_differs_among_the_files_of_an_item_is_found_by_the_array() {
    let wav = file(Format::Wav, 1);
    let (dir, loose, dest) =
        tree(&[("a/mic.wav", wav.clone()), ("a/ref.wav", wav.clone()), ("b/mic.wav", wav.clone()), ("b/ref.wav", wav)]);
    let by_folder = || ImportOptions {
        item: Some("{parent}".parse().unwrap()),
        array: Some("{stem}".parse().unwrap()),
        ..Default::default()
    };
    let csv = "path,v,w\na/mic.wav,1,5\na/ref.wav,2,5\nb/mic.wav,3,\nb/ref.wav,3,6\n";
    let plan = with(dir.path(), &loose, csv, by_folder()).unwrap();
    assert_eq!(
        plan.warnings,
        [
            "'v' is not the same for all files of the item 'a': the item has it by the arrays' names, to be found by v.mic",
            "'w' is not the same for all files of the item 'b': the item has it by the arrays' names, to be found by w.ref"
        ]
    );
    run(&plan, &dest, false, &mut |_, _| ()).unwrap();
    let dataset = Dataset::open(&dest).unwrap();
    let found = |text: &str| {
        let (expr, mut catalog) = (text.parse().unwrap(), Catalog::new(Keep::Ignore));
        catalog.refresh(&dataset, &expr, 0).unwrap();
        let hits = catalog.find(&expr, Odd::Expr, None).unwrap();
        let ids: Vec<String> = hits.iter().map(|hit| catalog.table().id(hit.row).to_owned()).collect();
        (ids.join(" "), catalog.unknown(&expr).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    assert_eq!(found("v.mic == 1"), ("a".into(), String::new()));
    assert_eq!((found("v == 3").0, found("w == 5").0, found("w.ref == 6").0), ("b".into(), "a".into(), "b".into()));
    // The arrays say it too.
    let array = dataset.item("a").unwrap().array("ref").unwrap();
    assert!(array.metadata().as_str().contains("\"v\":2"), "{}", array.metadata());
    let _ = dir;
}

#[test]
fn what_a_killed_import_left_is_compared_before_it_counts() {
    let files: Vec<(String, Vec<u8>)> = (0..8).map(|n| (format!("{n:02}.wav"), file(Format::Wav, n))).collect();
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let (dir, loose, dest) = tree(&files);
    let plan = plan(&loose, &ImportOptions::default()).unwrap();
    let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(&plan, &dest, false, &mut |done, all| assert!(done < all / 2, "killed here"))
    }));
    let staged = dir.path().join(".set.importing");
    assert!(stop.is_err() && staged.is_dir());
    let there = (0..8).filter(|n| staged.join(format!("{n:02}/signal.json")).exists()).collect::<Vec<_>>();
    let zeroed = staged.join(format!("{:02}/signal.wav", there[0]));
    let size = fs::metadata(&zeroed).unwrap().len() as usize;
    fs::write(&zeroed, vec![0; size]).unwrap();
    let report = run(&plan, &dest, false, &mut |_, _| ()).unwrap();
    assert_eq!(report.resumed, there.len() as u64 - 1);
    for (name, bytes) in &files {
        assert_eq!(&fs::read(dest.join(name.trim_end_matches(".wav")).join("signal.wav")).unwrap(), bytes, "{name}");
    }
}
