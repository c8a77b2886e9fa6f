use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Mutex;

fn p(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

/// A store in a new directory, which lives as long as the test binary's `kept` list.
fn fresh(tactic: Tactic, guarded: bool, stage_privately: bool, kept: &Mutex<Vec<tempfile::TempDir>>) -> Arc<dyn Store> {
    let dir = tempfile::tempdir().unwrap();
    let mut store = LocalStore::open(dir.path()).unwrap();
    (store.tactic, store.stage_privately) = (tactic, stage_privately);
    store.root.guarded &= guarded;
    kept.lock().unwrap().push(dir);
    Arc::new(store)
}

fn conforms(tactic: Tactic, guarded: bool, stage_privately: bool) {
    let kept = Mutex::new(Vec::new());
    conformance::run(&|| fresh(tactic, guarded, stage_privately, &kept));
    for dir in kept.lock().unwrap().iter() {
        assert_eq!(temporaries(dir.path()), Vec::<String>::new());
    }
}

fn temporaries(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(TEMPORARY) {
            found.push(name);
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(temporaries(&entry.path()));
        }
    }
    found
}

#[test]
fn conformance_with_rename() {
    conforms(Tactic::Rename, true, false);
}

#[test]
fn conformance_with_links_and_without_the_kernels_guard() {
    conforms(Tactic::Link, false, false);
}

#[test]
fn conformance_with_claim_files_and_private_staging() {
    conforms(Tactic::Claim, true, true);
}
