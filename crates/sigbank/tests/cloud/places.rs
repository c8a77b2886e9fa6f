//! Addresses, prefixes, buckets and permissions.

use crate::support::*;
use serde_json::json;
use sigbank::Code;
use sigbank::layout::{Layout, detect};
use sigbank::store::{CloudStore, Entry, Expected, StorageOptions, Store, connect};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

fn names(store: &dyn Store) -> BTreeSet<String> {
    store.list(None).unwrap().map(|e| e.unwrap().path.to_string()).collect()
}

#[test]
fn a_prefix_is_whole_and_its_slashes_do_not_count() {
    for kind in [Kind::S3, Kind::Azure, Kind::Gcs] {
        let Some(server) = server(kind) else { continue };
        let (base, options) = (fresh(server), server.options(server.endpoint()));
        let at = |prefix: &str| CloudStore::new(&format!("{base}{prefix}"), &options).unwrap();
        let (a, sibling, slashed) = (at("/a"), at("/a-prod"), at("/a//"));
        a.create(&p("x"), &[b"1"]).unwrap();
        sibling.create(&p("x"), &[b"22"]).unwrap();
        assert_eq!((a.location(), slashed.location()), (format!("{base}/a"), format!("{base}/a")));
        assert_eq!(slashed.get(&p("x")).unwrap(), &b"1"[..]);
        assert_eq!(names(&slashed), ["x".to_owned()].into());
        assert_eq!(names(&at("")), ["a/x", "a-prod/x"].map(String::from).into());
        a.delete_below(&p("x")).unwrap();
        a.delete(&p("x")).unwrap();
        assert_eq!(sibling.get(&p("x")).unwrap(), &b"22"[..]);
        // The root of a bucket.
        let root = CloudStore::new(&server.address(""), &options).unwrap();
        let name = p(&format!("{}-root", base.rsplit('/').next().unwrap()));
        root.create(&name, &[b"333"]).unwrap();
        assert!(root.list(None).unwrap().any(|e| e.unwrap().path == name));
        assert!(root.list_dir(None).unwrap().len() >= 2);
        root.delete(&name).unwrap();
        // A location leads to the same store.
        assert_eq!(connect(&sibling.location(), &options).unwrap().get(&p("x")).unwrap(), &b"22"[..]);
    }
}

#[test]
fn a_missing_bucket_is_not_a_missing_object() {
    for kind in [Kind::S3, Kind::Azure, Kind::Gcs] {
        let Some(server) = server(kind) else { continue };
        let options = server.options(server.endpoint());
        let nowhere = server.address("x").replace(server.bucket(), "no-such-bucket");
        eprintln!("{kind:?}");
        let nowhere = CloudStore::new(&nowhere, &options).unwrap();
        let words = ["\"no-such-bucket\" does not exist"];
        fails(nowhere.get(&p("a")), Code::NotFound, &words);
        fails(nowhere.head(&p("a")), Code::NotFound, &words);
        fails(nowhere.create(&p("a"), &[b"1"]), Code::NotFound, &words);
        fails(nowhere.list(None).unwrap().collect::<Result<Vec<Entry>, _>>(), Code::NotFound, &words);
        fails(nowhere.list_dir(None), Code::NotFound, &words);
        fails(detect(&nowhere), Code::NotFound, &words);
        let address = nowhere.location();
        fails(sigbank::layout::open_with(&address, &options), Code::NotFound, &words);
        let here = server.store();
        assert_eq!(detect(&here).unwrap(), None);
        fails(here.head(&p("a")), Code::NotFound, &["no such object", "/a"]);
        fails(here.get(&p("a")), Code::NotFound, &["no such object", "/a"]);
    }
}

#[test]
fn refusals_say_what_to_do() {
    let Some(server) = server(Kind::S3) else { return };
    let (plain, proxy) = (server.store(), server.proxy());
    plain.create(&p("x"), &[b"1"]).unwrap();
    let store = proxy.store(server, &plain.location(), &[]);
    proxy.set(json!({"fault": "status", "status": 403, "code": "AccessDenied"}));
    fails(store.create(&p("y"), &[b"1"]), Code::ReadOnly, &["/y", "writing is not permitted", "AccessDenied"]);
    fails(store.delete(&p("x")), Code::ReadOnly, &["/x"]);
    fails(store.get(&p("x")), Code::Storage, &["/x", "reading is not permitted"]);
    fails(store.head(&p("x")), Code::Storage, &["/x", "reading is not permitted"]);
    fails(detect(&store), Code::Storage, &["root.json", "reading is not permitted"]);
    // Without the permission to list, what is missing is forbidden: the other layout's root is there.
    plain.create(&p("dataset_info.json"), &[b"{}"]).unwrap();
    proxy.set(json!({"fault": "status", "status": 403, "code": "AccessDenied", "path": "/root.json"}));
    assert_eq!(detect(&store).unwrap(), Some(Layout::Sedpack));
    proxy.set(json!({"fault": "status", "status": 403, "code": "InvalidAccessKeyId"}));
    fails(store.create(&p("y"), &[b"1"]), Code::Invalid, &["/y", "credentials"]);
    // The answers to who asks in another region.
    proxy.set(
        json!({"fault": "status", "status": 301, "code": "PermanentRedirect", "headers": {"x-amz-bucket-region": "eu-west-1"}}),
    );
    fails(store.get(&p("x")), Code::Invalid, &["/x", "eu-west-1", "AWS_REGION"]);
    let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>ap-east-1</Region></Error>";
    proxy.set(json!({"fault": "status", "status": 400, "body": malformed}));
    fails(store.get(&p("x")), Code::Invalid, &["/x", "ap-east-1", "AWS_REGION"]);
    fails(store.create(&p("y"), &[b"1"]), Code::Invalid, &["/y", "ap-east-1"]);
    // Nobody there.
    let mut options = server.options("http://127.0.0.1:9");
    options.insert("retries".into(), "1".into());
    let nobody = CloudStore::new(&plain.location(), &options).unwrap();
    fails(nobody.get(&p("x")), Code::Storage, &["/x", "127.0.0.1", "endpoint"]);
}

#[test]
fn a_folder_over_http() {
    let Some(server) = server(Kind::Http) else { return };
    let dir = server.folder.path().join("a b/ü");
    std::fs::create_dir_all(dir.join("deep")).unwrap();
    let content = bytes(9_000_000, 4);
    std::fs::write(dir.join("deep/x y"), &content).unwrap();
    std::fs::write(dir.join("empty"), b"").unwrap();
    let address = format!("{}/a%20b/%C3%BC/", server.endpoint());
    let store = connect(&address, &StorageOptions::new()).unwrap();
    assert_eq!(store.location(), address.trim_end_matches('/'));
    assert!(!store.capabilities().write);
    let path = p("deep/x y");
    assert!(store.get(&path).unwrap() == content);
    assert_eq!(store.head(&path).unwrap().size, 9_000_000);
    let got = store.get_ranges(&path, &[7..20, 0..3, 8_999_990..9_000_000, 4..4]).unwrap();
    assert_eq!(got, [&content[7..20], &content[..3], &content[8_999_990..], &[]]);
    fails(store.get_ranges(&path, &[8_999_999..9_000_001]), Code::Corrupt, &["/deep/x y"]);
    let mut streamed = Vec::new();
    store.open_read(&path).unwrap().stream().read_to_end(&mut streamed).unwrap();
    assert!(streamed == content);
    assert_eq!(store.get(&p("empty")).unwrap().len(), 0);
    fails(store.get(&p("gone")), Code::NotFound, &["/gone"]);
    fails(store.get_at_most(&path, 1000), Code::Limit, &["9000000"]);
    fails(store.list(None).map(|_| ()), Code::Unsupported, &["no listing"]);
    for result in [store.create(&p("n"), &[b"1"]), store.delete(&path), store.write_new(&p("n")).map(drop)] {
        fails(result, Code::ReadOnly, &["web server"]);
    }
    // A replaced file does not get mixed with the old one.
    let file = store.open_read(&path).unwrap();
    std::fs::write(dir.join("deep/x y"), bytes(9_000_000, 5)).unwrap();
    fails(file.read_ranges(&[0..10]), Code::Conflict, &["/deep/x y", "replaced"]);
}

#[test]
fn objects_have_the_content_types_of_the_reference() {
    let Some(server) = server(Kind::S3) else { return };
    let store = server.store();
    store.create(&p("a/root.json"), &[b"{}"]).unwrap();
    store.replace(&p("a/root.json"), &[b"{ }"], Expected::Any).unwrap();
    store.create(&p("a/x.arrayrecord"), &[b"1"]).unwrap();
    let mut spooled = store.write_new(&p("a/y.json")).unwrap();
    spooled.write_all(b"{}").unwrap();
    spooled.commit().unwrap();
    for (name, expected) in
        [("a/root.json", "application/json"), ("a/x.arrayrecord", "application/octet-stream"), ("a/y.json", "application/json")]
    {
        let host = server.endpoint().strip_prefix("http://").unwrap().trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        let target = store.locate(&p(name)).replacen("s3:/", "", 1);
        // The server looks at who asks, and at no signature.
        let key = &server.options("")["access_key_id"];
        let signed =
            format!("AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0");
        write!(stream, "HEAD {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {signed}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer = answer.to_lowercase();
        let found = answer.lines().find_map(|line| line.strip_prefix("content-type: "));
        assert_eq!(found, Some(expected), "{target}: {answer}");
    }
}
