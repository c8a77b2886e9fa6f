//! Any bytes as an npz archive, all its members.
#![no_main]

#[path = "windows.rs"]
mod windows;

use libfuzzer_sys::fuzz_target;
use sigbank_format::container::npz;
use std::sync::Arc;

fuzz_target!(|input: &[u8]| {
    let Ok(mut npz) = npz::open(Arc::new(bytes::Bytes::copy_from_slice(input))) else { return };
    let Ok(names) = npz.names() else { return };
    for name in names.iter().take(8) {
        let verified = npz.verify(name);
        if let Ok(mut reader) = npz.member(name)
            && let Some(array) = windows::check_reader(&mut *reader)
            && verified.is_ok()
        {
            assert!(npz.read(name).expect("was read and verified") == array);
        }
    }
});
