//! The picture of ARCHITECTURE.md as tables, and the test that holds the sources to it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // All of this file is test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Module of `crates/sigbank/src` → what it may use of the same crate. Each may use what lies below it, none what lies above.
const MODULES: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("uri", &["error"]),
    ("store", &["error", "uri"]),
    ("pages", &[]),
    ("layout", &["error", "uri", "pages", "store"]),
    ("query", &["error", "uri", "store", "layout"]),
    ("loader", &["error", "uri", "pages", "store", "layout", "query"]),
    ("convert", &["error", "uri", "store", "layout", "query", "loader"]),
];

/// Crate → what it may depend on of this workspace.
const CRATES: &[(&str, &[&str])] = &[
    ("sigbank-format", &[]),
    ("sigbank", &["sigbank-format"]),
    ("sigbank-cli", &["sigbank", "sigbank-format"]),
    // The wheel carries the command.
    ("sigbank-python", &["sigbank", "sigbank-format", "sigbank-cli"]),
];

/// What `sigbank-format` may not use of std: it works in memory, so that each decoder can be fuzzed.
const NOT_IN_FORMAT: &[&str] = &["fs", "net", "thread"];

/// The only files in which `unsafe` may stand.
const UNSAFE: &[&str] = &[
    "crates/sigbank/src/pages.rs",
    "crates/sigbank/src/loader/rows.rs",
    "crates/sigbank-python/src/convert.rs",
    // Tests that fork: there is no safe call for it.
    "crates/sigbank/tests/loader_fork.rs",
    "crates/sigbank/tests/cloud/processes.rs",
];

const LONGEST: usize = 500;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below `dir` with one of these extensions, as paths relative to the repository, without what is built or hidden.
fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(next) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy();
            let skipped = name.starts_with('.') || ["target", "dist", "demo", "node_modules", "__pycache__"].contains(&&*name);
            if path.is_dir() && !skipped && !path.is_symlink() {
                left.push(path);
            } else if path.is_file() && path.extension().is_some_and(|e| extensions.iter().any(|wanted| e == *wanted)) {
                found.push(path.strip_prefix(repository()).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The code alone: no comments, which may name anything.
fn code(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The code without its tests, which may use whatever they need; `None` for a file that is all test.
fn product(path: &Path, source: &str) -> Option<String> {
    let stem = path.file_stem().unwrap().to_string_lossy();
    let test = stem == "tests" || stem.ends_with("_tests") || path.iter().any(|part| part == "tests");
    let code = code(source);
    // Inline tests stand last in their file.
    let inline = code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|at| {
        let item = code[*at + "#[cfg(test)]".len()..].trim_start();
        item.starts_with("mod ") && item.find('{').is_some_and(|brace| item.find(';').is_none_or(|end| brace < end))
    });
    (!test).then(|| code[..inline.unwrap_or(code.len())].to_owned())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first names after `root::` wherever it stands, also in `root::{a::b, c}`.
fn names_after(code: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let prefix = format!("{root}::");
    for (at, _) in code.match_indices(&prefix) {
        if code[..at].ends_with(is_word) || code[..at].ends_with("::") {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(rest.chars().take_while(|c| is_word(*c)).collect());
            continue;
        };
        let (mut depth, mut name, mut taken) = (0, String::new(), false);
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.insert(std::mem::take(&mut name));
                    taken = false;
                }
                c if depth == 0 && !taken && is_word(c) => name.push(c),
                _ => taken |= !name.is_empty(),
            }
        }
        found.insert(name);
    }
    found.retain(|name| !name.is_empty());
    found
}

/// What the root of the crate hands on: name → module (`pub use error::{Code, Error}`, `pub use sigbank_format as format`).
fn re_exports() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in code(&read(Path::new("crates/sigbank/src/lib.rs"))).split(';') {
        let Some(path) = line.trim().strip_prefix("pub use ") else { continue };
        let module: String = path.chars().take_while(|c| is_word(*c)).collect();
        let names = path.trim_start_matches(&module);
        for name in names.split(|c| !is_word(c)).filter(|name| !name.is_empty() && *name != "as") {
            found.insert(name.to_owned(), module.clone());
        }
    }
    found
}

#[test]
fn no_module_imports_upward() {
    let src = repository().join("crates/sigbank/src");
    let re_exports = re_exports();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in files(&src, &["rs"]) {
        let inside = path.strip_prefix("crates/sigbank/src").unwrap();
        let module = inside.components().next().unwrap().as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: the module {module} has no place in the picture", path.display()));
            continue;
        };
        let Some(code) = product(&path, &read(&path)) else { continue };
        let mut used = names_after(&code, "crate");
        // A way up that ends in another module's name is an import of it too.
        let up = names_after(&code.replace("super::super::", "super::").replace("super::super::", "super::"), "super");
        used.extend(
            up.into_iter()
                .filter(|name| MODULES.iter().any(|(module, _)| module == name) && !src.join(&module).join(name).exists()),
        );
        for name in used {
            let name = re_exports.get(&name).unwrap_or(&name);
            seen += 1;
            if *name != module && name != "sigbank_format" && !allowed.contains(&name.as_str()) {
                wrong.push(format!("{}: {module} may not use {name}, only {allowed:?}", path.display()));
            }
        }
    }
    assert!(seen > 10, "the test read no imports: has the tree moved?");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn crates_depend_downward() {
    let mut wrong = Vec::new();
    for (name, allowed) in CRATES {
        let manifest = read(Path::new(&format!("crates/{name}/Cargo.toml")));
        let mut section = "";
        for line in manifest.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
            }
            // Dev-dependencies are the tests' own.
            let depends = section.contains("dependencies") && !section.contains("dev-dependencies");
            let dependency: String =
                line.trim_start_matches("[dependencies.").chars().take_while(|c| is_word(*c) || *c == '-').collect();
            let ours = CRATES.iter().any(|(ours, _)| **ours == *dependency);
            if depends && ours && !allowed.contains(&dependency.as_str()) {
                wrong.push(format!("{name} may not depend on {dependency}, only on {allowed:?}"));
            }
        }
    }
    let there = std::fs::read_dir(repository().join("crates"))
        .unwrap()
        .filter(|e| e.as_ref().unwrap().path().join("Cargo.toml").exists());
    assert_eq!(there.count(), CRATES.len(), "a crate has no place in the picture");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_codecs_touch_no_files_network_or_threads() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in files(&repository().join("crates/sigbank-format/src"), &["rs"]) {
        let Some(code) = product(&path, &read(&path)) else { continue };
        let used = names_after(&code, "std");
        seen += used.len();
        wrong.extend(
            used.iter()
                .filter(|name| NOT_IN_FORMAT.contains(&name.as_str()))
                .map(|name| format!("{}: std::{name}", path.display())),
        );
    }
    assert!(seen > 10, "the test read no imports: has the tree moved?");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The keyword in use; the word may stand in a string.
fn has_unsafe(source: &str) -> bool {
    let code = code(source);
    code.match_indices("unsafe").any(|(at, word)| {
        let next = code[at + word.len()..].trim_start();
        !code[..at].ends_with(is_word)
            && ["{", "(", "fn ", "impl", "trait ", "extern "].iter().any(|start| next.starts_with(start))
    })
}

#[test]
fn unsafe_stands_in_its_files_only() {
    let here = Path::new("crates/sigbank/tests/architecture.rs");
    let allowed = |path: &PathBuf| path == here || UNSAFE.iter().any(|allowed| path == Path::new(allowed));
    let wrong: Vec<PathBuf> = files(&repository().join("crates"), &["rs"])
        .into_iter()
        .filter(|path| !allowed(path) && has_unsafe(&read(path)))
        .collect();
    assert!(wrong.is_empty(), "these files may not hold `unsafe`: {wrong:?}");
}

#[test]
fn no_source_file_is_too_long() {
    let mut wrong = Vec::new();
    for path in files(&repository(), &["rs", "py", "pyi", "m"]) {
        let source = std::fs::read(repository().join(&path)).unwrap();
        let generated =
            source.split(|byte| *byte == b'\n').take(3).any(|line| String::from_utf8_lossy(line).contains("@generated"));
        let lines = source.iter().filter(|byte| **byte == b'\n').count();
        if lines > LONGEST && !generated {
            wrong.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "over {LONGEST} lines (split by meaning, or mark generated code with @generated):\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_reader_of_imports_sees_them_all() {
    let names = |code, root| names_after(code, root).into_iter().collect::<Vec<_>>();
    assert_eq!(names("use crate::a::b; let x = crate::c::d(); $crate::e!()", "crate"), ["a", "c", "e"]);
    assert_eq!(names("use crate::{a, b::{c, d}, e as f,\n g::*};", "crate"), ["a", "b", "e", "g"]);
    assert_eq!(names("use other_crate::a; use x::crate::b;", "crate"), Vec::<String>::new());
    assert_eq!(names("use std::{fs, io}; std::net::x()", "std"), ["fs", "io", "net"]);
    assert_eq!(code("a // use crate::b\nc"), "a \nc");
    let source = "use crate::a;\n#[cfg(test)]\nmod tests;\nuse crate::b;\n#[cfg(test)]\nmod tests {\n use crate::c; }";
    assert_eq!(names(&product(Path::new("x.rs"), source).unwrap(), "crate"), ["a", "b"]);
    assert!(product(Path::new("x/tests.rs"), source).is_none());
    assert!(
        ["x = unsafe { y }", "unsafe\nfn f()", "unsafe impl<T> X", "#[unsafe(no_mangle)]"].iter().all(|code| has_unsafe(code))
    );
    assert!(!has_unsafe("casting = \"unsafe\"; not_unsafe()") && !has_unsafe("#![deny(unsafe_code)] // unsafe"));
}
