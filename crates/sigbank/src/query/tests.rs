//! The language.

use super::*;
use proptest::prelude::*;

pub(super) fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}

fn any_scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        (-3i64..4).prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        prop_oneof![Just("1.0"), Just("-0.0"), Just("9007199254740992.0"), Just("9007199254740993"), Just("1e300")]
            .prop_map(str::to_owned),
        prop_oneof![Just("123456789012345678901234567890"), Just("-123456789012345678901234567890")].prop_map(str::to_owned),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(|x| Json::try_from(x).unwrap().to_string()),
        "[abé\"'\\\\]{0,3}".prop_map(|text| Json::from(text.as_str()).to_string()),
    ]
}

/// Values, small ones often so that they meet.
pub(super) fn any_json() -> impl Strategy<Value = Json> {
    let deeper = any_scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|m| format!("{{{}}}", m.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect::<Vec<_>>().join(","))),
        ]
    });
    deeper.prop_map(|text| json(&text))
}

/// Keys that metadata have and lack, words of the language, odd ones.
fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c d"), Just("in"), Just("é"), Just("zz"), Just("id")].prop_map(str::to_owned)
}

pub(super) fn any_metadata() -> impl Strategy<Value = Json> {
    prop::collection::btree_map(any_key().prop_filter("never there", |key| key != "zz"), any_json(), 0..5).prop_map(|members| {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("{}:{value}", Json::from(key.as_str()))).collect();
        json(&format!("{{{}}}", members.join(",")))
    })
}

pub(super) fn any_fields() -> impl Strategy<Value = Vec<Field>> {
    let field = |name: &'static str| {
        (prop::sample::select(vec!["complex64", "float32"]), prop::collection::vec(0u64..4, 0..3), prop::option::of(1u32..4))
            .prop_map(move |(dtype, shape, rate)| Field { sample_rate: rate.map(f64::from), ..Field::new(name, dtype, &shape) })
    };
    prop_oneof![Just(vec![]), field("iq").prop_map(|f| vec![f]), (field("a b"), field("iq")).prop_map(|(a, b)| vec![a, b])]
}

fn any_path() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![any_key().prop_map(Step::Key), (-2i64..2).prop_map(Step::Index)];
    (any_key(), prop::collection::vec(step, 0..2)).prop_map(|(key, mut rest)| {
        rest.insert(0, Step::Key(key));
        rest
    })
}

fn any_literal() -> impl Strategy<Value = Json> {
    any_json().prop_filter("objects are no literals", |json| !json.as_str().contains('{'))
}

fn any_term() -> impl Strategy<Value = Term> {
    use expr::Property::*;
    let property = prop::sample::select(vec![DType, Shape, Dimension(0), Dimension(-1), Rank, Length, SampleRate]);
    prop_oneof![
        4 => any_path().prop_map(Term::Path),
        2 => any_literal().prop_map(Term::Literal),
        1 => prop::sample::select(vec![Term::Id, Term::Split]),
        1 => (prop::sample::select(vec!["iq", "a b", "has"]), property).prop_map(|(name, p)| Term::Field(name.to_owned(), p)),
    ]
}

fn any_test() -> impl Strategy<Value = (Test, bool)> {
    use expr::{Op::*, Pattern};
    let op = prop::sample::select(vec![Equal, Unequal, Less, AtMost, Greater, AtLeast]);
    prop_oneof![
        4 => (op, any_term()).prop_map(|(op, term)| (Test::Compare(op, term), false)),
        2 => (prop::collection::vec(any_literal(), 0..4), any::<bool>()).prop_map(|(among, not)| (Test::In(among), not)),
        1 => (any_path(), any::<bool>()).prop_map(|(path, not)| (Test::Within(Term::Path(path)), not)),
        1 => (any_literal(), any::<bool>()).prop_map(|(part, not)| (Test::Contains(part), not)),
        1 => ("[ab\"]{0,2}", any::<bool>()).prop_map(|(part, not)| (Test::Starts(part), not)),
        1 => ("[ab\"]{0,2}", any::<bool>()).prop_map(|(part, not)| (Test::Ends(part), not)),
        1 => ("[ab%_]{0,3}", any::<bool>()).prop_map(|(part, not)| (Test::Like(Pattern::like(&part).unwrap()), not)),
        1 => ("[ab.]{0,3}", any::<bool>()).prop_map(|(part, not)| (Test::Matches(Pattern::regex(&part).unwrap()), not)),
    ]
}

pub(super) fn any_expr() -> impl Strategy<Value = Expr> {
    let asks = |(what, (test, _)): &(Term, (Test, bool))| {
        let of_values =
            matches!(test, Test::Compare(_, Term::Literal(_))) || !matches!(test, Test::Compare(..) | Test::Within(_));
        !(matches!(what, Term::Literal(_)) && of_values)
    };
    let leaf = prop_oneof![
        6 => (any_term(), any_test()).prop_filter("values alone are refused", asks).prop_map(|(what, (test, negated))| Node::Leaf(Leaf { what, test, negated })),
        1 => any_path().prop_map(Node::Exists),
        1 => prop::sample::select(vec!["iq", "a b", "no"]).prop_map(|name| Node::Has(name.to_owned())),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Node::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Node::Any),
            inner.prop_map(|node| Node::Not(Box::new(node))),
        ]
    })
    .prop_map(|node| Expr { node })
}

proptest! {
    #[test]
    fn what_is_printed_is_parsed_to_the_same(expr in any_expr()) {
        prop_assert_eq!(expr.to_string().parse::<Expr>().unwrap(), expr);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-c0-9 .@'\"\\\\()<>=!,\\[\\]é-]{0,40}") {
        if let Ok(expr) = text.parse::<Expr>() {
            prop_assert_eq!(expr.to_string().parse::<Expr>().unwrap(), expr);
        }
    }
}

fn holds(text: &str, metadata: &str) -> bool {
    let fields =
        [Field { sample_rate: Some(1e6), ..Field::new("iq", "complex64", &[2, 1024]) }, Field::new("odd name", "float32", &[])];
    let metadata = json(metadata);
    let record = Record::new("r7", &metadata).with_fields(&fields).in_split("train");
    text.parse::<Expr>().unwrap_or_else(|e| panic!("{e}")).matches(&record).unwrap()
}

#[test]
fn each_question_is_answered_as_written() {
    let metadata = r#"{"snr": 12, "name": "mic é\n1", "ok": true, "none": null, "tags": ["x", 2, [3]], "deep": {"b": {"odd key": 1.5}}, "in": 4,
        "big": 123456789012345678901234567890, "id": "mine", "odd": "éA𝄞"}"#;
    let yes = [
        "snr > 10",
        "snr = 12",
        "snr == 12.0",
        "12 <= snr",
        "10 < snr <= 12",
        "snr != '12'",
        "SNR = 1 or snr in [1, 12]",
        "snr IN (12,)",
        "snr not in [1]",
        "ok == 1",
        "ok == True",
        "ok < 2",
        "none == null",
        "none = None",
        "exists(none)",
        "not exists(nothing)",
        "not nothing == 1",
        "not nothing != 1",
        "name contains 'é'",
        "name startswith \"mic \"",
        "name endswith '\\n1'",
        "name like 'mic__%1'",
        r"name matches r'\d$'",
        "name matches 'c . *'",
        "name not like 'mic'",
        "tags contains 'x'",
        "tags contains [3]",
        "'x' in tags",
        "2.0 in tags",
        "7 not in tags",
        "tags[0] == 'x'",
        "tags[-1][0] == 3",
        "tags == ['x', 2.0, [3]]",
        "deep.b['odd key'] == 1.5",
        "deep['b']['odd key'] > 1",
        "exists(deep.b)",
        "metadata['in'] = 4",
        "metadata.id = 'mine'",
        "metadata['snr'] == 12",
        "big == 123456789012345678901234567890",
        "big > 123456789012345678901234567889",
        "big < 1e30",
        "big >= 1.2e29",
        "id == 'r7'",
        "split in ['train']",
        "has(iq) and not has(nope)",
        "has('odd name')",
        "iq@dtype == 'complex64'",
        "iq@shape == [2, 1024]",
        "iq@shape[1] > 100",
        "iq@shape[-1] = 1024",
        "iq@ndim = 2",
        "iq@length == 2",
        "iq@sample_rate >= 1e6",
        "field('odd name')@ndim == 0",
        "field('odd name')@shape == []",
        "1024 in iq@shape",
        "not (snr < 1 or snr > 100) and (ok == true)",
        "name > 'mic'",
        "odd == 'éA\\ud834\\udd1e' and odd = '\\u00e9\\x41𝄞'",
        "+12 == snr",
        "snr == 12 AND NOT snr < 3",
    ];
    for text in yes {
        assert!(holds(text, metadata), "{text}");
    }
    let no = [
        "snr > 12",
        "snr < '99'",
        "name > 3",
        "nothing == 1",
        "nothing != 1",
        "nothing not in [1]",
        "nothing == null",
        "nothing not contains 'a'",
        "none < 1",
        "none == 0",
        "none == false",
        "snr contains '1'",
        "snr startswith '1'",
        "name like 'mic'",
        "name matches '^c'",
        "tags[3] == 1",
        "tags[-4] == 1",
        "tags.x == 1",
        "snr.x == 1",
        "snr[0] == 12",
        "deep.b < 3",
        "tags > [1]",
        "exists(deep.c)",
        "big == 1.2345678901234568e29",
        "has(nope)",
        "nope@ndim == 1",
        "nope@ndim != 1",
        "field('odd name')@length >= 0",
        "iq@shape[2] >= 0",
        "field('odd name')@sample_rate != 0",
        "snr in []",
        "snr in nothing",
        "snr not in nothing",
        "low < high",
        "not snr == 12",
        "id == 'mine'",
    ];
    for text in no {
        assert!(!holds(text, metadata), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_pointed_at() {
    let cases = [
        ("", 1, "expected a key, a number"),
        ("snr", 4, "a comparison (==, !="),
        ("ok and snr > 3", 4, "ok == true"),
        ("snr >", 6, "expected a key, a number, a text in quotes, true, false or null, found the end"),
        ("snr > 3 speaker", 9, "expected 'and', 'or' or the end, found 'speaker'"),
        ("snr > 3 && a = 1", 9, "expected 'and'"),
        ("snr is null", 5, "'is' is no word here"),
        ("!a = 1", 1, "expected 'not'"),
        ("(snr > 3", 9, "expected ')', found the end"),
        ("a = 'x", 5, "has no end"),
        ("a = 'x\\d'", 7, "the escape \\d is not known: write \\\\"),
        ("a = 12x", 5, "\"12x\" is no number"),
        ("a = 1e999", 5, "is no number"),
        ("a in 3", 6, "expected a list such as"),
        ("a in [1 2]", 9, "expected ',' or ']'"),
        ("a in [b]", 7, "expected a number, a text in quotes"),
        ("a matches '('", 11, "unclosed group"),
        ("a matches 'x{1000}{1000}{1000}'", 11, "too large"),
        ("a like 'x\\\\'", 8, "a backslash ends the pattern"),
        ("a startswith 3", 14, "expected a text in quotes"),
        ("é é", 3, "a comparison"),
        ("iq@size > 3", 4, "dtype, shape, ndim"),
        ("id.x = 3", 1, "metadata[\"id\"]"),
        ("len(iq) > 3", 1, "there is no function len"),
        ("exists(3)", 8, "expected a key in exists"),
        ("a not b", 7, "behind 'not'"),
        ("a = #", 5, "'#' has no meaning"),
        ("a. = 3", 4, "a key behind '.'"),
        ("a['b' = 3", 7, "expected ']'"),
    ];
    for (text, column, expected) in cases {
        let message = text.parse::<Expr>().unwrap_err().message().to_owned();
        assert!(message.starts_with(&format!("the expression, column {column}: ")), "{text:?}: {message}");
        assert!(message.contains(expected), "{text:?}: {message}");
        let lines: Vec<_> = message.lines().collect();
        assert_eq!(lines[1..], [format!("  {text}"), format!("  {}^", " ".repeat(column - 1))], "{text:?}");
    }
    let long = format!("{} and", vec!["snr > 3"; 100].join(" and "));
    let message = long.parse::<Expr>().unwrap_err().message().to_owned();
    let (shown, caret) = (message.lines().nth(1).unwrap(), message.lines().nth(2).unwrap());
    assert!(
        shown.starts_with("  ...") && shown.ends_with("and") && shown.len() < 70 && caret.len() == shown.len() + 1,
        "{message}"
    );
}

#[test]
fn depth_and_size_are_bounded() {
    for text in [
        "(".repeat(100_000),
        "not ".repeat(100_000),
        format!("a in {}", "[".repeat(100_000)),
        format!("a{} = 1", ".a".repeat(100_000)),
    ] {
        assert!(text.parse::<Expr>().unwrap_err().message().contains("more than 64"), "{:?}", &text[..10]);
    }
    let nested = format!("{}a = 1{}", "(".repeat(64), ")".repeat(64));
    assert_eq!(nested.parse::<Expr>().unwrap().to_string(), "a == 1");
    let wide = format!("a = 1{}", " or a = 1".repeat(200_000));
    assert!(wide.parse::<Expr>().unwrap_err().message().contains("bytes: at most"));
}

#[test]
fn names_are_told() {
    let expr: Expr = "b.c > 1 and (exists(a) or x@ndim = 1) and has(y) and 1 in b and a < d".parse().unwrap();
    assert_eq!((expr.keys(), expr.fields()), (vec!["a", "b", "d"], vec!["x", "y"]));
    assert_eq!(near("speeker", ["speaker", "snr"]), Some("speaker"));
    assert_eq!(
        (near("sn", ["snr"]), near("nsr", ["snr"]), near("SNR", ["snr"]), near("x", ["y"])),
        (Some("snr"), Some("snr"), Some("snr"), None)
    );
}
