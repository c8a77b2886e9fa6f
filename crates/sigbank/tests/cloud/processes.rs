//! Many writers at once, forks, and callers that are in a runtime of their own.
#![allow(unsafe_code)]

use crate::support::*;
use sigbank::Code;
use sigbank::store::{CloudStore, Store};
use std::io::Read;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

const KINDS: [Kind; 3] = [Kind::S3, Kind::Azure, Kind::Gcs];

/// Of eight processes, made by fork from one that has connections and threads, exactly one makes each name.
#[test]
fn one_of_eight_processes_wins() {
    for kind in KINDS {
        let Some(server) = server(kind) else { continue };
        let store = server.store();
        store.create(&p("warm"), &[b"1"]).unwrap();
        let mut children = Vec::new();
        for child in 0..8u8 {
            // SAFETY: the child uses this store only, which makes threads and connections of its own, and leaves by `_exit`.
            match unsafe { fork() } {
                0 => {
                    // SAFETY: plain system calls; the alarm ends a child that hangs.
                    unsafe { alarm(60) };
                    let mut won = 0;
                    for round in 0..12 {
                        match store.create(&p(&format!("race/{round}")), &[&[child; 30_000]]) {
                            Ok(()) => won += 1,
                            Err(e) if e.code() == Code::AlreadyExists => {}
                            Err(_) => won = 100,
                        }
                    }
                    // SAFETY: ends the process.
                    unsafe { _exit(won) }
                }
                pid => children.push(pid),
            }
        }
        let mut won = 0;
        for pid in children {
            let mut status = -1;
            // SAFETY: waits for a child made above.
            unsafe { waitpid(pid, &mut status, 0) };
            assert!(status & 0x7f == 0, "{kind:?}: a child was ended by signal {}", status & 0x7f);
            won += status >> 8;
        }
        assert_eq!(won, 12, "{kind:?}: winners of 12 names");
        for round in 0..12 {
            let bytes = store.get(&p(&format!("race/{round}"))).unwrap();
            assert!(bytes.len() == 30_000 && bytes.iter().all(|byte| *byte == bytes[0]));
        }
    }
}

/// What a parent opened and began, a child reads on by requests of its own.
#[test]
fn a_child_goes_on_reading() {
    let Some(server) = server(Kind::S3) else { return };
    let (store, content) = (server.store(), bytes(40_000_000, 6));
    store.create(&p("x"), &[&content]).unwrap();
    let file = store.open_read(&p("x")).unwrap();
    let mut stream = file.clone().stream();
    let mut all = vec![0; 9_000_001];
    stream.read_exact(&mut all).unwrap();
    let begun = file.clone().start_ranges(&[0..10]);
    // SAFETY: as above.
    let child = unsafe { fork() };
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe { alarm(60) };
        let streamed = stream.read_to_end(&mut all).is_ok() && all == content;
        let given_up = begun.is_ready() && begun.wait().is_err_and(|e| e.to_string().contains("forked"));
        let anew = file.read_ranges(&[5..10]).is_ok_and(|got| got[0] == content[5..10]);
        // SAFETY: ends the process.
        unsafe { _exit(i32::from(!streamed) + 2 * i32::from(!given_up) + 4 * i32::from(!anew)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    unsafe { waitpid(child, &mut status, 0) };
    assert_eq!(status, 0, "of the child");
    stream.read_to_end(&mut all).unwrap();
    assert!(all == content);
    assert_eq!(begun.wait().unwrap()[0], content[..10]);
}

#[test]
fn a_caller_may_be_inside_a_runtime() {
    let Some(server) = server(Kind::S3) else { return };
    let store = server.store();
    for threads in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
        let (store, name) = (store.clone(), p(&format!("inside{threads}")));
        runtime.block_on(async {
            store.create(&name, &[b"12345"]).unwrap();
            assert_eq!(store.get(&name).unwrap(), &b"12345"[..]);
            let file = store.open_read(&name).unwrap();
            let mut text = String::new();
            file.clone().stream().read_to_string(&mut text).unwrap();
            assert_eq!(text, "12345");
            assert_eq!(file.start_ranges(&[1..3, 0..1]).wait().unwrap(), [&b"23"[..], b"1"]);
        });
        runtime.spawn(async move { drop(store) });
    }
    let current = tokio::runtime::Builder::new_current_thread().build().unwrap();
    current.block_on(async {
        let another = CloudStore::new(&store.location(), &server.options(server.endpoint())).unwrap();
        assert_eq!(another.list(None).unwrap().count(), 2);
    });
}
