//! `dataset_structure`: what the records are and how shards are stored.

use crate::error::{Error, Result};
use serde_json::Value;
use sigbank_format::checksum::Algorithm;
use sigbank_format::compress::Compression;
use sigbank_format::model::{DType, Field, FieldType, Metadata, Schema};

/// The container of a shard, by its file suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShardFileType {
    /// FlatBuffers, `fb`.
    Fb,
    /// A NumPy archive, `npz`.
    Npz,
    /// TensorFlow records, `tfrec`.
    TfRec,
}

impl ShardFileType {
    /// The word on disk, which is the suffix too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fb => "fb",
            Self::Npz => "npz",
            Self::TfRec => "tfrec",
        }
    }
    /// The compressions that shards of this kind can have.
    pub fn compressions(self) -> &'static [Compression] {
        use Compression::{Bz2, Gzip, Lz4, Lzma, None, Zip, Zlib, Zstd};
        match self {
            Self::Fb => &[None, Gzip, Zlib, Bz2, Lzma, Lz4, Zstd],
            Self::Npz => &[None, Zip],
            Self::TfRec => &[None, Gzip, Zlib],
        }
    }
}

/// The parsed `dataset_structure`.
#[derive(Debug, Clone)]
pub struct Structure {
    /// The attributes, in stored order.
    pub schema: Schema,
    /// The compression of each shard.
    pub compression: Compression,
    /// Most records in a shard.
    pub examples_per_shard: u64,
    /// The container.
    pub file_type: ShardFileType,
    /// The checksums of each file, in this order.
    pub algorithms: Vec<Algorithm>,
}

fn wrong(what: &str, expected: &str, found: &Value) -> Error {
    Error::invalid(format!("{what}: {expected} is expected, found {found}"))
}

fn text<'a>(object: &'a Metadata, key: &str, default: &'a str) -> Result<&'a str> {
    match object.get(key) {
        None => Ok(default),
        Some(v) => v.as_str().ok_or_else(|| wrong(key, "text", v)),
    }
}

impl Structure {
    /// Reads the object that stands in `dataset_info.json`; what is left out has its default.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported`, with the key, what is expected and what was found.
    pub fn parse(object: &Metadata) -> Result<Self> {
        let attributes = match object.get("saved_data_description") {
            None => &[][..],
            Some(v) => v.as_array().ok_or_else(|| wrong("saved_data_description", "a list", v))?.as_slice(),
        };
        let mut schema = Schema::default();
        for a in attributes {
            let field = attribute(a)?;
            if schema.position(&field.name).is_some() {
                return Err(Error::invalid(format!("attribute '{}' is declared twice", field.name)));
            }
            schema.fields.push(field);
        }
        let file_type = match text(object, "shard_file_type", "fb")? {
            "fb" => ShardFileType::Fb,
            "npz" => ShardFileType::Npz,
            "tfrec" => ShardFileType::TfRec,
            other => {
                return Err(Error::unsupported(format!("shard_file_type: 'fb', 'npz' or 'tfrec' is expected, found '{other}'")));
            }
        };
        let compression: Compression = text(object, "compression", "GZIP")?.parse()?;
        if !file_type.compressions().contains(&compression) {
            let known: Vec<_> = file_type.compressions().iter().map(|c| format!("'{}'", c.as_str())).collect();
            let (file, compression) = (file_type.as_str(), compression.as_str());
            return Err(Error::invalid(format!(
                "'{file}' shards cannot have compression '{compression}'; they can have {}",
                known.join(", ")
            )));
        }
        let examples_per_shard = match object.get("examples_per_shard") {
            None => 256,
            Some(v) => v
                .as_u64()
                .filter(|&n| n > 0 && n <= u64::from(u32::MAX))
                .ok_or_else(|| wrong("examples_per_shard", "a whole number from 1 on", v))?,
        };
        let algorithms = match object.get("hash_checksum_algorithms") {
            None => vec![Algorithm::Sha256],
            Some(Value::Array(names)) => {
                let one = |v: &Value| {
                    Ok(v.as_str().ok_or_else(|| wrong("hash_checksum_algorithms", "a list of names", v))?.parse::<Algorithm>()?)
                };
                names.iter().map(one).collect::<Result<_>>()?
            }
            Some(v) => return Err(wrong("hash_checksum_algorithms", "a list of names", v)),
        };
        Ok(Self { schema, compression, examples_per_shard, file_type, algorithms })
    }
}

fn attribute(value: &Value) -> Result<Field> {
    let object = value.as_object().ok_or_else(|| wrong("saved_data_description", "a list of objects", value))?;
    let name = object
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| wrong("name of an attribute", "text", object.get("name").unwrap_or(&Value::Null)))?;
    let ty = field_type(object).map_err(|e| e.within(format!("attribute '{name}'")))?;
    let metadata = match object.get("custom_metadata") {
        None => Metadata::new(),
        Some(v) => v.as_object().ok_or_else(|| wrong("custom_metadata of an attribute", "an object", v))?.clone(),
    };
    Ok(Field { name: name.to_owned(), ty, metadata })
}

fn field_type(object: &Metadata) -> Result<FieldType> {
    let dtype = text(object, "dtype", "")?;
    let mut shape = Vec::new();
    match object.get("shape") {
        None => return Err(Error::invalid("shape is missing")),
        Some(Value::Array(lengths)) => {
            for v in lengths {
                shape.push(
                    v.as_u64()
                        .filter(|&n| n > 0)
                        .and_then(|n| usize::try_from(n).ok())
                        .ok_or_else(|| wrong("shape", "a list of whole numbers from 1 on", v))?,
                );
            }
        }
        Some(v) => return Err(wrong("shape", "a list", v)),
    }
    let scalar = |ty| {
        if shape.is_empty() { Ok(ty) } else { Err(Error::invalid(format!("dtype '{dtype}' has shape (), found {shape:?}"))) }
    };
    match dtype {
        "int" => scalar(FieldType::Int),
        "str" => scalar(FieldType::Str),
        "bytes" => match shape.as_slice() {
            [] => Ok(FieldType::Bytes { len: None }),
            &[len] => Ok(FieldType::Bytes { len: Some(len) }),
            more => Err(Error::invalid(format!("dtype 'bytes' has shape () or (N,), found {more:?}"))),
        },
        _ => {
            let parsed: DType = dtype.parse().map_err(|e| {
                Error::from(e)
                    .remedy("'int', 'str', 'bytes' and NumPy's fixed-size dtypes such as 'float16', 'uint8', 'S5' are known")
            })?;
            let ty = FieldType::Array { dtype: parsed.with_order(sigbank_format::model::ByteOrder::Little), shape };
            ty.fixed_len()?;
            Ok(ty)
        }
    }
}

/// The words for dtypes that the reference finds again in tfrec shards.
const TFREC_DTYPES: [&str; 9] = ["int8", "uint8", "int32", "int64", "float16", "float32", "int", "str", "bytes"];

/// Refuses what could be written and never be read by the reference: it knows dtypes in tfrec shards by their full names only.
///
/// # Errors
/// `Unsupported` names the attribute and the word to use.
pub(super) fn known_to_the_reference(object: &Metadata, structure: &Structure) -> Result<()> {
    let described = object.get("saved_data_description").and_then(Value::as_array);
    for (field, attribute) in structure.schema.fields.iter().zip(described.into_iter().flatten()) {
        let word = attribute.get("dtype").and_then(Value::as_str).unwrap_or_default();
        if structure.file_type == ShardFileType::TfRec && !TFREC_DTYPES.contains(&word) {
            let full = match &field.ty {
                FieldType::Array { dtype, .. } if TFREC_DTYPES.contains(&dtype.name().as_str()) => dtype.name(),
                _ => continue,
            };
            return Err(Error::unsupported(format!("attribute '{}': dtype '{word}' in a 'tfrec' dataset", field.name))
                .remedy(format!("call it '{full}': the reference package reads no other word for it there")));
        }
    }
    Ok(())
}

/// The alignment of a field's values in a shard: its item size as far as that is a power of two, 16 for text and bytes.
pub(super) fn alignment(ty: &FieldType) -> usize {
    match ty {
        FieldType::Array { dtype, .. } => 1 << dtype.itemsize().trailing_zeros().min(5),
        FieldType::Int => 8,
        FieldType::Str | FieldType::Bytes { .. } => 16,
    }
}
