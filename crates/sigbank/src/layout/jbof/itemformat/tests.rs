use super::*;

/// What CPython 3.11 gives for each; `python/tests/test_jbof_datasets.py` compares many more.
#[test]
fn names_are_pythons() {
    let metadata = br#"{"s": "ann", "i": 1234567, "n": -7, "f": 1234.5678, "z": -0.0, "t": 1e-7, "h": 1e22, "b": true, "l": [1, "a'b", null],
        "d": {"k": "v", "x y": {"z": 2}}, "e": "caf\u00e9\u00a0\u0301\ud834\udd1e\n", "w": 5, "big": 340282366920938463463374607431768211456, "": 1}"#;
    let metadata = Json::parse(metadata, &Default::default()).unwrap();
    let cases = [
        ("{s}-{i}", "ann-1234567"),
        ("{{{s}}}", "{ann}"),
        ("{s:>5}|{s:*^7}|{s:.2}|{s:05}|{s!r:>6}", "  ann|**ann**|an|ann00| 'ann'"),
        (
            "{i:,}|{i:_}|{i:012,}|{i:x}|{i:#_X}|{i:#b}|{i:o}",
            "1,234,567|1_234_567|0,001,234,567|12d687|0X12_D687|0b100101101011010000111|4553207",
        ),
        ("{n:+}|{n:05}|{n: d}|{i:+}|{i: }|{n:=5}|{n:<5}|{n:^5}|{n:5}", "-7|-0007|-7|+1234567| 1234567|-   7|-7   | -7  |   -7"),
        (
            "{f}|{f:.2f}|{f:e}|{f:.3g}|{f:G}|{f:%}|{f:,.1f}|{f:012,}",
            "1234.5678|1234.57|1.234568e+03|1.23e+03|1234.57|123456.780000%|1,234.6|001,234.5678",
        ),
        ("{f:.3}|{f:.5}|{f:.10}|{f:#.3g}|{f:#.0f}|{f:.0e}", "1.23e+03|1234.6|1234.5678|1.23e+03|1235.|1e+03"),
        (
            "{z}|{z:f}|{z:zf}|{z:+.1}|{t}|{t:f}|{h}|{h:f}|{h:,}",
            "-0.0|-0.000000|0.000000|-0e+00|1e-07|0.000000|1e+22|10000000000000000000000.000000|1e+22",
        ),
        ("{b}|{b:d}|{b:5}|{b!r}|{i:.2e}|{n:.1f}|{w:c}|{w:03}", "True|1|    1|True|1.23e+06|-7.0|\u{5}|005"),
        ("{l}|{l[1]}|{l[0]:02}|{d[k]}|{d[x y][z]}|{d}", "[1, \"a'b\", None]|a'b|01|v|2|{'k': 'v', 'x y': {'z': 2}}"),
        ("{e!r}|{e!a}", "'caf\u{e9}\\xa0\u{301}\u{1d11e}\\n'|'caf\\xe9\\xa0\\u0301\\U0001d11e\\n'"),
        ("{s[0]}|{l[1][2]}", "a|b"),
        (
            "{s:{w}}|{f:{w}.1f}|{big:x}|{big:,}|{big:e}",
            "ann  |1234.6|100000000000000000000000000000000|340,282,366,920,938,463,463,374,607,431,768,211,456|3.402824e+38",
        ),
    ];
    for (template, expected) in cases {
        assert_eq!(item_name(template, &metadata).unwrap(), expected, "{template}");
    }
    for template in [
        "{",
        "}",
        "{s",
        "s}",
        "{}",
        "{0}",
        "{s.upper}",
        "{nothing}",
        "{l[9]}",
        "{l[a]}",
        "{d[0]}",
        "{l[}",
        "{s!x}",
        "{s!}",
        "{s!rr}",
        "{s:d}",
        "{s:=5}",
        "{s:+}",
        "{i:s}",
        "{i:.2}",
        "{f:d}",
        "{f:x}",
        "{i:,x}",
        "{i:,_}",
        "{f:.}",
        "{b:s}",
        "{l:5}",
        "{d:>5}",
        "{i:99999999999}",
        "{s:{w:{w}}}",
        "{l[0]x}",
        "{s[a]}",
        "{n:c}",
        "{[k]}",
        "{d[]}",
    ] {
        let e = item_name(template, &metadata).unwrap_err();
        assert!(e.code() == crate::Code::Invalid && e.to_string().contains(&format!("{template:?}")), "{template} {e}");
    }
}

#[test]
fn templates_that_name_no_item_are_refused() {
    for template in ["{x}/{y}", "../{x}", ".{x}", "{x}\\{y}", "/", "{x}\n"] {
        assert!(check(template).unwrap_err().to_string().contains("a name"), "{template}");
    }
    for template in ["{x}.{y}", "{x[/]}", "{x[.]}-{y}", "{x:/<9}", "{{.}}"] {
        check(template).unwrap();
    }
}
