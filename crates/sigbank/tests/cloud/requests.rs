//! What operations cost: exact numbers of requests, and of bytes.

use crate::support::*;
use sigbank::Code;
use sigbank::store::cloud::Requests;
use sigbank::store::{CloudStore, Expected, Store};

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
    let store = server.store();
    let none = Requests::default();
    // The first write looks whether the service keeps its word: two writes of the same name, one against a wrong version, a deletion.
    let first = cost(&store, || store.create(&p("first"), &[b"12345"]).unwrap());
    assert_eq!((first.put, first.delete, first.total()), (4, 1, 5));
    costs(&store, Requests { put: 1, sent: 4, ..none }, || store.create(&p("a/b"), &[b"12", b"34"]).unwrap());
    let again = cost(&store, || assert_eq!(store.create(&p("a/b"), &[b"12"]).unwrap_err().code(), Code::AlreadyExists));
    assert_eq!(again.total(), 1, "nothing is read back when no answer was lost");
    costs(&store, Requests { get: 1, received: 4, ..none }, || drop(store.get(&p("a/b")).unwrap()));
    costs(&store, Requests { get: 1, received: 4, ..none }, || drop(store.get_versioned(&p("a/b")).unwrap()));
    costs(&store, Requests { get: 1, received: 4, ..none }, || drop(store.get_at_most(&p("a/b"), 4).unwrap()));
    costs(&store, Requests { head: 1, ..none }, || drop(store.head(&p("a/b")).unwrap()));
    costs(&store, Requests { list: 1, ..none }, || {
        assert_eq!(store.list(None).unwrap().count(), 2);
    });
    let replaced = cost(&store, || drop(store.replace(&p("a/b"), &[b"x"], Expected::Any).unwrap()));
    assert_eq!((replaced.put, replaced.total(), replaced.sent), (1, 1, 1));
    costs(&store, Requests { delete: 1, ..none }, || store.delete(&p("a/b")).unwrap());
    // Another store of the same bucket knows already that the service keeps its word.
    let second = CloudStore::new(&fresh(server), &server.options(server.endpoint())).unwrap();
    costs(&second, Requests { put: 1, sent: 1, ..none }, || second.create(&p("c"), &[b"1"]).unwrap());
    costs(&second, none, || second.flush(&[p("c")]).unwrap());
}
