//! What every store promises.

use crate::support::*;
use sigbank::store::conformance;
use std::sync::Arc;

fn run(kind: Kind) {
    let Some(server) = server(kind) else { return };
    conformance::run(&|| Arc::new(server.store()));
}

#[test]
fn s3() {
    run(Kind::S3);
}

#[test]
fn azure() {
    run(Kind::Azure);
}

#[test]
fn gcs() {
    run(Kind::Gcs);
}
