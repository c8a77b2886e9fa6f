//! Columns say what rows say, also after a way through a file.

use super::tests::{any_expr, any_fields, any_metadata, json};
use super::*;
use proptest::prelude::*;
use sigbank_format::model::json::Json;
use std::path::Path;

fn table(rows: &[(Json, Vec<Field>)]) -> Table {
    let mut builder = TableBuilder::described();
    for (n, (metadata, fields)) in rows.iter().enumerate() {
        let (id, split) = (format!("r{n:03}"), if n % 3 == 0 { "test" } else { "train" });
        builder.push(&Record::new(&id, metadata).with_fields(fields).in_split(split), n as u128);
    }
    builder.finish()
}

fn by_rows(rows: &[(Json, Vec<Field>)], expr: &Expr) -> Vec<usize> {
    let holds = |(n, (metadata, fields)): (usize, &(Json, Vec<Field>))| {
        let (id, split) = (format!("r{n:03}"), if n % 3 == 0 { "test" } else { "train" });
        expr.matches(&Record::new(&id, metadata).with_fields(fields).in_split(split)).unwrap().then_some(n)
    };
    rows.iter().enumerate().filter_map(holds).collect()
}

fn through_a_file(table: &Table) -> Table {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.parquet");
    table.save(&path, "test").unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    Table::open(&path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn columns_select_what_rows_do(
        rows in prop::collection::vec((any_metadata(), any_fields()), 0..60),
        exprs in prop::collection::vec(any_expr(), 1..8),
    ) {
        let made = table(&rows);
        let opened = through_a_file(&made);
        for expr in exprs {
            let expected = by_rows(&rows, &expr);
            prop_assert_eq!(made.select(&expr).unwrap(), expected.clone(), "{}", expr);
            prop_assert_eq!(opened.select(&expr).unwrap(), expected, "from the file: {}", expr);
        }
        for (row, (metadata, fields)) in rows.iter().enumerate() {
            prop_assert_eq!(opened.metadata(row).unwrap(), metadata.as_str());
            prop_assert_eq!(&opened.fields(row).unwrap(), fields);
            prop_assert_eq!(opened.stamps().unwrap()[row], row as u128);
        }
        prop_assert_eq!(opened.counted_keys(), made.counted_keys());
        let columns = |table: &Table| -> Vec<_> {
            let columns = table.loaded_columns().unwrap().into_iter();
            columns.map(|(key, column)| (key.to_owned(), column.values.clone(), column.present.clone(), column.exact)).collect()
        };
        let kept: Vec<_> = columns(&opened).iter().map(|(key, ..)| key.clone()).collect();
        prop_assert_eq!(columns(&opened), columns(&made).into_iter().filter(|(key, ..)| kept.contains(key)).collect::<Vec<_>>());
    }
}

/// Metadata with few keys that nearly all rows have, of mixed kinds.
fn rows(count: usize) -> Vec<(Json, Vec<Field>)> {
    let row = |n: usize| {
        let odd = match n % 7 {
            0 => "null".to_owned(),
            1 => "[1, 2]".to_owned(),
            2 => format!("\"{n}\""),
            _ => n.to_string(),
        };
        let text = format!(
            "{{\"n\": {n}, \"x\": {}, \"speaker\": \"s{}\", \"voiced\": {}, \"mixed\": {odd}, \"id\": {n}, \"Speaker\": 1, \"half\": {}}}",
            n as f64 / 4.0,
            n % 5,
            n.is_multiple_of(2),
            if n.is_multiple_of(2) { n.to_string() } else { format!("{n}.5") },
        );
        (json(&text), vec![])
    };
    (0..count).map(row).collect()
}

#[test]
fn columns_are_typed_and_what_they_lack_is_found() {
    let rows = rows(300);
    let made = table(&rows);
    let kinds: Vec<_> = made.loaded_columns().unwrap().into_iter().map(|(key, c)| (key, c.kind().word(), c.exact)).collect();
    let expected = [
        ("Speaker", "int", true),
        ("half", "float", true),
        ("id", "int", true),
        ("mixed", "text", false),
        ("n", "int", true),
        ("speaker", "text", true),
        ("voiced", "bool", true),
        ("x", "float", true),
    ];
    assert_eq!(kinds, expected);
    let opened = through_a_file(&made);
    // Their names would differ from others in nothing but case, or are columns of ours.
    assert_eq!(
        opened.loaded_columns().unwrap().iter().map(|(key, _)| *key).collect::<Vec<_>>(),
        ["Speaker", "half", "mixed", "n", "voiced", "x"]
    );
    for text in [
        "mixed == null",
        "mixed == [1, 2]",
        "mixed > 200",
        "mixed == '2'",
        "metadata['id'] == 7",
        "speaker == 's3' and voiced = true",
        "half < 1",
    ] {
        let expr: Expr = text.parse().unwrap();
        let expected = by_rows(&rows, &expr);
        assert!(!expected.is_empty());
        assert_eq!((made.select(&expr).unwrap(), opened.select(&expr).unwrap()), (expected.clone(), expected), "{text}");
    }
    assert_eq!((opened.ordinal(0).unwrap(), opened.ordinal(3).unwrap(), opened.ordinal(4).unwrap()), (0, 1, 2));
    assert_eq!((opened.split(3).unwrap(), opened.id(3)), ("test", "r003"));
}

#[test]
fn every_comparison_of_columns_is_that_of_rows() {
    let row = |n: i32| {
        let optional = if n % 4 == 0 { String::new() } else { format!(", \"some\": {n}") };
        json(&format!("{{\"int\": {n}, \"float\": {n}.5, \"text\": \"t{n}\", \"bool\": {}{optional}}}", n > 0))
    };
    let rows: Vec<_> = (-3..4).map(|n| (row(n), vec![])).collect();
    let (made, mut compared) = (table(&rows), 0);
    for key in ["int", "float", "text", "bool", "some", "none"] {
        for op in ["==", "!=", "<", "<=", ">", ">="] {
            for value in [
                "1",
                "1.0",
                "1.5",
                "-2.5",
                "'t1'",
                "'t'",
                "true",
                "null",
                "9007199254740993",
                "123456789012345678901234567890",
                "[1]",
                "int",
            ] {
                for text in [format!("{key} {op} {value}"), format!("not {value} {op} {key}")] {
                    let expr = text.parse().unwrap();
                    let expected = by_rows(&rows, &expr);
                    compared += expected.len();
                    assert_eq!(made.select(&expr).unwrap(), expected, "{text}");
                }
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn large_integers_stay_exact() {
    let values = ["9007199254740993", "0.5", "9007199254740992.0", "9223372036854775808", "-1"];
    let rows: Vec<_> = values.iter().map(|value| (json(&format!("{{\"n\": {value}}}")), vec![])).collect();
    for rows in [rows.clone(), rows.iter().rev().cloned().collect()] {
        let (made, opened) = (table(&rows), through_a_file(&table(&rows)));
        for text in
            ["n == 9007199254740993", "n > 9007199254740992", "n >= 9007199254740992", "n == 9223372036854775808", "n < 1"]
        {
            let expr = text.parse().unwrap();
            let expected = by_rows(&rows, &expr);
            assert_eq!((made.select(&expr).unwrap(), opened.select(&expr).unwrap()), (expected.clone(), expected), "{text}");
        }
    }
}

#[test]
fn a_damaged_file_is_told_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.parquet");
    table(&rows(40)).save(&path, "test").unwrap();
    let whole = std::fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7).chain(whole.len() - 60..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let error = Table::open(&path).unwrap_err();
        assert!([crate::Code::Corrupt, crate::Code::Unsupported].contains(&error.code()), "byte {at}: {error}");
        assert!(error.path().unwrap().ends_with("index.parquet"));
    }
    for len in [0, 3, 8, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(Table::open(&path).unwrap_err().code(), crate::Code::Corrupt, "{len} bytes");
    }
    assert_eq!(Table::open(Path::new("/no/such/index")).unwrap_err().code(), crate::Code::NotFound);
}

#[test]
fn a_key_that_the_records_own_name_hides_is_told() {
    let table = table(&[(json(r#"{"split": "train", "id": 1}"#), vec![])]);
    let told = table.unknown(&"split = 'train' or id = 1".parse().unwrap()).unwrap();
    let told: Vec<_> = told.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            r#"id is the record's own, and the key "id" that records have is metadata["id"]"#,
            r#"split is the record's own, and the key "split" that records have is metadata["split"]"#
        ]
    );
    assert_eq!(table.select(&r#"metadata["split"] = 'train' and metadata.id = 1"#.parse().unwrap()).unwrap(), [0]);
    for values in ["['odd key'] == 2", "'a.b' = 1", "1 < 2 and a = 1", "'x' in ['x']", "not 'x' contains 'x'"] {
        let refused = values.parse::<crate::query::Expr>().unwrap_err();
        assert!(refused.to_string().contains("metadata['odd key']"), "{refused}");
    }
    assert!("'x' in tags and 1 < a < 3".parse::<crate::query::Expr>().is_ok());
}

#[test]
fn what_no_record_has_is_told() {
    let table = table(&[(json(r#"{"snr": 1}"#), vec![Field::new("voice", "float32", &[])])]);
    let told =
        |text: &str| -> Vec<String> { table.unknown(&text.parse().unwrap()).unwrap().iter().map(ToString::to_string).collect() };
    assert_eq!(told("snrr > 3 and snr > 3"), [r#"no record has the key "snrr": did you mean "snr"?"#]);
    assert_eq!(
        told("gain = 3 and has(voyce)"),
        [r#"no record has the key "gain""#, r#"no record has the field "voyce": did you mean "voice"?"#]
    );
    assert!(told("has(voice) and id = 'a' and split = 'b'").is_empty());
    assert!(TableBuilder::default().finish().unknown(&"x = 1".parse().unwrap()).unwrap().is_empty());
    let error = TableBuilder::default().finish().select(&"has(x)".parse().unwrap()).unwrap_err();
    assert!(error.message().contains("does not know"));
}

#[test]
fn rare_keys_cost_no_columns() {
    let rows: Vec<_> = (0..2000).map(|n| (json(&format!("{{\"k{n}\": {n}, \"n\": {n}}}")), vec![])).collect();
    let table = table(&rows);
    assert_eq!(table.loaded_columns().unwrap().iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["n"]);
    assert_eq!(table.select(&"k7 == 7 or k8 > 8 or k9 >= 9".parse().unwrap()).unwrap(), [7, 9]);
}
