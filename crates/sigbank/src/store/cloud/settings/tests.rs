use super::*;
use crate::Code;

fn settings(address: &str, options: &[(&str, &str)]) -> Result<Settings> {
    Settings::new(address, &options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}

#[track_caller]
fn refused(address: &str, options: &[(&str, &str)], words: &[&str]) {
    let e = settings(address, options).err().expect("an error was expected");
    assert_eq!(e.code(), Code::Invalid, "{e}");
    for word in words {
        assert!(e.to_string().contains(word), "no {word:?} in: {e}");
    }
}

#[test]
fn an_address_is_a_bucket_and_a_prefix() {
    for (address, container, prefix, location) in [
        ("s3://b", "b", "", "s3://b"),
        ("s3://b/", "b", "", "s3://b"),
        ("s3://b//", "b", "", "s3://b"),
        ("s3://b.x/a/c d/", "b.x", "a/c d", "s3://b.x/a/c d"),
        ("gs://b_1/a//", "b_1", "a", "gs://b_1/a"),
        ("az://c/a", "c", "a", "az://c/a"),
        ("abfss://c@acc.dfs.core.windows.net/a", "c", "a", "abfss://c@acc.dfs.core.windows.net/a"),
        ("https://h:1/a%20b/", "https://h:1/a%20b", "", "https://h:1/a%20b"),
    ] {
        let s = settings(address, &[]).unwrap();
        assert_eq!((s.container.as_str(), s.prefix.as_str(), s.location.as_str()), (container, prefix, location), "{address}");
    }
    assert_eq!(settings("abfss://c@acc.dfs.core.windows.net", &[]).unwrap().account.as_deref(), Some("acc"));
    for (address, words) in [
        ("s3://", &["names no bucket"][..]),
        ("s3:///a", &["names no bucket"]),
        ("az://", &["names no container"]),
        ("s3://b//a", &["absolute"]),
        ("s3://b/a//c", &["two slashes"]),
        ("s3://b/../c", &[".."]),
        ("s3://b/a\nb", &["control character"]),
        ("s3://host:9000/b", &["endpoint"]),
        ("https://h/a?sig=secret", &["no ? or #"]),
        ("https://u:secret@h/a", &["password"]),
    ] {
        refused(address, &[], words);
        assert!(!settings(address, &[]).err().unwrap().to_string().contains("secret"), "{address}");
    }
    assert_eq!(settings("gopher://a/b", &[]).err().unwrap().code(), Code::Unsupported);
}

#[test]
fn names_stay_below_the_prefix() {
    let s = settings("s3://b/a", &[]).unwrap();
    let path = |text: &str| RelPath::parse(text).unwrap();
    assert_eq!(s.key(&path("x/y z")).unwrap().as_ref(), "a/x/y z");
    assert_eq!(s.key(&path("a%2Fb")).unwrap().as_ref(), "a/a%2Fb");
    assert_eq!(s.key(&path("x\ny")).unwrap_err().code(), Code::Invalid);
    assert_eq!((s.name("a/x/y"), s.name("a-prod/x"), s.name("a"), s.name("a//x")), (Some(path("x/y")), None, None, None));
    assert_eq!(s.directory(None).unwrap().unwrap().as_ref(), "a");
    let root = settings("s3://b", &[]).unwrap();
    assert_eq!(root.key(&path("x")).unwrap().as_ref(), "x");
    assert_eq!((root.name("x"), root.directory(None).unwrap()), (Some(path("x")), None));
}

#[test]
fn options_are_known_or_refused() {
    let s = settings(
        "s3://b",
        &[
            ("timeout", "1.5"),
            ("connect_timeout", "2s"),
            ("retries", "0"),
            ("probe", "False"),
            ("region", "r"),
            ("endpoint", "http://h/"),
        ],
    );
    let mut s = s.unwrap();
    assert_eq!((s.wire.quiet, s.wire.connect_timeout), (Duration::from_millis(1500), Duration::from_secs(2)));
    assert_eq!((s.retries, s.probe, s.given(&["aws_region", "region"])), (0, false, Some("r")));
    assert!(!s.wire.allow_http);
    s.use_endpoint(Some("https://environment".into())).unwrap();
    assert_eq!((s.endpoint.as_deref(), s.wire.allow_http), (Some("http://h"), true));

    for bad in [
        "127.0.0.1:9000",
        "notaurl",
        "http://",
        "http:///x",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://127.0.0.1 :1",
        " ",
        "ftp://h",
    ] {
        let e = settings("s3://b", &[("endpoint", bad)]).unwrap().use_endpoint(None).expect_err(bad);
        assert!(e.code() == crate::Code::Invalid && e.to_string().contains("http://host:port"), "{bad:?}: {e}");
    }
    for good in ["http://127.0.0.1:9000", "https://h/x", "http://[::1]:9000/"] {
        settings("s3://b", &[("endpoint", good)]).unwrap().use_endpoint(None).unwrap();
    }
    refused("s3://b", &[("access_key_id", "x\n")], &["access_key_id", "control character"]);
    refused("s3://b", &[("regoin", "x")], &["\"regoin\"", "near it are", "region"]);
    refused("s3://b", &[("acces_key_id", "x")], &["access_key_id"]);
    refused("gs://b", &[("aws_region", "x")], &["no option \"aws_region\" for gs://"]);
    refused("https://h", &[("region", "x")], &["there are: ", "timeout"]);
    for (key, value) in [
        ("timeout", "soon"),
        ("timeout", "-1"),
        ("timeout", "0"),
        ("retries", "many"),
        ("probe", "maybe"),
        ("read_ahead", "much"),
    ] {
        refused("s3://b", &[(key, value)], &[key, value]);
    }
    assert!(!settings("s3://b", &[("secret_access_key", "hush")]).unwrap().location.contains("hush"));
    for key in S3.iter().filter(|key| !is_endpoint(key) && !key.ends_with("profile")) {
        assert!(key.parse::<object_store::aws::AmazonS3ConfigKey>().is_ok(), "{key}");
    }
    for key in GCS.iter().filter(|key| !is_endpoint(key)) {
        assert!(key.parse::<object_store::gcp::GoogleConfigKey>().is_ok(), "{key}");
    }
    for key in AZURE.iter().filter(|key| !is_endpoint(key)) {
        assert!(key.parse::<object_store::azure::AzureConfigKey>().is_ok(), "{key}");
    }
}
