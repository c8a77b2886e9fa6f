use super::*;
use crate::error::FormatErrorKind;
use proptest::prelude::*;
use serde_json::json;

fn parse(text: &str) -> Result<Json> {
    Json::parse(text.as_bytes(), &Limits::default())
}

fn corrupt(text: &str, words: &str) {
    let e = parse(text).expect_err(text);
    assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{text}");
    assert!(e.to_string().contains(words), "{text}: {e}");
}

#[test]
fn values_have_one_text() {
    for (text, one) in [
        (" { \"b\" : [ ] ,\n\t\"a\":{ }\r}", r#"{"a":{},"b":[]}"#),
        (r#"{"é":1,"z":2,"😀":3,"\uffff":4}"#, "{\"z\":2,\"é\":1,\"\u{ffff}\":4,\"😀\":3}"),
        (r#"[1E5,0.1e1,1e-7,-0,-0.0,1e-400,12345678901234567890.0]"#, "[100000.0,1.0,1e-07,0,-0.0,0.0,1.2345678901234567e+19]"),
        (r#"["\u0041\/\u00e9\ud83d\ude00\u0000\u001F\n\"\\"]"#, r#"["A/é😀\u0000\u001f\n\"\\"]"#),
        ("[123456789012345678901234567890,-1,0]", "[123456789012345678901234567890,-1,0]"),
        ("[true,false,null]", "[true,false,null]"),
        (r#"{"":{"$serde_json::private::Number":"1"}}"#, r#"{"":{"$serde_json::private::Number":"1"}}"#),
        ("\"a\u{2028}\u{7f}\"", "\"a\u{2028}\u{7f}\""),
    ] {
        let json = parse(text).unwrap();
        assert_eq!(json.as_str(), one);
        assert_eq!(parse(one).unwrap(), json);
        assert_eq!(Json::from_value(&json.to_value().unwrap()).unwrap(), json);
    }
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[1",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{a:1}",
        "{1:1}",
        "nul",
        "truee",
        "True",
        "'a'",
        "[1 2]",
        "1 2",
        "[]x",
        "]",
    ] {
        corrupt(text, "expected");
    }
    for text in ["01", "-", "1.", ".5", "+1", "1e", "1e+", "0x1", "--1", "1_0", "NaN", "Infinity", "-Infinity", "00", "-01"] {
        assert!(parse(text).is_err(), "{text}");
    }
    corrupt("\"a\nb\"", "control character");
    corrupt("\"abc", "last quote");
    corrupt(r#""\x""#, "escape");
    corrupt(r#""\u12é4""#, "hexadecimal");
    corrupt(r#""\u123"#, "hexadecimal");
    for half in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\ud800\n""#, r#""\ud800A""#] {
        corrupt(half, "surrogate");
    }
    let e = Json::parse(b"\"\xff\"", &Limits::default()).unwrap_err();
    assert!(e.kind() == FormatErrorKind::Corrupt && e.to_string().contains("UTF-8 at byte 1"), "{e}");
    corrupt("1e400", "not finite");
    corrupt("[-1e400]", "not finite");
}

#[test]
fn keys_that_come_twice_are_refused_everywhere() {
    for text in
        [r#"{"a":1,"a":1}"#, r#"{"a":1,"b":2,"a":3}"#, r#"[{"b":1,"a":[{"x":1,"\u0078":2}]}]"#, r#"{"b":1,"a":{"a":1},"b":2}"#]
    {
        corrupt(text, "comes twice");
        let mut parser = Parser::new(text.as_bytes(), &Limits::default()).unwrap();
        assert!(parser.skip().unwrap_err().to_string().contains("comes twice"), "{text}");
    }
    // The same key on other levels and in neighbours.
    assert_eq!(parse(r#"[{"a":{"a":1,"b":{"a":2}}},{"a":3}]"#).unwrap().as_str(), r#"[{"a":{"a":1,"b":{"a":2}}},{"a":3}]"#);
}

#[test]
fn limits_are_kept() {
    let with = |limits: Limits, text: &str| Json::parse(text.as_bytes(), &limits).map_err(|e| (e.kind(), e.to_string()));
    let depth = |max_depth| Limits { max_depth, ..Limits::default() };
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(with(depth(1), "3").is_ok() && with(depth(1), "{}").is_ok());
    assert_eq!(with(depth(1), "[3]").unwrap_err().0, FormatErrorKind::Limit);
    assert!(with(depth(3), r#"{"a":[{}]}"#).is_ok());
    assert_eq!(with(depth(3), r#"{"a":[{"b":1}]}"#).unwrap_err().0, FormatErrorKind::Limit);
    assert!(with(depth(usize::MAX), &nested(MAX_DEPTH)).is_ok());
    assert!(with(depth(usize::MAX), &nested(MAX_DEPTH + 1)).unwrap_err().1.contains("max_json_depth"));
    assert!(with(depth(usize::MAX), &"[".repeat(1_000_000)).is_err());

    let nodes = |max_nodes| Limits { max_nodes, ..Limits::default() };
    assert!(with(nodes(5), r#"{"a":[1,null],"b":""}"#).is_ok());
    let e = with(nodes(4), r#"{"a":[1,null],"b":""}"#).unwrap_err();
    assert!(e.0 == FormatErrorKind::Limit && e.1.contains("max_json_nodes"), "{}", e.1);

    let bytes = |max_bytes| Limits { max_bytes, ..Limits::default() };
    assert!(with(bytes(2), "10").is_ok());
    assert_eq!(with(bytes(2), "100").unwrap_err().0, FormatErrorKind::Limit);

    let digits = "9".repeat(MAX_INTEGER_DIGITS);
    assert_eq!(parse(&format!("-{digits}")).unwrap().as_str().len(), MAX_INTEGER_DIGITS + 1);
    assert_eq!(parse(&format!("{digits}9")).unwrap_err().kind(), FormatErrorKind::Limit);
}

#[test]
fn trees_that_are_no_json_are_refused() {
    let number = |text: &str| serde_json::Value::Number(text.parse().unwrap());
    assert_eq!(Json::from_value(&number("1e400")).unwrap_err().kind(), FormatErrorKind::Invalid);
    assert_eq!(Json::try_from(f64::NAN).unwrap_err().kind(), FormatErrorKind::Invalid);
    let mut deep = json!(1);
    for _ in 0..MAX_DEPTH {
        deep = json!([deep]);
    }
    assert_eq!(Json::from_value(&deep).unwrap_err().kind(), FormatErrorKind::Limit);
    assert_eq!(Json::from_value(&json!({"b": [1.5, "x"], "a": null})).unwrap().as_str(), r#"{"a":null,"b":[1.5,"x"]}"#);
}

#[test]
fn equality_is_pythons() {
    let equal = |a: &str, b: &str| parse(a).unwrap().equals(&parse(b).unwrap());
    for (a, b) in [
        ("1", "1.0"),
        ("0", "-0.0"),
        ("true", "1"),
        ("0.0", "false"),
        (r#"{"a":[1]}"#, r#"{"a":[1.0]}"#),
        ("1e22", "10000000000000000000000"),
    ] {
        assert!(equal(a, b) && equal(b, a), "{a} {b}");
    }
    for (a, b) in [
        ("9007199254740993", "9007199254740992.0"),
        ("1", "\"1\""),
        ("null", "0"),
        ("[1]", "[1,2]"),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        ("1.5", "1"),
        ("1e23", "100000000000000000000000"),
        ("{}", "[]"),
    ] {
        assert!(!equal(a, b) && !equal(b, a), "{a} {b}");
    }
}

#[test]
fn walking_tells_kinds() {
    let json = parse(r#"{"a":null,"b":true,"c":-5,"d":18446744073709551615,"e":[0.5]}"#).unwrap();
    let mut seen = Vec::new();
    json.walk()
        .object(|p, key| {
            seen.push(match (&*key, p.peek()) {
                ("a", Some(b'n')) => format!("{}", p.null()?),
                ("b", _) => format!("{}", p.boolean()?),
                ("c", Some(b'-')) => format!("{:?}", p.number()?),
                ("d", _) => format!("{}", p.unsigned()?),
                _ => format!("{}", p.json()?),
            });
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, ["true", "true", "Integer(\"-5\")", "18446744073709551615", "[0.5]"]);
    let number = |text| Parser::new(text, &Limits::default()).unwrap().unsigned().unwrap_err().to_string();
    for (text, found) in [(&b"1.0"[..], "1.0"), (b"-1", "-1"), (b"18446744073709551616", "18446744073709551616")] {
        assert!(number(text).contains(&format!("nonnegative integer at byte 0, found {found}")), "{}", number(text));
    }
}

#[test]
fn layout_is_pythons() {
    let json = parse(r#"{"a":{},"b":[],"c":[1,[2,{"d":"[,]{:}\\\""}]],"e":{"f":null}}"#).unwrap();
    let mut out = String::new();
    json.write_indented(&mut out);
    let wanted = r#"{
  "a": {},
  "b": [],
  "c": [
    1,
    [
      2,
      {
        "d": "[,]{:}\\\""
      }
    ]
  ],
  "e": {
    "f": null
  }
}"#;
    assert_eq!(out, wanted);
    assert_eq!(Json::parse(out.as_bytes(), &Limits::default()).unwrap(), json);
    assert_eq!(json.spaced_len(), r#"{"a": {}, "b": [], "c": [1, [2, {"d": "[,]{:}\\\""}]], "e": {"f": null}}"#.len());
}

/// Any tree; numbers are integers of any size and finite doubles.
fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        "-?[1-9][0-9]{0,40}".prop_map(|digits| serde_json::Value::Number(digits.parse().unwrap())),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().rev().collect())),
        ]
    })
}

/// A double in the middle of the two shortest texts that stand for it is written with the even digit, as `repr` does.
#[test]
fn a_tie_goes_to_the_even_digit() {
    for (text, written) in [
        ("1444916557408.90625", "1444916557408.9062"),
        ("-1444916557408.90625", "-1444916557408.9062"),
        ("0.1", "0.1"),
        ("9007199254740993.0", "9007199254740992.0"),
        ("5e-324", "5e-324"),
    ] {
        let mut found = String::new();
        write_float(text.parse().unwrap(), &mut found);
        assert_eq!(found, written);
    }
}

proptest! {
    #[test]
    fn any_tree_survives(value in tree()) {
        let json = Json::from_value(&value).unwrap();
        prop_assert_eq!(&Json::parse(json.as_str().as_bytes(), &Limits::default()).unwrap(), &json);
        prop_assert_eq!(&Json::from_value(&json.to_value().unwrap()).unwrap(), &json);
        // However it was laid out.
        let spaced = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(&Json::parse(spaced.as_bytes(), &Limits::default()).unwrap(), &json);
        let mut indented = String::new();
        json.write_indented(&mut indented);
        prop_assert_eq!(&Json::parse(indented.as_bytes(), &Limits::default()).unwrap(), &json);
        prop_assert!(json.equals(&json));
    }

    #[test]
    fn any_decimal_is_written_as_its_double(text in r"-?(0|[1-9][0-9]{0,16})\.[0-9]{1,17}") {
        let mut wanted = String::new();
        write_float(text.parse().unwrap(), &mut wanted);
        prop_assert_eq!(parse(&text).unwrap().to_string(), wanted);
    }

    #[test]
    fn any_text_is_read_or_refused(text in r#"[\[\]{},:"\\0-9a-eEu.+\- ]{0,40}"#) {
        if let Ok(json) = parse(&text) {
            prop_assert_eq!(&parse(json.as_str()).unwrap(), &json);
        }
        // serde_json takes the same texts, but for duplicate keys, large exponents and long numbers.
        if serde_json::from_str::<serde_json::Value>(&text).is_err() {
            prop_assert!(parse(&text).is_err());
        }
    }
}
