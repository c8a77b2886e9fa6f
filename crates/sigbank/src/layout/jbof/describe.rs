//! What the arrays of an item are, by their documents and the headers of their files: no samples are read.

use super::dataset::Dataset;
use super::item::{ArrayEntry, Item};
use crate::error::{Code, Error, Result};
use serde_json::{Map, Value, json};
use sigbank_format::model::DType;
use sigbank_format::model::array::byte_len;
use sigbank_format::model::json::Json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// The key of an array's metadata under which audio has its sample rate.
pub(super) const SAMPLERATE: &str = "samplerate";

/// An array of an item, without its elements: plain data that an index can keep.
///
/// ```
/// use sigbank::layout::jbof::ArrayDescription;
/// let text = r#"{"name": "x", "file": "x.wav", "dtype": "<f8", "shape": [16000], "sample_rate": 16000, "bytes": 32044, "metadata": {"mic": 2}}"#;
/// let described = ArrayDescription::from_json(&serde_json::from_str(text)?)?;
/// assert_eq!((described.shape.as_deref(), described.sample_rate), (Some(&[16000][..]), Some(16000.0)));
/// assert_eq!(ArrayDescription::from_json(&described.to_json()?)?, described);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayDescription {
    /// Its name.
    pub name: String,
    /// The name of its file in the item's directory; none where its document is damaged.
    pub file: Option<String>,
    /// The type of its elements as they are delivered, little-endian: audio is float64. None where [`ArrayDescription::problem`] says why.
    pub dtype: Option<DType>,
    /// Elements along each axis. None where `dtype` is.
    pub shape: Option<Vec<usize>>,
    /// Frames a second in Hz: what the file says, else what its document says as `samplerate`.
    pub sample_rate: Option<f64>,
    /// Bytes of its file; 0 where that is gone.
    pub bytes: u64,
    /// Its metadata, an object, as its document has them.
    pub metadata: Json,
    /// Why it cannot be read, where that shows in document or header: a structured dtype, a damaged or missing file.
    pub problem: Option<Problem>,
}

/// Why an array cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem it is, as [`Code::as_str`] has it.
    pub code: String,
    /// What is wrong, in words.
    pub message: String,
}

impl ArrayDescription {
    /// Bytes of its elements in memory; none where they are not known.
    pub fn value_bytes(&self) -> Option<u64> {
        byte_len(self.dtype.as_ref()?, self.shape.as_ref()?).ok().map(|bytes| bytes as u64)
    }

    /// As a JSON object; what is none is left out. The dtype is NumPy's type string.
    ///
    /// # Errors
    /// `Invalid` for metadata that are no JSON object.
    pub fn to_json(&self) -> Result<Value> {
        let mut object = Map::new();
        object.insert("name".into(), self.name.as_str().into());
        let dtype = self.dtype.as_ref().map(|dtype| dtype.to_string().into());
        let problem = self.problem.as_ref().map(|p| json!({"code": p.code, "message": p.message}));
        let optional = [
            ("file", self.file.as_deref().map(Value::from)),
            ("dtype", dtype),
            ("shape", self.shape.as_deref().map(Value::from)),
            ("sample_rate", self.sample_rate.map(Value::from)),
            ("problem", problem),
        ];
        object.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        object.insert("bytes".into(), self.bytes.into());
        object.insert("metadata".into(), self.metadata.to_value()?);
        Ok(Value::Object(object))
    }

    /// From what [`ArrayDescription::to_json`] gave. Unknown keys are ignored.
    ///
    /// # Errors
    /// `Corrupt` names the key that is missing or of another kind.
    pub fn from_json(value: &Value) -> Result<Self> {
        let wrong =
            |key: &str| Error::corrupt(format!("the description of an array has no {key}, or one of another kind: {value}"));
        let text = |key: &str| match value.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(key)),
        };
        let lengths = |lengths: &Value| {
            let length = |n: &Value| n.as_u64().and_then(|n| usize::try_from(n).ok());
            lengths.as_array()?.iter().map(length).collect::<Option<Vec<_>>>()
        };
        let problem = |problem: &Value| {
            let text = |key: &str| Some(problem.get(key)?.as_str()?.to_owned());
            Some(Problem { code: text("code")?, message: text("message")? })
        };
        Ok(Self {
            name: text("name")?.ok_or_else(|| wrong("name"))?,
            file: text("file")?,
            dtype: text("dtype")?.map(|dtype| dtype.parse()).transpose()?,
            shape: value.get("shape").map(|shape| lengths(shape).ok_or_else(|| wrong("shape"))).transpose()?,
            sample_rate: value.get("sample_rate").map(|n| n.as_f64().ok_or_else(|| wrong("sample_rate"))).transpose()?,
            bytes: value.get("bytes").and_then(Value::as_u64).ok_or_else(|| wrong("bytes"))?,
            metadata: Json::from_value(value.get("metadata").filter(|m| m.is_object()).ok_or_else(|| wrong("metadata"))?)?,
            problem: value.get("problem").map(|said| problem(said).ok_or_else(|| wrong("problem"))).transpose()?,
        })
    }
}

impl Item {
    /// Its arrays, sorted by name, of each the document and the header of the file; one that is damaged or of a dtype that is not handled is
    /// described with its [`Problem`].
    ///
    /// # Errors
    /// Those of the store: where it cannot be listed or asked.
    ///
    /// ```
    /// use sigbank::format::array::npy;
    /// use sigbank::format::model::json::Json;
    /// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
    /// let dir = tempfile::tempdir()?;
    /// let item = Dataset::create(&dir.path().join("a"), &Creation::default())?.add_item(Some("i"), &Json::EMPTY)?;
    /// item.add_array("x", &ArrayFile::new("npy", &[&npy::header(&"<i2".parse()?, &[2, 3])?, &[0; 12]]), &Json::EMPTY)?;
    /// let described = item.describe()?;
    /// assert_eq!((described[0].name.as_str(), described[0].shape.as_deref()), ("x", Some(&[2, 3][..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(&self) -> Result<Vec<ArrayDescription>> {
        let mut described = Vec::new();
        for name in self.array_names()? {
            match self.array(&name) {
                Ok(entry) => described.push(describe(&entry)?),
                // Deleted since.
                Err(e) if e.code() == Code::NotFound => {}
                Err(e) => described.push(ArrayDescription { problem: Some(problem(e)?), ..nothing(&name) }),
            }
        }
        Ok(described)
    }
}

impl Dataset {
    /// What [`Item::describe`] gives, for each of the names; none for one that is no item (any more). Runs on `threads` threads; 0: one a
    /// core, and 16 where a request costs a round trip.
    ///
    /// # Errors
    /// Those of [`Item::describe`].
    pub fn describe(&self, names: &[String], threads: usize) -> Result<Vec<Option<Vec<ArrayDescription>>>> {
        let afar = self.store().capabilities().round_trip > 0;
        let one = |at: usize| match names.get(at).map(|name| self.item(name)).transpose() {
            Ok(item) => item.map(|item| item.describe()).transpose(),
            Err(e) if e.code() == Code::NotFound => Ok(None),
            Err(e) => Err(e),
        };
        let mut all = vec![None; names.len()];
        each(names.len(), self::threads(threads, afar), one, &mut |at, described| {
            if let Some(slot) = all.get_mut(at) {
                *slot = described;
            }
            true
        })?;
        Ok(all)
    }
}

fn nothing(name: &str) -> ArrayDescription {
    ArrayDescription {
        name: name.to_owned(),
        file: None,
        dtype: None,
        shape: None,
        sample_rate: None,
        bytes: 0,
        metadata: Json::EMPTY,
        problem: None,
    }
}

/// What is wrong with the data; an error of the storage stays one.
fn problem(e: Error) -> Result<Problem> {
    match e.code() {
        Code::Storage | Code::ReadOnly | Code::Conflict => Err(e),
        code => Ok(Problem { code: code.as_str().to_owned(), message: e.message().to_owned() }),
    }
}

fn describe(entry: &ArrayEntry) -> Result<ArrayDescription> {
    let said = entry.metadata().to_value()?.get(SAMPLERATE).and_then(Value::as_f64);
    let mut described = ArrayDescription {
        file: Some(entry.path().file_name().to_owned()),
        sample_rate: said,
        metadata: entry.metadata().clone(),
        ..nothing(entry.name())
    };
    let mut header = || -> Result<()> {
        let file = entry.file()?;
        described.bytes = file.size();
        let reader = entry.open_source(file, Default::default())?;
        let info = reader.info();
        described.sample_rate = info.sample_rate().map(f64::from).or(described.sample_rate);
        let (dtype, shape) = match entry.kept() {
            Some(kept) => (kept.dtype.clone().unwrap_or_else(|| info.dtype.clone()), kept.shape.clone()),
            None => (info.dtype.clone(), info.shape.clone()),
        };
        let elements = |shape: &[usize]| shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        if elements(&shape) != elements(&info.shape) {
            return Err(Error::corrupt(format!(
                "its document says that the shape is {shape:?}, but the file has {:?}",
                info.shape
            )));
        }
        byte_len(&dtype, &shape)?;
        (described.dtype, described.shape) = (Some(dtype), Some(shape));
        Ok(())
    };
    if let Err(e) = header() {
        described.problem = Some(problem(e)?);
    }
    Ok(described)
}

/// How many threads are meant.
pub(super) fn threads(wanted: usize, afar: bool) -> usize {
    match wanted {
        // Most of them wait.
        0 if afar => 16,
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// Does something for each number below `count` on so many threads (0: one a core); `tell` hears each result, in no promised order, on the caller's thread, and
/// ends the run by `false`, which is a `Conflict`. The first error ends it too.
pub(crate) fn each<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
    tell: &mut dyn FnMut(usize, T) -> bool,
) -> Result<()> {
    let stopped = || Error::conflict("it was stopped before its end");
    let threads = self::threads(threads, false);
    if threads == 1 || count <= 1 {
        return (0..count).try_for_each(|at| if tell(at, work(at)?) { Ok(()) } else { Err(stopped()) });
    }
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Bounded, so that results do not pile up before a slow listener.
    let (send, hear) = mpsc::sync_channel(1024);
    let run = |send: mpsc::SyncSender<(usize, Result<T>)>| {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let done = work(at);
            let failed = done.is_err();
            if send.send((at, done)).is_err() || failed {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads.min(count))
            .map(|_| {
                let (send, run) = (send.clone(), &run);
                scope.spawn(move || run(send))
            })
            .collect();
        drop(send);
        let heard = hear.iter().try_for_each(|(at, done)| if tell(at, done?) { Ok(()) } else { Err(stopped()) });
        stop.store(true, Ordering::Relaxed);
        // Whoever still waits to send learns that nobody listens.
        drop(hear);
        let gone = || Error::storage("a thread ended before its work was done: this is a defect of sigbank, please report it");
        all.into_iter().map(|thread| thread.join().map_err(|_| gone())).fold(heard, Result::and)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{ArrayFile, Creation};
    use super::*;
    use sigbank_format::array::npy;

    #[test]
    fn arrays_are_described_by_header_and_damaged_ones_by_their_problem() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("set");
        let dataset = Dataset::create(&root, &Creation::default()).unwrap();
        let json = |text: &str| Json::parse(text.as_bytes(), &Default::default()).unwrap();
        let item = dataset.add_item(Some("a"), &Json::EMPTY).unwrap();
        let npy = |dtype: &str, shape: &[usize], len: usize| {
            [npy::header(&dtype.parse().unwrap(), shape).unwrap(), vec![7; len]].concat()
        };
        item.add_array("big", &ArrayFile::new("npy", &[&npy(">i4", &[3], 12)]), &json(r#"{"samplerate": 44100.5}"#)).unwrap();
        item.add_array("cut", &ArrayFile::new("npy", &[&npy("<i4", &[3], 11)]), &Json::EMPTY).unwrap();
        item.add_array("gone", &ArrayFile::new("npy", &[&npy("<i4", &[3], 12)]), &json(r#"{"k": 1}"#)).unwrap();
        std::fs::remove_file(root.join("a/gone.npy")).unwrap();
        std::fs::write(root.join("a/torn.json"), b"{\"_filename\": ").unwrap();
        dataset.add_item(Some("b"), &Json::EMPTY).unwrap();
        let names = ["a", "b", "none"].map(str::to_owned);
        for threads in [1, 3] {
            let all = dataset.describe(&names, threads).unwrap();
            assert_eq!((all[1].as_deref(), &all[2]), (Some(&[][..]), &None));
            let a = all[0].as_ref().unwrap();
            assert_eq!(a.iter().map(|array| array.name.as_str()).collect::<Vec<_>>(), ["big", "cut", "gone", "torn"]);
            let big = ArrayDescription {
                file: Some("big.npy".into()),
                dtype: Some("<i4".parse().unwrap()),
                shape: Some(vec![3]),
                sample_rate: Some(44100.5),
                bytes: 140,
                metadata: json(r#"{"samplerate": 44100.5}"#),
                ..nothing("big")
            };
            assert_eq!((&a[0], big.value_bytes()), (&big, Some(12)));
            let problems: Vec<_> = a.iter().skip(1).map(|array| array.problem.as_ref().unwrap().code.as_str()).collect();
            assert_eq!(problems, ["corrupt", "not_found", "corrupt"]);
            assert_eq!(
                (&a[2].metadata, a[2].file.as_deref(), a[3].file.as_deref()),
                (&json(r#"{"k": 1}"#), Some("gone.npy"), None)
            );
            for array in a {
                assert_eq!(&ArrayDescription::from_json(&array.to_json().unwrap()).unwrap(), array);
            }
        }
        assert!(ArrayDescription::from_json(&json!({"name": "x", "bytes": 1})).unwrap_err().to_string().contains("no metadata"));
    }

    #[test]
    fn a_run_is_stopped_by_its_listener_and_by_an_error() {
        for threads in [1, 4] {
            let mut heard = 0;
            let e = each(5000, threads, Ok, &mut |_, _| {
                heard += 1;
                heard < 3
            });
            assert_eq!((e.unwrap_err().code(), heard), (Code::Conflict, 3));
            let fails = |at| if at == 40 { Err(Error::limit("40")) } else { Ok(at) };
            assert_eq!(each(5000, threads, fails, &mut |_, _| true).unwrap_err().message(), "40");
            let mut sum = 0;
            each(5000, threads, Ok, &mut |at, same| {
                assert_eq!(at, same);
                sum += at;
                true
            })
            .unwrap();
            assert_eq!(sum, 4999 * 5000 / 2);
        }
    }
}
