//! A JBOF data set of a folder of loose files: each file is copied byte for byte, and what is known of it becomes metadata.
//!
//! What is known of a file comes from its path ([`Pattern`]), from a table ([`Table`]), and from the header of audio (`samplerate`, `channels`,
//! `bits`, `duration` in seconds), which the others must not contradict. Files become arrays, of items by their names ([`ImportOptions::item`], [`ImportOptions::array`]).
//!
//! [`plan`] looks at everything and copies nothing; [`run`] copies into a hidden folder beside the destination, which takes its name when it is
//! complete. Run again after it was killed, it goes on where it was.
//!
//! ```
//! use sigbank::convert::import::{ImportOptions, plan, run};
//! use sigbank::format::array::npy;
//! let dir = tempfile::tempdir()?;
//! std::fs::create_dir_all(dir.path().join("loose/ann"))?;
//! let array = [npy::header(&"|u1".parse()?, &[2])?, vec![7, 8]].concat();
//! std::fs::write(dir.path().join("loose/ann/s1_02.npy"), array)?;
//! let options = ImportOptions { patterns: vec!["{speaker}/{session}_{take:int}.npy".parse()?], ..Default::default() };
//! let plan = plan(&dir.path().join("loose"), &options)?;
//! let report = run(&plan, &dir.path().join("set"), false, &mut |_, _| ())?;
//! assert_eq!((report.items, report.arrays, plan.items[0].name.as_str()), (1, 1, "ann-s1_02"));
//! let item = sigbank::layout::jbof::Dataset::open(&dir.path().join("set"))?.item("ann-s1_02")?;
//! assert_eq!(item.metadata()?.as_str(), r#"{"session":"s1","speaker":"ann","take":2}"#);
//! assert_eq!(&item.array("signal")?.elements()?.data()[..], [7, 8]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod csv;
mod pattern;
mod plan;
mod run;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_tables;

pub use self::csv::Csv;
pub use pattern::{Pattern, Template};
pub use plan::{ImportOptions, ImportPlan, PlannedArray, PlannedItem, plan};
pub use run::{ImportReport, check_dest, run};
pub use table::Table;

/// Endings of array files, in lower case; upper case counts the same.
const ENDINGS: [&str; 7] = ["wav", "wave", "flac", "ogg", "oga", "npy", "mat"];

/// The ending of an array file, in lower case; none where it is none.
fn ending(path: &str) -> Option<String> {
    let (_, ending) = path.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str()).then_some(ending)
}

/// A path without the ending of an array file.
fn without_ending(path: &str) -> &str {
    match (ending(path), path.rsplit_once('.')) {
        (Some(_), Some((stem, _))) => stem,
        _ => path,
    }
}
