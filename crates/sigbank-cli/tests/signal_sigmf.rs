//! `sigbank publish` on SigMF recordings.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, Said};
use serde_json::{Value, json};
use sigbank::layout::signal_dataset::{Dataset, StoredRecord};

fn publish(bench: &Bench, args: &[&str]) -> Said {
    bench.run(&[&["publish", "in", "out"], args].concat())
}

/// The records that `publish` with these arguments makes.
#[track_caller]
fn records(bench: &Bench, args: &[&str]) -> Vec<StoredRecord> {
    std::fs::remove_dir_all(bench.path("out")).ok();
    let said = publish(bench, args);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    let dataset = Dataset::open(&bench.path("out"), Default::default()).unwrap();
    (0..dataset.len()).map(|i| dataset.record(i).unwrap()).collect()
}

fn metadata(record: &StoredRecord) -> Value {
    record.metadata().metadata.to_value().unwrap()
}

/// dtype, shape, names of axes.
fn kind(record: &StoredRecord) -> (String, Vec<usize>, String) {
    let field = &record.metadata().fields[0];
    let names: Vec<_> = field.axes.iter().map(|axis| axis.name.as_str()).collect();
    (field.dtype.name(), field.shape.clone(), names.join(","))
}

fn write(bench: &Bench, name: &str, global: Value, more: Value, data: &[u8]) {
    let mut document = json!({"global": global, "captures": [], "annotations": []});
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.write(&format!("{name}.sigmf-meta"), document.to_string());
    bench.write(&format!("{name}.sigmf-data"), data);
}

/// Numbers in one byte order.
fn floats(values: &[f32], big: bool) -> Vec<u8> {
    values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }).collect()
}

fn shorts(values: &[i16], big: bool) -> Vec<u8> {
    values.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }).collect()
}

#[test]
fn datatypes_become_dtypes() {
    let values: Vec<f32> = (0..12).map(|v| v as f32 * 1.25 - 3.0).collect();
    let small: Vec<i16> = (0..12).map(|v| v * 1001 - 5000).collect();
    let bytes: Vec<u8> = (0..12).map(|v| v * 21).collect();
    for (datatype, data, dtype, shape, stored) in [
        ("cf32_le", floats(&values, false), "complex64", vec![6], floats(&values, false)),
        ("cf32_be", floats(&values, true), "complex64", vec![6], floats(&values, false)),
        ("rf32_be", floats(&values, true), "float32", vec![12], floats(&values, false)),
        ("ci16_le", shorts(&small, false), "int16", vec![6, 2], shorts(&small, false)),
        ("ci16_be", shorts(&small, true), "int16", vec![6, 2], shorts(&small, false)),
        ("ri16_le", shorts(&small, false), "int16", vec![12], shorts(&small, false)),
        ("ci8", bytes.clone(), "int8", vec![6, 2], bytes.clone()),
        ("ru8", bytes.clone(), "uint8", vec![12], bytes.clone()),
    ] {
        let bench = Bench::new();
        write(&bench, "a.b/x", json!({"core:datatype": datatype, "core:sample_rate": 4.0}), json!({}), &data);
        let found = records(&bench, &[]);
        assert_eq!(found[0].metadata().id, "a.b/x");
        let names = if shape.len() == 2 { "time,iq" } else { "time" };
        assert_eq!(kind(&found[0]), (dtype.into(), shape, names.into()), "{datatype}");
        assert_eq!(found[0].field(0), stored, "{datatype}");
        let said = metadata(&found[0]);
        assert_eq!((&said["datatype"], &said["sample_rate"]), (&json!(datatype), &json!(4.0)));
        let time = found[0].metadata().fields[0].axes[0].coordinate.clone().unwrap();
        assert_eq!((time.step.unwrap().to_string(), time.unit.unwrap()), ("0.25".into(), "s".into()));
    }
}

#[test]
fn integer_pairs_become_complex_numbers_when_asked_for() {
    let bench = Bench::new();
    let values: Vec<i16> = vec![1, -2, 3, 4, -5, 6, 7, 8];
    write(&bench, "x", json!({"core:datatype": "ci16_be", "core:num_channels": 2}), json!({}), &shorts(&values, true));
    let found = records(&bench, &["--dtype", "complex64"]);
    assert_eq!(kind(&found[0]), ("complex64".into(), vec![2, 2], "channel,time".into()));
    // Channel 0 first: 1-2j, -5+6j, then 3+4j, 7+8j.
    assert_eq!(found[0].field(0), floats(&[1.0, -2.0, -5.0, 6.0, 3.0, 4.0, 7.0, 8.0], false));
    let found = records(&bench, &[]);
    assert_eq!(kind(&found[0]), ("int16".into(), vec![2, 2, 2], "channel,time,iq".into()));
    assert_eq!(found[0].field(0), shorts(&[1, -2, -5, 6, 3, 4, 7, 8], false));
}

#[test]
fn windows_keep_the_captures_and_annotations_that_they_touch() {
    let bench = Bench::new();
    let values: Vec<f32> = (0..20).map(|v| v as f32).collect();
    let global = json!({"core:datatype": "rf32_le", "core:sample_rate": 2, "core:offset": 100, "core:trailing_bytes": 3});
    let more = json!({
        "captures": [
            {"core:sample_start": 100, "core:frequency": 1e6, "core:header_bytes": 5},
            {"core:sample_start": 110, "core:frequency": 2e6},
        ],
        "annotations": [
            {"core:sample_start": 101, "core:sample_count": 3, "core:label": "early"},
            {"core:sample_start": 108, "core:sample_count": 4, "core:label": "both"},
            {"core:sample_start": 115, "core:label": "open"},
        ],
    });
    let data = [&b"HEAD-"[..], &floats(&values, false), b"END"].concat();
    write(&bench, "x", global, more, &data);
    let found = records(&bench, &["--window", "10"]);
    let told = |record: &StoredRecord| {
        let said = metadata(record);
        let labels: Vec<_> = said["sigmf"]["annotations"].as_array().unwrap().iter().map(|a| a["core:label"].clone()).collect();
        json!([said["start"], said["center_frequency"], said["sigmf"]["captures"].as_array().unwrap().len(), labels])
    };
    assert_eq!(told(&found[0]), json!([0, 1e6, 1, ["early", "both"]]));
    assert_eq!(told(&found[1]), json!([10, 2e6, 1, ["both", "open"]]));
    assert_eq!([found[0].field(0), found[1].field(0)].concat(), floats(&values, false));
    // Of both captures no frequency is the one.
    assert_eq!(told(&records(&bench, &[])[0]), json!([null, null, 2, ["early", "both", "open"]]));
}

#[test]
fn samples_may_have_another_name() {
    let bench = Bench::new();
    let document = json!({"global": {"core:datatype": "ru8", "core:dataset": "take.bin"}});
    bench.write("d/x.sigmf-meta", document.to_string());
    bench.write("d/take.bin", [1, 2, 3]);
    bench.write("e/take.bin", [9]);
    let said = publish(&bench, &["--json"]).json();
    assert_eq!(json!([said["records"], said["others"], said["no_rate"]]), json!([1, ["e/take.bin"], 1]));
    bench.write("d/x.sigmf-meta", document.to_string().replace("take.bin", "../e/take.bin"));
    bench.run(&["publish", "in", "more"]).refused(&["x.sigmf-meta", "core:dataset"]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let good = json!({"core:datatype": "cf32_le"});
    for (global, more, data, words) in [
        (good.clone(), json!({}), &[0u8; 20][..], &["x.sigmf-data", "20 bytes", "8"][..]),
        (json!({"core:datatype": "cf32"}), json!({}), &[0; 16], &["x.sigmf-meta", "'cf32'", "_le"]),
        (json!({}), json!({}), &[0; 16], &["x.sigmf-meta", "core:datatype"]),
        (json!({"core:datatype": "cf64_le"}), json!({}), &[0; 16], &["x.sigmf-meta", "complex128"]),
        (
            json!({"core:datatype": "ru8", "core:num_channels": 0}),
            json!({}),
            &[0; 16],
            &["x.sigmf-meta", "core:num_channels is 0"],
        ),
        (json!({"core:datatype": "ru8", "core:sample_rate": -1}), json!({}), &[0; 16], &["x.sigmf-meta", "core:sample_rate"]),
        (json!({"core:datatype": "ru8", "core:trailing_bytes": 17}), json!({}), &[0; 16], &["x.sigmf-meta", "has 16 bytes"]),
        (
            good.clone(),
            json!({"captures": [{"core:header_bytes": 12}, {"core:header_bytes": 8}]}),
            &[0; 16],
            &["x.sigmf-meta", "has 16 bytes"],
        ),
        (
            good.clone(),
            json!({"captures": [{"core:sample_start": 0}, {"core:sample_start": 3}]}),
            &[0; 16],
            &["sample 3", "are 2", "cut short"],
        ),
        (good.clone(), json!({"captures": [{"core:sample_start": 0.5}]}), &[0; 16], &["captures", "'core:sample_start' is 0.5"]),
        (
            good.clone(),
            json!({"annotations": [{"core:sample_count": "2"}]}),
            &[0; 16],
            &["annotations", "core:sample_count", "\"2\""],
        ),
        (json!({"core:datatype": "ru8", "core:offset": -1}), json!({}), &[0; 16], &["x.sigmf-meta", "'core:offset' is -1"]),
        (json!({"core:datatype": "ru8", "core:sha512": "12"}), json!({}), &[0; 16], &["x.sigmf-meta", "128 hexadecimal digits"]),
        (json!([]), json!({}), &[0; 16], &["x.sigmf-meta", "'global'"]),
    ] {
        let bench = Bench::new();
        write(&bench, "x", global, more, data);
        publish(&bench, &[]).refused(words);
        assert!(bench.left().is_empty());
    }
    let bench = Bench::new();
    write(&bench, "x", good, json!({}), &[0; 16]);
    bench.write("y.sigmf-data", [0; 16]);
    publish(&bench, &[]).refused(&["y.sigmf-data", "sigmf-meta"]);
    std::fs::remove_file(bench.path("in/x.sigmf-data")).unwrap();
    std::fs::remove_file(bench.path("in/y.sigmf-data")).unwrap();
    publish(&bench, &[]).refused(&["x.sigmf-data", "samples"]);
    bench.write("x.sigmf-meta", r#"{"global": {"core:datatype": "ru8", "core:datatype": "ru8"}}"#);
    publish(&bench, &[]).refused(&["x.sigmf-meta"]);
}

/// Of the bytes 1, 2, 3.
const SHA512: &str = "27864cc5219a951a7a6e52b8c8dddf6981d098da1658d96258c870b2c88dfbcb51841aea172a28bafa6a79731165584677066045c959ed0f9929688d04defc29";

#[test]
fn samples_are_compared_with_their_checksum() {
    let bench = Bench::new();
    write(&bench, "x", json!({"core:datatype": "ru8", "core:sha512": SHA512.to_uppercase()}), json!({}), &[1, 2, 3]);
    assert_eq!(records(&bench, &[])[0].field(0), [1, 2, 3].as_slice());
    bench.write("x.sigmf-data", [1, 2, 4]);
    bench.write("a.npy", common::npy("uint8", &[2], &[1, 2]));
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    publish(&bench, &[]).refused(&["x.sigmf-data", &SHA512[..20].to_uppercase(), "core:sha512", "restore the file"]);
    assert!(bench.left().is_empty());
    let said = publish(&bench, &["--skip-bad", "--json"]).json();
    assert_eq!(json!([said["records"], said["bad"][0]["source"]]), json!([1, "x.sigmf-meta"]));
}

#[test]
fn headers_between_captures_are_left_out() {
    let bench = Bench::new();
    let global = json!({"core:datatype": "ri16_be", "core:offset": 50.0, "core:num_channels": 2, "core:trailing_bytes": 1});
    // Out of order, as no document should be.
    let captures = json!([
        {"core:sample_start": 53, "core:header_bytes": 5, "core:frequency": 2.0},
        {"core:sample_start": 50, "core:header_bytes": 2, "core:frequency": 1.0},
        {"core:sample_start": 5.4e1, "core:frequency": 3.0},
    ]);
    let data = [&b"HH"[..], &shorts(&[0, 10, 1, 11, 2, 12], true), b"HEAD-", &shorts(&[3, 13, 4, 14, 5, 15, 6, 16], true), b"T"]
        .concat();
    write(&bench, "x", global, json!({"captures": captures}), &data);
    let found = records(&bench, &[]);
    assert_eq!(kind(&found[0]), ("int16".into(), vec![2, 7], "channel,time".into()));
    assert_eq!(found[0].field(0), shorts(&[0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16], false));
    let told = |args: &[&str]| -> Vec<Value> {
        let one = |record: &StoredRecord| {
            let said = metadata(record);
            let captures = said["sigmf"]["captures"].as_array().unwrap();
            json!([said["center_frequency"], captures.iter().map(|c| c["core:frequency"].clone()).collect::<Vec<_>>()])
        };
        records(&bench, args).iter().map(one).collect()
    };
    assert_eq!(told(&["--window", "3"]), [json!([1.0, [1.0]]), json!([null, [2.0, 3.0]])]);
    let windows = records(&bench, &["--window", "2", "--hop", "2"]);
    assert_eq!(windows[1].field(0), shorts(&[2, 3, 12, 13], false));
}

#[test]
fn what_comes_without_samples_or_in_an_archive_is_told() {
    let bench = Bench::new();
    bench.write("x.sigmf-meta", json!({"global": {"core:datatype": "ru8", "core:metadata_only": true}}).to_string());
    publish(&bench, &[]).refused(&["x.sigmf-meta", "core:metadata_only", "--skip-bad"]);
    bench.write("x.sigmf-data", [1, 2]);
    assert_eq!(records(&bench, &[])[0].field(0), [1, 2].as_slice());
    bench.write("y.sigmf", "tar");
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    publish(&bench, &[]).refused(&["y.sigmf", "archive", "tar"]);
}
