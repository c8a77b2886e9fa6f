//! Which records a dataset has, for having the same ones where it is opened again: in another process, after somebody added to it.

use super::{Places, Selected};
use crate::error::{Error, Result};
use crate::layout::Source;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

const JBOF: &str = "jbof";
const SEDPACK: &str = "sedpack";

/// What tells the records of a dataset from those that it may have later: of JBOF the names of its items, of Sedpack its shards, of a
/// signal-dataset, which is immutable, its digest. Its text form is JSON.
///
/// ```
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::jbof::{Creation, Dataset, JbofSource};
/// use sigbank::query::State;
/// use std::sync::Arc;
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
/// dataset.add_item(Some("b"), &Json::EMPTY)?;
/// let state = State::of(&JbofSource::new(dataset.clone())?)?;
/// dataset.add_item(Some("a"), &Json::EMPTY)?;
/// let again = state.restored(Arc::new(JbofSource::new(dataset.clone())?))?;
/// assert_eq!(again.ids("all", 0..1)?, ["b"]);
/// dataset.delete_item("b")?;
/// assert_eq!(state.restored(Arc::new(JbofSource::new(dataset)?)).unwrap_err().code(), sigbank::Code::Conflict);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    layout: String,
    /// Where it costs no reading of everything.
    digest: Option<String>,
    /// Of each split the items or shards in order, and how many records each has (none: one).
    splits: Vec<(String, Vec<String>, Option<Vec<u64>>)>,
}

impl State {
    /// The state of a source as it was opened.
    ///
    /// # Errors
    /// Those of the source's lists.
    pub fn of(source: &dyn Source) -> Result<Self> {
        let layout = source.layout().to_owned();
        let digest = if layout == JBOF { None } else { Some(source.root_digest()?) };
        let mut splits = Vec::new();
        for split in source.splits() {
            match layout.as_str() {
                JBOF => splits.push((split.name.clone(), source.ids(&split.name, 0..split.records)?, None)),
                SEDPACK => {
                    let units = source.units(&split.name)?;
                    let names = (0..units.len()).map(|unit| source.unit_name(&split.name, unit)).collect::<Result<_>>()?;
                    let counts = (0..units.len()).map(|unit| units.count(unit)).collect();
                    splits.push((split.name, names, Some(counts)));
                }
                _ => {}
            }
        }
        Ok(Self { layout, digest, splits })
    }

    /// The source itself where it has the records of this state, no others; else these of it.
    ///
    /// # Errors
    /// `Conflict` where some of them are not there any more, naming the first, and where the source is of another dataset; those of its lists.
    pub fn restored(&self, source: Arc<dyn Source>) -> Result<Arc<dyn Source>> {
        let changed = |what: String| {
            Error::conflict(format!("the dataset is not the one that it was when it was pickled: {what}"))
                .at(source.location())
                .remedy("open it again, and search or pickle what it is now")
        };
        if self.layout != source.layout() {
            return Err(changed(format!("it was of the layout {}, and is of {}", self.layout, source.layout())));
        }
        let now = Self::of(&*source)?;
        if self.digest.is_some() && self.digest == now.digest || self.layout == JBOF && *self == now {
            return Ok(source);
        }
        if !matches!(self.layout.as_str(), JBOF | SEDPACK) {
            let digest = |state: &Self| state.digest.clone().unwrap_or_default();
            return Err(changed(format!("its root was {}, and is {}", digest(self), digest(&now))));
        }
        let mut places = Places::new();
        for (split, names, counts) in &self.splits {
            let none = (split.clone(), Vec::new(), None);
            let (_, known, known_counts) = now.splits.iter().find(|(name, ..)| name == split).unwrap_or(&none);
            let (mut firsts, mut first) = (HashMap::with_capacity(known.len()), 0);
            for (at, name) in known.iter().enumerate() {
                let count = count(known_counts.as_deref(), at);
                firsts.insert(name.as_str(), (first, count));
                first += count;
            }
            let (mut ordinals, mut next) = (Vec::new(), 0);
            for (at, name) in names.iter().enumerate() {
                let what = if self.layout == JBOF { "the item" } else { "the shard" };
                let Some(&(first, found)) = firsts.get(name.as_str()) else {
                    return Err(changed(format!("{what} '{name}' is not there any more")));
                };
                let count = count(counts.as_deref(), at);
                if found != count {
                    return Err(changed(format!("{what} '{name}' had {count} records, and has {found}")));
                }
                if first < next {
                    return Err(changed(format!("{what} '{name}' has another place in the order")));
                }
                next = first + count;
                ordinals.extend(first..next);
            }
            places.insert(split.clone(), ordinals);
        }
        let names: Vec<&str> = self.splits.iter().map(|(name, ..)| name.as_str()).collect();
        // A split that lost all of its records has none to be missed.
        places.retain(|name, ordinals| !ordinals.is_empty() || now.splits.iter().any(|(known, ..)| known == name));
        Ok(Arc::new(Selected::new(source, places)?.only(&names)))
    }
}

fn count(counts: Option<&[u64]>, at: usize) -> u64 {
    counts.map_or(1, |counts| counts.get(at).copied().unwrap_or(0))
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

impl std::str::FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::corrupt(format!("this is no state of a dataset: {e}")))
    }
}
