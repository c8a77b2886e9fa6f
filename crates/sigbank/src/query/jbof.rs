//! Search in JBOF data sets: the items as a [`Table`], brought up to date before each search, and kept beside the data for the next program.

mod describe;
mod kept;
mod look;

pub use describe::{Described, described};

use super::columns::Texts;
use super::parallel::parallel;
use super::records::unsearched;
use super::table::TableBuilder;
use super::{Expr, Field, ONLY_SPLIT, Record, Table, Unknown};
use crate::error::{Code, Error, Result};
use crate::layout::jbof::scan::{self, Document};
use crate::layout::jbof::{ArrayDescription, Dataset};
use bytes::Bytes;
use look::Eyes;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the index is, below the root: in the directory that every reader skips.
pub const INDEX: &str = "__pycache__/sigbank/index.parquet";
const LAYOUT: &str = "jbof";
/// Data sets of fewer items are read as quickly as an index is.
const WORTH_IT: usize = 500;
/// Items that a thread takes at once.
const BATCH: usize = 256;

/// What becomes of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// It is used, and left for the next program where that gains something: for some hundred items, where many were read anew, and where
    /// writing is permitted.
    #[default]
    Auto,
    /// It is used, and never written.
    Use,
    /// It is neither used nor written.
    Ignore,
}

impl Keep {
    /// What the environment variable `SIGBANK_INDEX` says: `auto` (as where it is not set), `use` or `ignore`.
    ///
    /// # Errors
    /// `Invalid` for another word.
    pub fn chosen() -> Result<Self> {
        match std::env::var_os("SIGBANK_INDEX").as_ref().map(|word| word.to_str()) {
            None | Some(Some("auto" | "")) => Ok(Self::Auto),
            Some(Some("use")) => Ok(Self::Use),
            Some(Some("ignore")) => Ok(Self::Ignore),
            Some(other) => {
                let found = other.unwrap_or("no text");
                Err(Error::invalid(format!("the environment variable SIGBANK_INDEX is auto, use or ignore, found {found:?}")))
            }
        }
    }
}

/// The items of a data set and what is said of them, as of the last [`Catalog::refresh`].
///
/// What was read once, by this program or by the one that left the index, is taken for an item only while its `_metadata.json` has the
/// inode, size and times that it had then; fields, while the item's directory and the files of its arrays have. So neither can be wrong, whoever
/// changed what in between. [`Catalog::refresh_each`] looks at each item every time; [`Catalog::refresh`] of a catalog that was refreshed before
/// only where items came or went since: a metadata file that is edited by hand shows to it in the next catalog, or when fields are asked for.
///
/// In a bucket an index is left on demand only ([`Catalog::write_index`]), and taken for all items while a listing of all files (a request for each
/// thousand) is what it was then, sizes and times included; else, and in zip archives, all is read anew.
///
/// ```
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::jbof::{Creation, Dataset};
/// use sigbank::query::jbof::{Catalog, Keep, Odd};
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
/// for n in 0..3 {
///     dataset.add_item(Some(&format!("x{n}")), &Json::parse(format!("{{\"snr\": {n}}}").as_bytes(), &Default::default())?)?;
/// }
/// let mut catalog = Catalog::new(Keep::Auto);
/// let expr = "snr >= 1".parse()?;
/// catalog.refresh(&dataset, &expr, 0)?;
/// let found = catalog.find(&expr, Odd::Expr, None)?;
/// assert_eq!(found.iter().map(|hit| catalog.table().id(hit.row)).collect::<Vec<_>>(), ["x1", "x2"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Catalog {
    keep: Keep,
    table: Table,
    loaded: bool,
    /// The documents that are no plain JSON objects, and their digests.
    odd: BTreeMap<usize, (u128, Bytes)>,
    /// The root's digest when it was last listed, if nothing can have changed unseen since.
    seen: Option<u128>,
    /// How many items the kept index does not know as they are.
    stale: usize,
    warning: Option<String>,
}

/// Who answers for documents that are no plain JSON objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// The caller: all of them are found.
    Caller,
    /// The expression, as far as they can be read: infinities are beyond all numbers, NaN is null, and what is no object has no keys. Damaged
    /// ones are left out: [`Catalog::unsearched`] tells of them.
    Expr,
}

/// An item that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Its row in the table.
    pub row: usize,
    /// Whether the expression holds for it; else its document is one that [`Odd`] leaves to the caller.
    pub certain: bool,
}

/// What is known of an item now.
enum Seen {
    /// What the table has of it stands.
    Same(usize),
    Read(Box<Fresh>),
}

/// An item that was read.
struct Fresh {
    name: String,
    document: Document,
    stamp: u128,
    /// What its fields were known under.
    field_stamp: u128,
}

impl Catalog {
    /// An empty one.
    pub fn new(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }
    /// The items, sorted by name.
    pub fn table(&self) -> &Table {
        &self.table
    }
    /// What was wrong with a kept index, once: it is made anew.
    pub fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }
    /// The document of an item that is no plain JSON object, as it stands.
    pub fn odd_document(&self, row: usize) -> Option<&[u8]> {
        self.odd.get(&row).map(|(_, text)| &text[..])
    }
    /// The text of an item's document: compact where it is a JSON object, else as it stands.
    ///
    /// # Errors
    /// `Corrupt` where the index is damaged.
    pub fn document(&self, row: usize) -> Result<&[u8]> {
        match self.odd_document(row) {
            Some(text) => Ok(text),
            None => self.table.metadata(row).map(str::as_bytes),
        }
    }

    /// The items for which an expression holds, in the order of their names, up to `limit` certain ones.
    ///
    /// # Errors
    /// Those of [`Table::select`].
    pub fn find(&self, expr: &Expr, odd: Odd, limit: Option<usize>) -> Result<Vec<Hit>> {
        let apart: Vec<usize> = match odd {
            Odd::Caller => self.odd.keys().copied().collect(),
            Odd::Expr => self.damaged(),
        };
        let expr = expr.in_split(ONLY_SPLIT);
        let mut held = self.table.select(&expr)?;
        if odd == Odd::Expr {
            self.infinite(&expr, &mut held)?;
        }
        let held = held.into_iter().filter(|row| apart.binary_search(row).is_err());
        let mut hits: Vec<Hit> = held.map(|row| Hit { row, certain: true }).collect();
        if odd == Odd::Caller {
            hits.extend(apart.into_iter().map(|row| Hit { row, certain: false }));
        }
        hits.sort_unstable_by_key(|hit| hit.row);
        let mut left = limit.unwrap_or(usize::MAX);
        let end = hits.iter().position(|hit| {
            let full = left == 0;
            left -= usize::from(hit.certain && !full);
            full
        });
        hits.truncate(end.unwrap_or(hits.len()));
        Ok(hits)
    }
    /// Asks items again whose documents have infinities: in the table these are null.
    fn infinite(&self, expr: &Expr, held: &mut Vec<usize>) -> Result<()> {
        let odd = self.odd.iter().filter_map(|(row, (_, text))| Some((*row, scan::with_infinities(text)?)));
        for (row, metadata) in odd {
            let fields = if expr.needs_fields() { self.table.fields(row)? } else { Vec::new() };
            let holds = expr.matches(&Record::new(self.table.id(row), &metadata).with_fields(&fields))?;
            match (held.binary_search(&row), holds) {
                (Ok(at), false) => drop(held.remove(at)),
                (Err(at), true) => held.insert(at, row),
                _ => {}
            }
        }
        Ok(())
    }
    /// What is to be said of items that no expression can be asked of: how many, and which. None where there are none.
    pub fn unsearched(&self) -> Option<String> {
        let rows = self.damaged();
        let names = rows.iter().map(|row| self.table.id(*row));
        unsearched(
            "item",
            rows.len(),
            names,
            "its _metadata.json is no JSON, or one that programs read differently (a key twice, half a \
             surrogate pair, more than 128 deep): write it anew, or delete the item",
        )
    }
    fn damaged(&self) -> Vec<usize> {
        self.odd.iter().filter(|(_, (_, text))| !scan::is_readable(text)).map(|(row, _)| *row).collect()
    }
    /// See [`Table::unknown`].
    ///
    /// # Errors
    /// Those of [`Table::unknown`].
    pub fn unknown(&self, expr: &Expr) -> Result<Vec<Unknown>> {
        self.table.unknown(expr)
    }

    /// Looks what changed, as far as the expression needs it. Where nothing came or went since the last time that costs one look at the
    /// root; else a look at each item, and reading those that are new or changed. Runs on `threads` threads; 0: one a core.
    ///
    /// # Errors
    /// Those of listing and reading. A damaged document is none: see [`Odd`].
    pub fn refresh(&mut self, dataset: &Dataset, expr: &Expr, threads: usize) -> Result<()> {
        self.refreshed(dataset, expr, false, threads)
    }

    /// As [`Catalog::refresh`], with a look at each item in any case: what was edited by hand shows too.
    ///
    /// # Errors
    /// Those of [`Catalog::refresh`].
    pub fn refresh_each(&mut self, dataset: &Dataset, expr: &Expr, threads: usize) -> Result<()> {
        self.refreshed(dataset, expr, true, threads)
    }

    fn refreshed(&mut self, dataset: &Dataset, expr: &Expr, each: bool, threads: usize) -> Result<()> {
        let eyes = Eyes::new(dataset, self.keep != Keep::Ignore)?;
        self.bring_up(dataset, &eyes, each, expr.needs_fields(), threads)?;
        let many = (self.table.len() / 20).clamp(64, 2000);
        // In a bucket only on demand: it may be anyone's.
        let auto = self.keep == Keep::Auto && dataset.local_root().is_some();
        if auto && self.table.len() >= WORTH_IT && self.stale >= many.min(self.table.len()) {
            // It is a help, no more: where it cannot be written, nothing is lost.
            let _ = self.save(dataset);
        }
        Ok(())
    }

    /// Brings the index up to date and writes it, with the items' fields where `fields` says so; gives the path. It is an
    /// error where it cannot be.
    ///
    /// # Errors
    /// Those of [`Catalog::refresh`]; `ReadOnly`, `Storage` where the index cannot be written; `Unsupported` where the data set is neither in a
    /// folder nor in a bucket; `Conflict` where somebody goes on writing to it in a bucket.
    pub fn write_index(&mut self, dataset: &Dataset, fields: bool, threads: usize) -> Result<PathBuf> {
        let eyes = Eyes::to_keep(dataset)?;
        self.bring_up(dataset, &eyes, true, fields, threads)?;
        self.save(dataset)
    }

    fn bring_up(&mut self, dataset: &Dataset, eyes: &Eyes, each: bool, fields: bool, threads: usize) -> Result<()> {
        let root = eyes.root();
        let known = root.map(|stamp| stamp.digest);
        // A listing tells of every file, the root's times of what came and went.
        if known.is_some() && known == self.seen && !fields && (!each || eyes.is_listing()) {
            return Ok(());
        }
        let mut listed = known.is_some() && known == self.seen;
        if !self.loaded && self.keep != Keep::Ignore {
            listed = self.load(dataset) == known && known.is_some();
        }
        self.loaded = true;
        if eyes.is_listing() && !listed {
            // The listing stands for all or for nothing.
            (self.table, self.odd) = (Table::default(), BTreeMap::new());
        }
        let names: Option<Vec<String>> = if listed { None } else { Some(eyes.candidates(dataset)?) };
        let count = names.as_ref().map_or(self.table.len(), Vec::len);
        let name = |at: usize| names.as_ref().map_or_else(|| self.table.id(at), |names| names.get(at).map_or("", String::as_str));
        let seen = parallel(count, BATCH, threads, |range, out| {
            let mut row = None;
            for at in range {
                let item = name(at);
                // Both are sorted: mostly, the next one is the next.
                row = row.map(|row| row + 1).filter(|&row| self.table.id(row) == item).or_else(|| self.table.row_of(item));
                out.push(self.look(dataset, eyes, item, row)?);
            }
            Ok(())
        })?;
        // A directory that is no item may become one without a sign in the root.
        let whole = seen.iter().all(Option::is_some);
        let seen: Vec<Seen> = seen.into_iter().flatten().collect();
        let anew =
            seen.iter().filter(|seen| matches!(seen, Seen::Read(fresh) if matches!(fresh.document, Document::Object(_)))).count();
        let kept = seen.iter().filter(|seen| matches!(seen, Seen::Same(_))).count();
        if kept != self.table.len() || kept != seen.len() {
            self.stale += anew.max(self.table.len() - kept);
            self.rebuild(seen)?;
        }
        let lasting = |stamp: &scan::Stamp| (stamp.lasting || (eyes.is_listing() && listed)) && whole;
        self.seen = root.filter(lasting).map(|stamp| stamp.digest);
        if self.seen.is_some() && self.table.layout().is_some() && self.table.root().is_none() {
            // It was written before the root could be told from a later one, and now costs a listing each time.
            self.stale = self.table.len();
        }
        if fields {
            self.describe(dataset, eyes, threads)?;
        }
        Ok(())
    }

    /// Takes the kept index, and gives the digest of the root that it is of.
    fn load(&mut self, dataset: &Dataset) -> Option<u128> {
        match kept::open(dataset).and_then(|table| table.sorted_by_id().map(|()| table)) {
            // What is no name leads out of the data set.
            Ok(table) if table.layout() == Some(LAYOUT) && (0..table.len()).all(|row| scan::is_name(table.id(row))) => {
                let root = table.root();
                self.table = table;
                root
            }
            Ok(_) => None,
            Err(e) => {
                if e.code() == Code::Corrupt {
                    self.warning = Some(format!("{e}; it is passed over"));
                }
                None
            }
        }
    }

    /// None for a directory that is no item (any more).
    fn look(&self, dataset: &Dataset, eyes: &Eyes, item: &str, row: Option<usize>) -> Result<Option<Seen>> {
        let known = row.and_then(|row| match self.odd.get(&row) {
            Some((digest, _)) => Some((row, *digest)),
            None => self.table.stamps().ok()?.get(row).map(|digest| (row, *digest)),
        });
        if let Some((row, known)) = known.filter(|(_, known)| *known != 0)
            && eyes.document(item).is_some_and(|stamp| stamp.digest == known)
        {
            return Ok(Some(Seen::Same(row)));
        }
        let Some((document, stamp)) = eyes.read(dataset, item)? else { return Ok(None) };
        let field_stamp = row.and_then(|row| self.table.field_stamps().ok()?.get(row)).copied().unwrap_or(0);
        Ok(Some(Seen::Read(Box::new(Fresh { name: item.to_owned(), document, stamp, field_stamp }))))
    }

    /// A table of what stands and what was read.
    fn rebuild(&mut self, seen: Vec<Seen>) -> Result<()> {
        let old = &self.table;
        let (old_stamps, old_field_stamps) = (old.stamps()?, old.field_stamps()?);
        let mut new = if old.is_described() { TableBuilder::described() } else { TableBuilder::default() };
        let mut odd = BTreeMap::new();
        for (at, seen) in seen.into_iter().enumerate() {
            match seen {
                Seen::Same(row) => {
                    let stamp = |stamps: &[u128]| stamps.get(row).copied().unwrap_or(0);
                    let stamps = [stamp(old_stamps), stamp(old_field_stamps)];
                    new.push_texts(old.id(row), "", old.metadata(row)?, old.fields_text(row)?, stamps);
                    if let Some(kept) = self.odd.get(&row) {
                        odd.insert(at, kept.clone());
                    }
                }
                Seen::Read(fresh) => {
                    let Fresh { name, document, stamp, field_stamp } = *fresh;
                    // Its fields may stand although its metadata do not: their own stamp tells.
                    let fields = match old.row_of(&name) {
                        Some(row) if field_stamp != 0 => old.fields_text(row)?,
                        _ => "",
                    };
                    // No index holds what is odd, so it is read again by the next program.
                    let lasting = if matches!(document, Document::Object(_)) { stamp } else { 0 };
                    new.push_texts(&name, "", document.metadata().as_str(), fields, [lasting, field_stamp]);
                    if let Document::Other(text) = document {
                        odd.insert(at, (stamp, text));
                    }
                }
            }
        }
        (self.table, self.odd) = (new.finish(), odd);
        Ok(())
    }

    /// Brings the fields of all items up to date.
    fn describe(&mut self, dataset: &Dataset, eyes: &Eyes, threads: usize) -> Result<()> {
        let table = &self.table;
        let (table_stamps, field_stamps) = (table.stamps()?, table.field_stamps()?);
        let same = parallel(table.len(), BATCH, threads, |range, out| {
            for row in range {
                let known = field_stamps.get(row).copied().unwrap_or(0);
                let same = table.is_described() && known != 0 && {
                    let fields = table.fields(row)?;
                    eyes.arrays(table.id(row), &fields).is_some_and(|stamp| stamp.digest == known)
                };
                out.push(same);
            }
            Ok(())
        })?;
        let changed: Vec<String> =
            same.iter().enumerate().filter(|(_, same)| !**same).map(|(row, _)| table.id(row).to_owned()).collect();
        if changed.is_empty() && table.is_described() {
            return Ok(());
        }
        let described = dataset.describe(&changed, threads)?;
        let mut found: Texts = Texts::default();
        let mut stamps = Vec::with_capacity(changed.len());
        for (name, arrays_of) in changed.iter().zip(described) {
            let whole = arrays_of.as_ref().is_some_and(|arrays| arrays.iter().all(|array| array.problem.is_none()));
            let fields: Vec<Field> = arrays_of.unwrap_or_default().iter().map(field).collect();
            let stamp = eyes.arrays(name, &fields).filter(|_| whole);
            stamps.push(stamp.map_or(0, scan::Stamp::kept));
            found.push(&Field::to_json(&fields));
        }
        self.stale += stamps.iter().filter(|stamp| **stamp != 0).count();
        let (mut new, mut next) = (TableBuilder::described(), 0);
        for (row, same) in same.into_iter().enumerate() {
            let stamp = table_stamps.get(row).copied().unwrap_or(0);
            let (fields, field_stamp) = if same {
                (table.fields_text(row)?, field_stamps.get(row).copied().unwrap_or(0))
            } else {
                next += 1;
                (found.get(next - 1), stamps.get(next - 1).copied().unwrap_or(0))
            };
            new.push_texts(table.id(row), "", table.metadata(row)?, fields, [stamp, field_stamp]);
        }
        self.table = new.finish();
        Ok(())
    }

    fn save(&mut self, dataset: &Dataset) -> Result<PathBuf> {
        let path = kept::save(&self.table, LAYOUT, dataset, self.seen)?;
        self.stale = 0;
        Ok(path)
    }
}

fn field(array: &ArrayDescription) -> Field {
    Field {
        name: array.name.clone(),
        dtype: array.dtype.as_ref().map(|dtype| dtype.name()),
        shape: array.shape.as_ref().map(|shape| shape.iter().map(|&n| n as u64).collect()),
        axes: None,
        sample_rate: array.sample_rate,
        file: array.file.clone(),
        bytes: Some(array.bytes),
        metadata: Some(array.metadata.clone()),
    }
}
