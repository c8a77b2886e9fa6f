use super::*;
use crate::registry::CHECKSUMS;

/// Of testdata/compress/plain and of nothing, by hashlib and xxhash (see generate.py there).
const EXPECTED: &[(&str, &str, &str)] = &[
    ("md5", "23445dc8290416945070ff8315e680d6", "d41d8cd98f00b204e9800998ecf8427e"),
    ("sha1", "df4751b35bfc0dd5ddc4781b1acfbe78af7c2f42", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    (
        "sha224",
        "6d33d60ee2175cbb18cd5095b76671232f799631b8aa071140e678f3",
        "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
    ),
    (
        "sha256",
        "afad15d640043ad4daddcf289d8b21f007b49affe63335b28bd03cb665061159",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    (
        "sha384",
        "3f442f977ad3cb03a04cd4784698da0f93725e53a33ef88f2e784cb0659ae65729c24b66442d35e885835373b5f54709",
        "38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b",
    ),
    (
        "sha512",
        "1755cc675246a3899f6d3cc27396b513c5081406d8d4ae5986a8cbaa61c3f6df7a288d25214a2dcafb28f3ba65cc7355e669ff02cc15f52c0ebf0e2e08f6c888",
        "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
    ),
    (
        "sha3_224",
        "0239fecf85175b85348d4218e783aeeb3a63730646830950fafd948e",
        "6b4e03423667dbb73b6e15454f0eb1abd4597f9a1b078e3f5b5a6bc7",
    ),
    (
        "sha3_256",
        "dcc7fc1fcb190faa072f03d07119422ba5890f6db4bdfb66c6d9b3ba6d94a3aa",
        "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
    ),
    (
        "sha3_384",
        "28b4af0290e482947fff4c7f1eba157756a0245a1ae4de76fe2103e84c80fd6b4ffc3de06234ae4bfd2e87d2776f2ab0",
        "0c63a75b845e4f7d01107d852e4c2485c51a50aaaa94fc61995e71bbee983a2ac3713831264adb47fb6bd1e058d5f004",
    ),
    (
        "sha3_512",
        "34ff174bedccdcd6209fffff98dfe8099516243bdf412d28b3284770d307887d2800b9893b82ccbf361a4a1995943832e6bb2ef72db578259143f97c08fc2e94",
        "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a615b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
    ),
    ("xxh32", "b6faafe8", "02cc5d05"),
    ("xxh64", "1c19b8d12717d64f", "ef46db3751d8e999"),
    ("xxh128", "1ea1dae02633279a28f26cc5de70cc0a", "99aa06d3014798d86001c324468d497f"),
];

const PLAIN: &[u8] = include_bytes!("../../testdata/compress/plain");

#[test]
fn digests_equal_those_of_the_python_libraries() {
    let names: Vec<_> = EXPECTED.iter().map(|e| e.0).collect();
    assert_eq!(names, CHECKSUMS.iter().map(|a| a.as_str()).collect::<Vec<_>>());
    for (name, plain, empty) in EXPECTED {
        let algorithm: Algorithm = name.parse().unwrap();
        assert_eq!(digest_all(&[algorithm], &[PLAIN]), [*plain], "{name}");
        assert_eq!(digest_all(&[algorithm], &[]), [*empty], "{name}");
    }
}

#[test]
fn pieces_and_chunks_make_no_difference() {
    let data: Vec<u8> = (0..700_001_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let whole: Vec<_> = CHECKSUMS
        .iter()
        .map(|a| {
            let mut hasher = a.hasher();
            hasher.update(&data);
            hasher.finish()
        })
        .collect();
    let (a, b) = data.split_at(300_007);
    assert_eq!(digest_all(CHECKSUMS, &[a, &[], b]), whole);
}

#[test]
fn an_unknown_name_gets_the_list() {
    let error = "SHA256".parse::<Algorithm>().unwrap_err().to_string();
    assert!(error.contains("\"SHA256\"") && error.contains("md5") && error.contains("xxh128"), "{error}");
}
