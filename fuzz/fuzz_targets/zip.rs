//! Any bytes as a zip archive: a member is the same from start to end and at any position.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sigbank_format::container::zip::Archive;
use std::io::Read;
use std::sync::Arc;

/// Members over so many bytes are opened only.
const LARGE: u64 = 1 << 24;

fuzz_target!(|input: &[u8]| {
    let Ok(archive) = Archive::open(Arc::new(bytes::Bytes::copy_from_slice(input))) else { return };
    for member in archive.members().iter().take(8) {
        let mut streamed = Vec::new();
        let whole = match archive.stream(member) {
            Ok(_) if member.size > LARGE => continue,
            Ok(stream) => stream.take(LARGE + 1).read_to_end(&mut streamed).is_ok(),
            Err(_) => false,
        };
        let Ok(file) = archive.read_at(member) else {
            // What a stream finds right is right.
            assert!(!whole, "{member:?}");
            continue;
        };
        assert_eq!(file.size(), member.size);
        let mut read = vec![0; file.size() as usize];
        let placed = file.read_at(0, &mut read).is_ok();
        assert!(!whole || (placed && streamed == read), "{member:?}");
        if placed && read.len() > 1 {
            let mut half = vec![0; read.len() / 2];
            let at = (read.len() - half.len()) as u64;
            file.read_at(at, &mut half).expect("was read before");
            assert!(read.ends_with(&half));
        }
        assert!(file.read_at(file.size(), &mut [0]).is_err(), "behind the end");
    }
});
