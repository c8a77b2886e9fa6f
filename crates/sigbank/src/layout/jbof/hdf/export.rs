//! Writing a data set as one HDF5 file.

use super::store::guarded;
use super::{attrs, types};
use crate::error::{Error, Result};
use crate::layout::jbof::documents::{self, FILENAME, ITEMFORMAT, KEPT};
use crate::layout::jbof::value::Value as Elements;
use crate::layout::jbof::{ArrayEntry, Dataset, Item, litter};
use crate::store::zeroed;
use hdf5_pure::{AttrValue, DatasetBuilder, Datatype, FileAccessProperties, FileBuilder, SyncPolicy};
use serde_json::{Map, Value};
use sigbank_format::array::Format;
use sigbank_format::model::{ByteOrder, DType};
use std::path::Path;

/// Bytes of elements that are held at once, but for a longer array.
const BATCH: u64 = 256 << 20;

/// Writes a data set as an HDF5 file, in place of what has its name: whole, or not at all.
///
/// Audio is float64 there, as it is read; what its file was is in `_filename`, so that [`import`](super::import) makes such a file again. Arrays are not
/// compressed, and are in memory one by one, or together up to 256 MiB.
///
/// # Errors
/// Before anything is written, naming item and array: `Unsupported` for elements of no bytes (`S0`) and for what only NumPy reads (structured arrays),
/// `Invalid` for metadata that are no object. Those of reading and writing.
///
/// ```
/// use sigbank::format::{array::npy, model::Array, model::json::Json};
/// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset, hdf};
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("speech"), &Creation::default())?;
/// let item = dataset.add_item(Some("take 1"), &Json::parse(br#"{"speaker": "ann"}"#, &Default::default())?)?;
/// let ramp = Array::new("<i2".parse()?, vec![2], vec![1, 0, 2, 0].into())?;
/// item.add_array("ramp", &ArrayFile::new("npy", &[&npy::to_bytes(&ramp)?]), &Json::EMPTY)?;
/// hdf::export(&dataset, &dir.path().join("speech.h5"))?;
/// let one_file = Dataset::open_hdf(&dir.path().join("speech.h5"))?;
/// assert_eq!(one_file.item("take 1")?.array("ramp")?.open(Default::default())?.read_all()?, ramp);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn export(dataset: &Dataset, to: &Path) -> Result<()> {
    export_in(dataset, to, BATCH)
}

pub(super) fn export_in(dataset: &Dataset, to: &Path, batch: u64) -> Result<()> {
    let bytes = dataset.items()?.try_fold(0, |bytes: u64, item| Ok::<_, Error>(bytes.saturating_add(check(&item)?)))?;
    let root = attributes_of_root(dataset)?;
    let to = std::path::absolute(to).map_err(|e| Error::from(e).at(to.display()))?;
    if to.is_dir() {
        return Err(Error::already_exists("a directory is here").at(to.display()).remedy("choose another name for the file"));
    }
    if let Some(above) = to.parent().filter(|above| !above.is_dir()) {
        return Err(Error::not_found("there is no folder of this name to write the file to")
            .at(above.display())
            .remedy("make it first"));
    }
    litter::sweep(&to);
    let staged = litter::beside(&to)?;
    let written = if bytes <= batch { at_once(dataset, root, &staged) } else { in_batches(dataset, root, &staged, batch) };
    let published = written.and_then(|()| {
        let located = |e: std::io::Error| Error::from(e).at(to.display());
        std::fs::File::open(&staged).and_then(|file| file.sync_all()).map_err(located)?;
        std::fs::rename(&staged, &to).map_err(located)
    });
    published.inspect_err(|_| {
        let _ = std::fs::remove_file(&staged);
    })
}

type Attributes = Vec<(String, AttrValue)>;

fn attributes_of_root(dataset: &Dataset) -> Result<Attributes> {
    let mut members = documents::with_words(&dataset.document_text()?).map_err(|e| e.at(dataset.location()))?;
    let itemformat = members.remove(ITEMFORMAT).filter(|template| !template.is_null());
    let rest = itemformat.into_iter().map(|template| (ITEMFORMAT.to_owned(), template)).collect();
    attrs::of_members(members, rest)
}

fn attributes_of_item(item: &Item) -> Result<Attributes> {
    let members = documents::with_words(&item.document_text()?).map_err(|e| {
        Error::invalid("the item's metadata are no JSON object, which attributes could hold").caused_by(e).at(item.location())
    })?;
    attrs::of_members(members, Map::new())
}

/// An array that is open, its type there, and the order of its bytes.
struct Opened {
    elements: Elements,
    datatype: Datatype,
    order: ByteOrder,
    bytes: u64,
}

fn open(item: &Item, entry: &ArrayEntry) -> Result<Opened> {
    let located =
        |e: Error| e.within(format!("the array {:?} of the item {:?} cannot be in an HDF5 file", entry.name(), item.name()));
    let mut elements = Elements::open(entry).map_err(located)?;
    let (plain, info) = (elements.dtype().clone(), elements.reader().info());
    let stored = &info.stored_dtype;
    let big = info.format == Format::Npy && stored.is_big_endian() && stored.clone().with_order(ByteOrder::Little) == plain;
    let order = if big { ByteOrder::Big } else { ByteOrder::Little };
    let dtype: DType = plain.with_order(order);
    let datatype = types::of_dtype(&dtype).ok_or_else(|| {
        located(Error::unsupported(format!("HDF5 has no elements like {}, of no bytes", dtype.name())).at(entry.location()))
    })?;
    let bytes = elements.shape().iter().fold(dtype.itemsize() as u64, |all, &n| all.saturating_mul(n as u64));
    Ok(Opened { elements, datatype, order, bytes })
}

/// Whether all of an item can be written; gives the bytes of its elements.
fn check(item: &Item) -> Result<u64> {
    attributes_of_item(item)?;
    item.arrays()?.iter().try_fold(0, |bytes: u64, entry| Ok(bytes.saturating_add(open(item, entry)?.bytes)))
}

/// An array that was read.
struct Read {
    datatype: Datatype,
    shape: Vec<u64>,
    data: Vec<u8>,
    attributes: Attributes,
}

fn read(item: &Item, entry: &ArrayEntry) -> Result<Read> {
    let Opened { mut elements, datatype, order, .. } = open(item, entry)?;
    let mut data = Vec::new();
    let place = &mut data;
    elements.put(move |len| {
        *place = zeroed(len as u64)?;
        Ok(place.as_mut_slice())
    })?;
    if order == ByteOrder::Big {
        let width = elements.dtype().swap_width().max(1);
        data.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    let mut members = documents::with_words(entry.document_text()).map_err(|e| e.at(entry.location()))?;
    members.remove(KEPT);
    members.insert(FILENAME.to_owned(), entry.stored_name()?.into());
    if let Some(rate) = elements.reader().info().sample_rate() {
        members.entry("samplerate").or_insert(Value::from(rate));
    }
    let attributes = attrs::of_members(members, Map::new())?;
    let shape = elements.shape().iter().map(|&n| n as u64).collect();
    Ok(Read { datatype, shape, data, attributes })
}

impl Read {
    fn put(self, builder: &mut DatasetBuilder) {
        let count = self.shape.iter().product();
        builder.with_raw_data(self.datatype, self.data, count).with_shape(&self.shape);
        for (name, value) in self.attributes {
            builder.set_attr(&name, value);
        }
    }
}

fn at_once(dataset: &Dataset, root: Attributes, to: &Path) -> Result<()> {
    let mut builder = FileBuilder::new();
    for (name, value) in root {
        builder.set_attr(&name, value);
    }
    for item in dataset.items()? {
        let mut group = builder.create_group(item.name());
        for (name, value) in attributes_of_item(&item)? {
            group.set_attr(&name, value);
        }
        for entry in item.arrays()? {
            read(&item, &entry)?.put(group.create_dataset(entry.name()));
        }
        builder.add_group(group.finish());
    }
    guarded(|| builder.write(to)).map_err(|e| e.at(to.display()))
}

fn in_batches(dataset: &Dataset, root: Attributes, to: &Path, batch: u64) -> Result<()> {
    let located = |e: Error| e.at(to.display());
    let file = guarded(|| {
        let access = FileAccessProperties::new().with_sync_policy(SyncPolicy::OnClose);
        let file = hdf5_pure::File::create_with_options(to, Default::default(), access)?;
        root.into_iter().try_for_each(|(name, value)| file.root().set_attr(&name, value))?;
        Ok(file)
    })
    .map_err(located)?;
    let _held = litter::hold(to);
    let mut pending = 0;
    for item in dataset.items()? {
        let attributes = attributes_of_item(&item)?;
        let group = guarded(|| {
            file.root().create_group_with(item.name(), |group| {
                for (name, value) in attributes {
                    group.set_attr(&name, value);
                }
            })
        })
        .map_err(located)?;
        for entry in item.arrays()? {
            let array = read(&item, &entry)?;
            pending += array.data.len() as u64;
            guarded(|| group.create_dataset(entry.name(), |builder| array.put(builder)).map(drop)).map_err(located)?;
            if pending >= batch {
                guarded(|| file.commit()).map_err(located)?;
                pending = 0;
            }
        }
    }
    guarded(|| {
        file.commit()?;
        file.close()
    })
    .map_err(located)
}
