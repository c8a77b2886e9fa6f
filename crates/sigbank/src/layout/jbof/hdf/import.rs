//! Making a folder of a data set that is in one file.

use crate::error::{Code, Error, Result};
use crate::layout::jbof::documents::{self, FILENAME, KEPT};
use crate::layout::jbof::value::Value as Elements;
use crate::layout::jbof::{ArrayEntry, ArrayFile, Dataset, Kept, litter, write};
use crate::store::{LocalStore, zeroed};
use crate::uri::RelPath;
use serde_json::Value;
use sigbank_format::array::{self, EncodeOptions, Encoded, Format, Subtype};
use sigbank_format::model::{Array, Kind};
use std::path::Path;

/// Makes a folder of a data set (in an HDF5 file, an archive or another folder) and opens it to write. It is visible as a whole.
///
/// Of an HDF5 file, an array becomes a file of the format that it was exported from, with values, shape and dtype unchanged: wav and flac of as few bits as
/// hold the samples exactly. Where that format does not hold them exactly (Vorbis never does), it is wav, of floats if need be; what is no float64, or has no
/// whole sample rate, is npy. Of archives and folders, files are copied byte for byte.
///
/// # Errors
/// `AlreadyExists` where anything is at `to`; those of reading and writing: then nothing stays.
pub fn import(dataset: &Dataset, to: &Path) -> Result<Dataset> {
    let to = std::path::absolute(to).map_err(|e| Error::from(e).at(to.display()))?;
    let taken = || Error::already_exists("something is here already").at(to.display()).remedy("choose another directory");
    if to.symlink_metadata().is_ok() {
        return Err(taken());
    }
    litter::sweep(&to);
    let staged = litter::beside(&to)?;
    let fill = || -> Result<()> {
        write::create(&staged, &documents::rendered(documents::with_words(&dataset.document_text()?)?)?, false)?;
        let _held = litter::hold(&staged);
        let new = Dataset::open_to_write(&staged, false)?;
        for item in dataset.items()? {
            let text = documents::with_words(&item.document_text()?).map_err(|e| e.at(item.location()))?;
            let path = RelPath::parse(item.name())?;
            new.writer()?.add_item(&path, &documents::rendered(text)?)?;
            for entry in item.arrays()? {
                copy(&new, &path, &entry).map_err(|e| e.within(format!("the array {:?}", entry.name())))?;
            }
        }
        let above = LocalStore::open(to.parent().unwrap_or(Path::new("/")))?;
        above
            .publish_dir(&write::name_of(&staged)?, &write::name_of(&to)?)
            .map_err(|e| if e.code() == Code::AlreadyExists { taken() } else { e })
    };
    fill().inspect_err(|_| {
        let _ = std::fs::remove_dir_all(&staged);
    })?;
    Dataset::open_to_write(&to, false)
}

fn copy(new: &Dataset, item: &RelPath, entry: &ArrayEntry) -> Result<()> {
    let stored = entry.stored_name()?;
    let extension = stored.rsplit_once('.').map_or("", |(_, extension)| extension);
    let format = Format::from_extension(extension).unwrap_or(Format::Npy);
    let mut members = documents::with_words(entry.document_text()).map_err(|e| e.at(entry.location()))?;
    let made = if entry.is_of_hdf() && format != Format::Npy { encoded(entry, format, members.get("samplerate"))? } else { None };
    let (extension, parts, kept) = match made {
        Some((format, file, kept)) => (format.extension(), file.parts.into_iter().map(Vec::from).collect(), kept),
        None => {
            let file = entry.file()?;
            let mut bytes = zeroed(file.size())?;
            file.read_at(0, &mut bytes).map_err(|e| Error::from(e).at(entry.location()))?;
            (if entry.is_of_hdf() { "npy" } else { extension }, vec![bytes], entry.kept().cloned())
        }
    };
    let name = format!("{}.{extension}", entry.name());
    members.insert(FILENAME.to_owned(), name.as_str().into());
    members.remove(KEPT);
    members.extend(kept.map(|kept| (KEPT.to_owned(), kept.json())));
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    new.writer()?.add_array(item, entry.name(), &name, &ArrayFile::new(extension, &parts), &documents::rendered(members)?)
}

/// A file of the format that holds exactly what the array is, or one of wav; none where neither does.
fn encoded(entry: &ArrayEntry, format: Format, rate: Option<&Value>) -> Result<Option<(Format, Encoded, Option<Kept>)>> {
    let mut elements = Elements::open(entry)?;
    let (dtype, shape) = (elements.dtype().clone(), elements.shape().to_vec());
    if format != Format::Mat && (dtype.kind(), dtype.itemsize()) != (Kind::Float, 8) {
        return Ok(None);
    }
    let mut data = Vec::new();
    let place = &mut data;
    elements.put(move |len| {
        *place = zeroed(len as u64)?;
        Ok(place.as_mut_slice())
    })?;
    let array = Array::new(dtype, shape, data.into())?;
    let whole = |rate: &Value| rate.as_u64().or_else(|| rate.as_f64().filter(|r| r.fract() == 0.0 && *r > 0.0).map(|r| r as u64));
    let sample_rate = rate.and_then(whole).and_then(|rate| u32::try_from(rate).ok());
    let needed = least(array.data());
    let choices = match format {
        Format::Npy => vec![],
        Format::Mat => vec![(Format::Mat, None)],
        Format::Flac if matches!(needed, Subtype::Pcm16 | Subtype::Pcm24) => {
            vec![(Format::Flac, Some(needed)), (Format::Wav, Some(needed))]
        }
        Format::Wav | Format::Flac | Format::Ogg => vec![(Format::Wav, Some(needed))],
    };
    for (format, subtype) in choices {
        let options = EncodeOptions { name: entry.name(), sample_rate, subtype, lossy: true };
        // What the format refuses (a rate, a number of channels), the next may take.
        if let Ok(file) = array::encode(format, &array, &options) {
            let kept = Kept::of(format, &array, &file, entry.name())?;
            return Ok(Some((format, file, kept)));
        }
    }
    Ok(None)
}

/// The samples of fewest bits that hold float64 exactly, from the 16 bits on that are the default.
fn least(data: &[u8]) -> Subtype {
    let (mut bits, mut single) = (16, true);
    for sample in data.as_chunks::<8>().0 {
        let sample = f64::from_le_bytes(*sample);
        single &= f64::from(sample as f32) == sample || sample.is_nan();
        while bits <= 32 {
            let scaled = sample * f64::from(1u32 << (bits - 1));
            let full = f64::from(1u32 << (bits - 1));
            if scaled.fract() == 0.0 && (-full..full).contains(&scaled) {
                break;
            }
            bits += 8;
        }
    }
    match bits {
        16 => Subtype::Pcm16,
        24 => Subtype::Pcm24,
        32 => Subtype::Pcm32,
        _ if single => Subtype::Float,
        _ => Subtype::Double,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_bits_that_hold_the_samples() {
        let least = |samples: &[f64]| super::least(&samples.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(least(&[]), Subtype::Pcm16);
        assert_eq!(least(&[-1.0, 0.5, 32767.0 / 32768.0, -0.0]), Subtype::Pcm16);
        assert_eq!(least(&[0.5, -1.0 / 8388608.0]), Subtype::Pcm24);
        assert_eq!(least(&[1.0 / 2147483648.0, 0.25]), Subtype::Pcm32);
        assert_eq!(least(&[1.0]), Subtype::Float);
        assert_eq!(least(&[f64::NAN, 0.1f32.into()]), Subtype::Float);
        assert_eq!(least(&[0.1]), Subtype::Double);
    }
}
