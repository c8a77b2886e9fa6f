//! Any bytes through each decompressor, whole and streamed, which must agree; what decodes must survive a round trip.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use sigbank_format::compress::{decode, decoder, encode};
use sigbank_format::registry::COMPRESSIONS;

const LIMIT: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((selector, data)) = input.split_first() else { return };
    let compression = COMPRESSIONS[usize::from(*selector) % COMPRESSIONS.len()];
    let whole = decode(compression, data, None, LIMIT);
    let Ok(reader) = decoder(compression, Box::new(data)) else { return };
    let mut streamed = Vec::new();
    let result = reader.take(LIMIT + 1).read_to_end(&mut streamed);
    match whole {
        Ok(whole) => {
            assert!(result.is_ok() && whole == streamed);
            let mut out = Vec::new();
            encode(compression, &[&whole], &mut out).expect("encodes");
            assert_eq!(decode(compression, &out, Some(whole.len()), LIMIT).expect("decodes"), whole);
        }
        Err(_) => assert!(result.is_err() || streamed.len() as u64 > LIMIT),
    }
});
