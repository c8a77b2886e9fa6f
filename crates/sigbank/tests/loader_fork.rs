//! A loader whose process forks goes on in the child. Alone in its file: a fork wants few other threads.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing)]
#[path = "support/memory.rs"]
mod memory;

use memory::Memory;
use sigbank::loader::{Batch, Column, Loader, Options, Shuffle};
use std::sync::Arc;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

fn bytes(batch: &Batch) -> Vec<u8> {
    match batch.columns.first() {
        Some(Column::Fixed(b)) => b.to_vec(),
        _ => Vec::new(),
    }
}

#[test]
fn a_forked_child_goes_on_where_the_parent_was() {
    let source = Arc::new(Memory::new(&[400; 20], 2000, false));
    let options = Options { threads: 3, shuffle: Shuffle::Buffer(500), seed: 5, ..Options::new("train", 64) };
    let all: Vec<_> = Loader::new(source.clone(), options.clone()).unwrap().map(|b| bytes(&b.unwrap())).collect();
    assert_eq!(all.len(), 125);
    for round in 0..20 {
        let mut loader = Loader::new(source.clone(), options.clone()).unwrap();
        let mut held: Vec<_> = loader.by_ref().take(round).map(|b| b.unwrap()).collect();
        // SAFETY: the child only loads, which makes threads and memory of its own, and leaves by `_exit`.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: plain system calls; the alarm ends a child that hangs.
            unsafe { alarm(30) };
            held.clear();
            let same = loader.by_ref().map(|b| b.map(|b| bytes(&b)).unwrap_or_default()).eq(all[round..].iter().cloned());
            drop(loader);
            unsafe { _exit(if same { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!((child > 0, unsafe { waitpid(child, &mut status, 0) }), (true, child));
        assert_eq!(status, 0, "the child of round {round} failed or hung");
        assert!(loader.map(|b| bytes(&b.unwrap())).eq(all[round..].iter().cloned()), "the parent's goes on too");
    }
}
