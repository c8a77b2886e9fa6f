//! What operations cost: exact numbers of requests, and of bytes.

use crate::support::*;
use serde_json::json;
use sigbank::Code;
use sigbank::store::cloud::Requests;
use sigbank::store::{CloudStore, Expected, Store};
use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, Instant};

const MB: u64 = 1 << 20;

/// The requests of `work`, without those before it.
fn cost(store: &CloudStore, work: impl FnOnce()) -> Requests {
    let before = store.requests();
    work();
    let after = store.requests();
    Requests {
        get: after.get - before.get,
        head: after.head - before.head,
        put: after.put - before.put,
        delete: after.delete - before.delete,
        list: after.list - before.list,
        other: after.other - before.other,
        received: after.received - before.received,
        sent: after.sent - before.sent,
    }
}

#[track_caller]
fn costs(store: &CloudStore, expected: Requests, work: impl FnOnce()) {
    assert_eq!(cost(store, work), expected);
}

#[test]
fn each_operation_costs_what_the_documentation_says() {
    let Some(server) = server(Kind::S3) else { return };
    // An endpoint of its own: of each, a process remembers that it keeps its word.
    let (proxy, address) = (server.proxy(), fresh(server));
    let store = CloudStore::new(&address, &server.options(&proxy.endpoint)).unwrap();
    let none = Requests::default();
    // The first write looks whether the service keeps its word: two writes of the same name, one against a wrong version, a deletion.
    let first = cost(&store, || store.create(&p("first"), &[b"12345"]).unwrap());
    assert_eq!((first.put, first.delete, first.total()), (4, 1, 5));
    costs(&store, Requests { put: 1, sent: 4, ..none }, || store.create(&p("a/b"), &[b"12", b"34"]).unwrap());
    let again = cost(&store, || assert_eq!(store.create(&p("a/b"), &[b"12"]).unwrap_err().code(), Code::AlreadyExists));
    assert_eq!((again.put, again.head, again.total()), (1, 1, 2), "whose object failed the condition is asked, and nothing read");
    costs(&store, Requests { get: 1, received: 4, ..none }, || drop(store.get(&p("a/b")).unwrap()));
    costs(&store, Requests { get: 1, received: 4, ..none }, || drop(store.get_versioned(&p("a/b")).unwrap()));
    costs(&store, Requests { get: 1, received: 4, ..none }, || drop(store.get_at_most(&p("a/b"), 4).unwrap()));
    costs(&store, Requests { head: 1, ..none }, || drop(store.head(&p("a/b")).unwrap()));
    let listed = cost(&store, || assert_eq!(store.list(None).unwrap().count(), 2));
    assert_eq!((listed.list, listed.total()), (1, 1));
    let listed = cost(&store, || assert_eq!(store.list_dir(Some(&p("a"))).unwrap().len(), 1));
    assert_eq!((listed.list, listed.total()), (1, 1));
    let replaced = cost(&store, || drop(store.replace(&p("a/b"), &[b"x"], Expected::Any).unwrap()));
    assert_eq!((replaced.put, replaced.total(), replaced.sent), (1, 1, 1));
    costs(&store, Requests { delete: 1, ..none }, || store.delete(&p("a/b")).unwrap());
    // Another store of the same bucket knows already that the service keeps its word.
    let second = CloudStore::new(&fresh(server), &server.options(&proxy.endpoint)).unwrap();
    costs(&second, Requests { put: 1, sent: 1, ..none }, || second.create(&p("c"), &[b"1"]).unwrap());
    costs(&second, none, || second.flush(&[p("c")]).unwrap());
}

#[test]
fn reading_costs_its_own_bytes_and_little_more() {
    let Some(server) = server(Kind::S3) else { return };
    let (plain, proxy) = (server.store(), server.proxy());
    let content = bytes(50 << 20, 8);
    plain.create(&p("x"), &[&content]).unwrap();
    let store = proxy.store(server, &plain.location(), &[]);
    let none = Requests::default();
    let (path, len) = (p("x"), content.len() as u64);
    let slice = |range: &std::ops::Range<u64>| &content[range.start as usize..range.end as usize];

    // Near ranges are one request, distant ones are one each, sent together.
    let near = [100..200, 5000..6000, 0..1];
    costs(&store, Requests { get: 1, received: 6000, ..none }, || {
        let got = store.get_ranges(&path, &near).unwrap();
        assert!(got.iter().zip(&near).all(|(got, range)| got == slice(range)));
    });
    let distant: Vec<_> = (0..16).map(|n| n * 3 * MB..n * 3 * MB + 10).collect();
    proxy.set(json!({"fault": "delay", "ms": 200}));
    let start = Instant::now();
    costs(&store, Requests { get: 16, received: 160, ..none }, || {
        let got = store.get_ranges(&path, &distant).unwrap();
        assert!(got.iter().zip(&distant).all(|(got, range)| got == slice(range)));
    });
    assert!(start.elapsed() < Duration::from_millis(1600), "one after another: {:?}", start.elapsed());
    assert_eq!(
        proxy.log().iter().map(|request| request["range"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>().len(),
        16
    );
    proxy.set(json!([]));

    // A known size costs no request, and is compared with the first answer.
    costs(&store, none, || drop(store.open_sized(&path, len).unwrap()));
    costs(&store, Requests { head: 1, ..none }, || drop(store.open_read(&path).unwrap()));
    let file = store.open_sized(&path, len).unwrap();
    costs(&store, Requests { get: 1, received: 10, ..none }, || {
        let mut ten = [0; 10];
        file.read_at(77, &mut ten).unwrap();
        assert_eq!(ten, content[77..87]);
    });
    costs(&store, none, || {
        assert_eq!(file.read_ranges(&[5..5]).unwrap()[0].len(), 0);
        assert_eq!(file.read_ranges(&[len - 1..len + 1]).unwrap_err().code(), Code::Corrupt);
    });
    assert!(file.version().is_some());

    // Started reads are under way together, without a thread each.
    proxy.set(json!({"fault": "delay", "ms": 200}));
    let start = Instant::now();
    let begun: Vec<_> = (0..32).map(|n| file.clone().start_ranges(&[n * MB..n * MB + 5])).collect();
    assert!(start.elapsed() < Duration::from_millis(150) && begun.iter().any(|begun| !begun.is_ready()));
    for (n, begun) in begun.into_iter().enumerate() {
        assert_eq!(begun.wait().unwrap()[0], content[n << 20..(n << 20) + 5]);
    }
    assert!(start.elapsed() < Duration::from_millis(2500), "one after another: {:?}", start.elapsed());
    proxy.set(json!([]));

    // Opening ahead brings the first bytes with the size: what lies there costs nothing more, and a stream goes on with them.
    let opened = |first| store.open_ahead(&path, first).unwrap().open().unwrap();
    costs(&store, Requests { get: 1, received: 1000, ..none }, || {
        let file = opened(1000);
        assert_eq!((file.size(), file.read_ranges(&[5..9, 0..1000]).unwrap()[1].len()), (len, 1000));
        let mut ten = [0; 10];
        file.read_at(77, &mut ten).unwrap();
        assert_eq!(ten, content[77..87]);
    });
    costs(&store, Requests { get: 2, received: 1000 + 1001, ..none }, || {
        let got = opened(1000).read_ranges(&[1..2, 0..1001, 8..9]).unwrap();
        assert_eq!((&got[0][..], &got[1][..], &got[2][..]), (&content[1..2], &content[..1001], &content[8..9]));
    });
    costs(&store, Requests { get: 7, received: len, ..none }, || {
        let mut all = Vec::new();
        opened(u64::MAX).stream().read_to_end(&mut all).unwrap();
        assert!(all == content);
    });
    costs(&store, Requests { get: 1 + 7, received: len, ..none }, || {
        let file = opened(100);
        assert_eq!(file.read_ranges(&[0..100]).unwrap()[0], content[..100]);
        let mut all = Vec::new();
        file.stream().read_to_end(&mut all).unwrap();
        assert!(all == content);
    });
    plain.create(&p("empty"), &[]).unwrap();
    let missing = store.open_ahead(&p("missing"), 5).unwrap().open().unwrap_err();
    assert_eq!((missing.code(), missing.remedy_text()), (Code::NotFound, None), "{missing}");
    let empty = store.open_ahead(&p("empty"), 5).unwrap().open().unwrap();
    assert_eq!((empty.size(), empty.stream().read_to_end(&mut Vec::new()).unwrap()), (0, 0));

    // A stream is pieces of 8 MiB; a long range too, of which the size is asked for before memory is taken.
    costs(&store, Requests { get: 7, received: len, ..none }, || {
        let mut all = Vec::new();
        file.clone().stream().read_to_end(&mut all).unwrap();
        assert!(all == content);
    });
    costs(&store, Requests { head: 1, get: 7, received: len, ..none }, || {
        assert!(store.get_ranges(&path, &[0..len]).unwrap()[0] == content);
    });
    costs(&store, Requests { head: 1, ..none }, || {
        assert_eq!(store.get_ranges(&path, &[0..u64::MAX]).unwrap_err().code(), Code::Corrupt);
    });
    // Too long is found by the head of the answer.
    let before = store.requests();
    assert_eq!(store.get_at_most(&path, 1000).unwrap_err().code(), Code::Limit);
    let after = store.requests();
    assert!(after.get - before.get == 1 && after.received - before.received < 8 * MB);
    // A stream reads ahead no more than all of them may hold, but always one piece.
    let little = proxy.store(server, &plain.location(), &[("read_ahead", "8MiB")]);
    let [file_a, file_b] = [(); 2].map(|()| little.open_sized(&path, len).unwrap());
    let before = little.requests().get;
    let (mut a, mut b) = (file_a.stream(), file_b.stream());
    let mut piece = vec![0; 8 << 20];
    a.read_exact(&mut piece).unwrap();
    assert!(little.requests().get - before == 1 && piece == content[..8 << 20]);
    b.read_exact(&mut piece).unwrap();
    assert!(little.requests().get - before == 2 && piece == content[..8 << 20]);
    drop(a);
    let mut rest = Vec::new();
    b.read_to_end(&mut rest).unwrap();
    assert!(rest == content[8 << 20..]);
    // What is dropped is given up.
    proxy.set(json!({"fault": "hang"}));
    drop(file.clone().start_ranges(&[0..5]));
    let mut stream = file.stream();
    proxy.set(json!([]));
    stream.read_exact(&mut [0; 5]).unwrap();
    drop(stream);
}
