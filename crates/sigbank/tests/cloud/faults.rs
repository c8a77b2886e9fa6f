//! What comes of it when servers and network do their worst: the right bytes, or an error that names the object and the cause.

use crate::support::*;
use serde_json::{Value, json};
use sigbank::store::{CloudStore, Expected, Store};
use sigbank::{Code, Error};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const WRITERS: [Kind; 3] = [Kind::S3, Kind::Azure, Kind::Gcs];

/// A store of each service, a proxy before it, and a store behind that.
struct Case {
    plain: CloudStore,
    proxy: Proxy,
    store: CloudStore,
}

fn case(kind: Kind, options: &[(&str, &str)]) -> Option<Case> {
    let server = server(kind)?;
    let (plain, proxy) = (server.store(), server.proxy());
    let store = proxy.store(server, &plain.location(), options);
    eprintln!("{kind:?}");
    Some(Case { plain, proxy, store })
}

fn stream(store: &CloudStore, path: &str) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    store.open_read(&p(path))?.stream().read_to_end(&mut all)?;
    Ok(all)
}

#[test]
fn a_fifth_of_all_requests_refused() {
    for kind in WRITERS {
        let Some(Case { plain, proxy, store }) = case(kind, &[]) else { continue };
        proxy.set(json!({"fault": "status", "status": 503, "code": "SlowDown", "fraction": 0.2}));
        let content = |n: usize| bytes(1000 + n, n as u32);
        for n in 0..25 {
            store.create(&p(&format!("d/{n}")), &[&content(n)]).unwrap();
            fails(store.create(&p(&format!("d/{n}")), &[b"other"]), Code::AlreadyExists, &[&format!("d/{n}")]);
        }
        for n in 0..25 {
            assert_eq!(store.get(&p(&format!("d/{n}"))).unwrap(), content(n));
            assert_eq!(plain.get(&p(&format!("d/{n}"))).unwrap(), content(n));
        }
        assert_eq!(store.list(None).unwrap().collect::<Result<Vec<_>, _>>().unwrap().len(), 25);
        assert_eq!(store.list_dir(Some(&p("d"))).unwrap().len(), 25);
        for n in 0..25 {
            store.delete(&p(&format!("d/{n}"))).unwrap();
        }
        assert_eq!(plain.list(None).unwrap().count(), 0);
        assert!(proxy.hits() > 15, "{} faults", proxy.hits());
    }
}

#[test]
fn connections_reset_in_the_middle_of_bodies() {
    for kind in [Kind::S3, Kind::Azure, Kind::Gcs] {
        let Some(Case { plain, proxy, store }) = case(kind, &[]) else { continue };
        let content = bytes(9_000_000, 3);
        plain.create(&p("big"), &[&content]).unwrap();
        let before = store.requests();
        proxy.set(json!({"fault": "reset", "after": 3_000_000, "method": "GET", "times": 2}));
        assert!(store.get(&p("big")).unwrap() == content);
        assert_eq!(proxy.hits(), 2);
        let after = store.requests();
        assert!(after.get - before.get >= 3, "{after:?}");
        assert!(after.received - before.received < 9_900_000, "what had come was asked for again: {after:?}");
        for after in [0, 1, 100_000] {
            proxy.set(json!({"fault": "reset", "after": after, "method": "GET", "fraction": 0.4}));
            assert!(stream(&store, "big").unwrap() == content);
            let got = store.get_ranges(&p("big"), &[5..2_000_005, 8_000_000..9_000_000]).unwrap();
            assert!(got[0] == content[5..2_000_005] && got[1] == content[8_000_000..]);
        }
        // Of what is sent, too: and it appears once, and whole.
        proxy.set(json!({"fault": "reset", "after": 100_000, "of": "request", "method": "PUT", "times": 2}));
        let mut new = store.write_new(&p("sent")).unwrap();
        new.write_all(&content).unwrap();
        new.commit().unwrap();
        assert_eq!(proxy.hits(), 2);
        assert!(plain.get(&p("sent")).unwrap() == content);
    }
}

#[test]
fn answers_cut_short_are_completed_or_refused() {
    for kind in [Kind::S3, Kind::Azure, Kind::Gcs] {
        let Some(Case { plain, proxy, store }) = case(kind, &[("retries", "3"), ("retry_timeout", "5")]) else { continue };
        let content = bytes(300_000, 5);
        plain.create(&p("x"), &[&content]).unwrap();
        proxy.set(json!({"fault": "truncate", "after": 1000, "method": "GET", "times": 2}));
        assert!(store.get(&p("x")).unwrap() == content);
        assert_eq!(proxy.hits(), 2);
        proxy.set(json!({"fault": "truncate", "after": 0, "method": "GET"}));
        fails(store.get(&p("x")), Code::Storage, &[&store.locate(&p("x")), "tries"]);
        fails(store.get_ranges(&p("x"), &[0..10]), Code::Storage, &["/x"]);
        fails(stream(&store, "x"), Code::Storage, &["/x"]);
    }
}

#[test]
fn a_server_that_hangs_is_given_up() {
    let Some(Case { plain, proxy, store }) = case(Kind::S3, &[("timeout", "0.4"), ("retries", "1")]) else { return };
    plain.create(&p("x"), &[&bytes(200_000, 1)]).unwrap();
    let start = Instant::now();
    for faults in [json!({"fault": "hang"}), json!({"fault": "hang", "after": 1000})] {
        proxy.set(faults);
        fails(store.get(&p("x")), Code::Storage, &["/x", "nothing came or went for 0.4 s", "timeout"]);
    }
    proxy.set(json!({"fault": "hang"}));
    fails(store.head(&p("x")), Code::Storage, &["/x"]);
    fails(store.create(&p("y"), &[b"1"]), Code::Storage, &["/y"]);
    fails(store.list(None).unwrap().next().unwrap(), Code::Storage, &[&store.location()]);
    fails(store.delete(&p("x")), Code::Storage, &["/x"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // Hanging once is waited out; slow is not hanging.
    proxy.set(json!([{"fault": "hang", "times": 1}, {"fault": "bandwidth", "bytes_per_second": 400_000}]));
    assert!(store.get(&p("x")).unwrap() == bytes(200_000, 1));
    proxy.set(json!({"fault": "bandwidth", "bytes_per_second": 1_000_000}));
    store.create(&p("slow"), &[&bytes(1_000_000, 2)]).unwrap();
}

#[test]
fn a_lost_answer_to_a_write_is_recognized_as_success() {
    for kind in WRITERS {
        let Some(Case { plain, proxy, store }) = case(kind, &[]) else { continue };
        for (n, fault) in [
            json!({"fault": "lose_reply", "method": "PUT", "times": 1}),
            json!({"fault": "replace", "status": 500, "method": "PUT", "times": 1}),
            json!({"fault": "lose_reply", "method": "PUT", "times": 3}),
        ]
        .into_iter()
        .enumerate()
        {
            let (made, streamed, swapped) = (format!("made{n}"), format!("streamed{n}"), format!("swapped{n}"));
            proxy.set(fault.clone());
            store.create(&p(&made), &[b"one"]).unwrap();
            assert!(proxy.hits() >= 1);
            assert_eq!(plain.get(&p(&made)).unwrap(), &b"one"[..]);

            proxy.set(fault.clone());
            let mut new = store.write_new(&p(&streamed)).unwrap();
            new.write_all(&bytes(6_000_000, 1)).unwrap();
            new.commit().unwrap();
            assert!(plain.get(&p(&streamed)).unwrap() == bytes(6_000_000, 1));

            let first = plain.replace(&p(&swapped), &[b"1"], Expected::Absent).unwrap();
            proxy.set(fault);
            let second = store.replace(&p(&swapped), &[b"2"], Expected::Version(&first)).unwrap();
            assert_eq!(plain.get_versioned(&p(&swapped)).unwrap().1, second);
            store.replace(&p(&swapped), &[b"3"], Expected::Version(&second)).unwrap();
        }
        // Another's object of the same bytes is not one's own, also when an answer was lost before it.
        plain.create(&p("theirs"), &[b"same"]).unwrap();
        proxy.set(json!({"fault": "replace", "status": 500, "method": "PUT", "times": 1}));
        fails(store.create(&p("theirs"), &[b"same"]), Code::AlreadyExists, &["/theirs"]);
    }
}

#[test]
fn a_race_that_s3_could_not_decide_is_run_again() {
    let Some(Case { plain, proxy, store }) = case(Kind::S3, &[("retries", "3")]) else { return };
    let undecided = |times: Value| json!({"fault": "status", "status": 409, "code": "ConditionalRequestConflict", "method": "PUT", "times": times});
    proxy.set(undecided(json!(2)));
    store.create(&p("a"), &[b"1"]).unwrap();
    assert_eq!((proxy.hits(), plain.get(&p("a")).unwrap()), (2, b"1"[..].into()));
    proxy.set(undecided(Value::Null));
    fails(store.create(&p("b"), &[b"1"]), Code::Conflict, &["/b", "ConditionalRequestConflict"]);
}

#[test]
fn no_answer_to_another_question_is_taken_for_data() {
    for kind in [Kind::S3, Kind::Azure, Kind::Gcs, Kind::Http] {
        let Some(server) = server(kind) else { continue };
        let proxy = server.proxy();
        let content = bytes(3_000_000, 9);
        let address = fresh(server);
        let store = proxy.store(server, &address, &[]);
        match kind {
            Kind::Http => {
                let dir = server.folder.path().join(address.rsplit('/').next().unwrap());
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(dir.join("x"), &content).unwrap();
            }
            _ => CloudStore::new(&address, &server.options(server.endpoint())).unwrap().create(&p("x"), &[&content]).unwrap(),
        }
        eprintln!("{kind:?}");
        let ranged = || store.get_ranges(&p("x"), &[100..200]);
        assert_eq!(ranged().unwrap()[0], content[100..200]);
        proxy.set(json!({"fault": "ignore_range"}));
        fails(ranged(), Code::Storage, &["/x", "the whole object came where a range was asked for"]);
        fails(stream(&store, "x"), Code::Storage, &["/x"]);
        assert!(store.get(&p("x")).unwrap() == content, "the whole object is what was asked for there");
        proxy.set(json!({"fault": "wrong_range", "shift": 7}));
        fails(ranged(), Code::Storage, &["/x", "came where 100..200 were asked for"]);
        fails(stream(&store, "x"), Code::Storage, &["/x"]);
    }
}

#[test]
fn expired_credentials_are_said_to_be() {
    let Some(Case { plain, proxy, store }) = case(Kind::S3, &[]) else { return };
    plain.create(&p("x"), &[b"1"]).unwrap();
    let expired = |times: Value| json!({"fault": "status", "status": 400, "code": "ExpiredToken", "times": times});
    // Asked for again, they may be new.
    proxy.set(expired(json!(1)));
    assert_eq!(store.get(&p("x")).unwrap(), &b"1"[..]);
    proxy.set(expired(Value::Null));
    for result in [store.get(&p("x")).map(drop), store.create(&p("y"), &[b"1"]), store.delete(&p("x"))] {
        fails(result, Code::Storage, &["expired"]);
    }
    assert_eq!(proxy.log().len(), 6, "asked more than twice each");
}

#[test]
fn a_service_that_ignores_conditions_is_not_written_to() {
    for kind in WRITERS {
        let Some(server) = server(kind) else { continue };
        let (proxy, address) = (server.proxy(), fresh(server));
        let store = CloudStore::new(&address, &server.options(&proxy.endpoint)).unwrap();
        proxy.set(json!({"fault": "ignore_conditions"}));
        fails(store.create(&p("x"), &[b"1"]), Code::Unsupported, &["/x", "overwrites objects", "probe=false"]);
        fails(store.write_new(&p("x")), Code::Unsupported, &["/x"]);
        fails(store.replace(&p("x"), &[b"1"], Expected::Any), Code::Unsupported, &["/x"]);
        assert_eq!(store.list(None).unwrap().count(), 0, "the probe left something, or the object was written");
        let unsafe_ = proxy.store(server, &address, &[]);
        unsafe_.create(&p("x"), &[b"1"]).unwrap();
        proxy.set(json!([]));
        store.create(&p("y"), &[b"1"]).unwrap();
    }
}

#[test]
fn an_object_that_is_replaced_is_not_mixed_with_the_old_one() {
    for kind in WRITERS {
        let Some(server) = server(kind) else { continue };
        let store = server.store();
        let (old, new) = (bytes(20_000_000, 1), bytes(20_000_000, 2));
        store.create(&p("x"), &[&old]).unwrap();
        let files = [store.open_read(&p("x")).unwrap(), store.open_sized(&p("x"), old.len() as u64).unwrap()];
        for file in &files {
            assert!(file.read_ranges(&[5..10]).unwrap()[0] == old[5..10]);
        }
        let mut reader = files[0].clone().stream();
        let mut start = vec![0; 1000];
        reader.read_exact(&mut start).unwrap();
        store.replace(&p("x"), &[&new], Expected::Any).unwrap();
        for file in &files {
            fails(file.read_ranges(&[5..10]), Code::Conflict, &["/x", "replaced"]);
            fails(file.clone().start_ranges(&[5..10]).wait(), Code::Conflict, &["/x", "replaced"]);
        }
        // What was under way may be the old bytes, never the new ones.
        let mut rest = start;
        match reader.read_to_end(&mut rest) {
            Ok(_) => assert!(rest == old),
            Err(e) => {
                fails::<()>(Err(e.into()), Code::Conflict, &["/x"]);
                assert!(rest == old[..rest.len()]);
            }
        }
        for (size, code) in [(19_999_999, Code::Corrupt), (20_000_001, Code::Corrupt)] {
            let wrong = store.open_sized(&p("x"), size).unwrap();
            fails(wrong.read_ranges(&[0..1]), code, &["/x", "20000000"]);
            let mut sink = Vec::new();
            fails(wrong.stream().read_to_end(&mut sink).map_err(Error::from), code, &["/x"]);
            assert!(sink.is_empty(), "bytes of an object that is not the expected one");
        }
        fails(store.open_sized(&p("gone"), 5).unwrap().read_ranges(&[0..1]), Code::NotFound, &["/gone"]);
    }
}

/// A server, or a cache before it, that answers whatever the condition was: the version of its answer is compared here.
#[test]
fn another_version_is_noticed_without_the_servers_help() {
    for kind in WRITERS {
        let Some(Case { plain, proxy, store }) = case(kind, &[]) else { continue };
        let (old, new) = (bytes(9_000_000, 1), bytes(9_000_000, 2));
        plain.create(&p("x"), &[&old]).unwrap();
        proxy.set(json!({"fault": "ignore_conditions", "method": "GET"}));
        let file = store.open_read(&p("x")).unwrap();
        assert!(file.read_ranges(&[5..10]).unwrap()[0] == old[5..10]);
        plain.replace(&p("x"), &[&new], Expected::Any).unwrap();
        fails(file.read_ranges(&[5..10]), Code::Conflict, &["/x", "replaced"]);
        let mut sink = Vec::new();
        fails(file.stream().read_to_end(&mut sink).map_err(Error::from), Code::Conflict, &["/x", "replaced"]);
        assert!(sink.is_empty());
        assert!(proxy.hits() > 0);
    }
}

#[test]
fn a_refusal_of_what_was_done_is_none() {
    let Some(Case { proxy, store, .. }) = case(Kind::S3, &[]) else { return };
    store.create(&p("first"), &[b"x"]).unwrap();
    let told = |condition: &str| json!([{"fault": "replace", "status": 412, "code": "PreconditionFailed", "header": {condition: "."}, "times": 1}]);
    // A proxy sent it twice, and the second answer is what comes.
    proxy.set(told("if-none-match"));
    store.create(&p("a"), &[b"mine"]).unwrap();
    assert_eq!(&store.get(&p("a")).unwrap()[..], b"mine");
    let (_, version) = store.get_versioned(&p("a")).unwrap();
    proxy.set(told("if-match"));
    let next = store.replace(&p("a"), &[b"next"], Expected::Version(&version)).unwrap();
    assert_eq!(store.get_versioned(&p("a")).unwrap(), (b"next"[..].into(), next));
    // What is another's, or was there before, is refused as ever, the same bytes or not.
    proxy.set(json!([]));
    for bytes in [&b"next"[..], b"other"] {
        fails(store.create(&p("a"), &[bytes]), Code::AlreadyExists, &["/a"]);
        fails(store.replace(&p("a"), &[bytes], Expected::Version(&version)), Code::Conflict, &["/a"]);
    }
}
