//! The items of a JBOF data set.

use super::{Args, cut, words};
use crate::{Failure, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::jbof::{ArrayDescription, Dataset, Item};
use std::io::Write;

/// Items that are looked at together.
const BATCH: usize = 1024;

pub(super) fn run(args: &Args, dataset: &Dataset, out: &mut dyn Write) -> Result<(), Failure> {
    if args.annotations.is_some() {
        return Err(Error::unsupported("a JBOF data set has no annotations: what is said of an item is in its metadata")
            .at(&args.dataset)
            .remedy("leave --annotations out")
            .into());
    }
    let names = dataset.item_names()?;
    let from = usize::try_from(args.from).unwrap_or(usize::MAX).min(names.len());
    let end = args.limit.map_or(names.len(), |limit| from.saturating_add(limit as usize).min(names.len()));
    let mut index = from;
    for batch in names.get(from..end).unwrap_or_default().chunks(BATCH) {
        for (name, arrays) in batch.iter().zip(dataset.describe(batch, 0)?) {
            // One that was deleted meanwhile is none.
            if let Some(arrays) = arrays {
                let metadata = metadata(&dataset.item(name)?)?;
                if args.json {
                    writeln!(out, "{}", json!({"index": index, "id": name, "fields": fields(&arrays)?, "metadata": metadata}))?;
                } else {
                    let kinds: Vec<_> = arrays.iter().map(|array| format!("{} {}", array.name, kind(array))).collect();
                    let said = cut(&words(metadata).join(" "));
                    text::line(out, format_args!("{index:>6}  {name}  {}{said}", kinds.join(", ")))?;
                }
            }
            index += 1;
        }
    }
    if !args.json && end - from < names.len() {
        writeln!(out, "{} of {}", text::count((end - from) as u64), text::some(names.len() as u64, "item"))?;
    }
    Ok(())
}

/// An item's metadata; a damaged document is told of in their place.
fn metadata(item: &Item) -> Result<Value, Error> {
    match item.metadata().and_then(|metadata| Ok(metadata.to_value()?)) {
        Err(e) if e.code() == sigbank::Code::Corrupt => Ok(json!({"_problem": e.message()})),
        metadata => metadata,
    }
}

/// Dtype, shape and sample rate, such as `float64[16000] at 8000 Hz`; of one that cannot be read, why.
pub(crate) fn kind(array: &ArrayDescription) -> String {
    match (&array.dtype, &array.shape, &array.problem) {
        (Some(dtype), Some(shape), _) => {
            let rate = array.sample_rate.map(|rate| format!(" at {rate} Hz")).unwrap_or_default();
            format!("{}{shape:?}{rate}", dtype.name())
        }
        (.., Some(problem)) => format!("NOT READABLE ({})", problem.message),
        _ => "unknown".into(),
    }
}

/// All that is known of arrays, by name.
pub(crate) fn fields(arrays: &[ArrayDescription]) -> Result<Map<String, Value>, Error> {
    let mut fields = Map::new();
    for array in arrays {
        let mut told = array.to_json()?;
        if let Some(members) = told.as_object_mut() {
            members.remove("name");
            if let Some(dtype) = &array.dtype {
                members.insert("dtype".into(), dtype.name().into());
            }
        }
        fields.insert(array.name.clone(), told);
    }
    Ok(fields)
}
