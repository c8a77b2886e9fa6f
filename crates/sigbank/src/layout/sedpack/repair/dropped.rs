//! The memory of repairs: shards that were dropped because their files were gone or damaged. A damaged file stays where it is
//! and may be readable for all that, so the next repair must not take it for a whole one that nobody listed; and a file that was
//! restored from a copy gets back what was known of it.

use crate::error::{Code, Result};
use crate::layout::sedpack::lists::{ShardInfo, pretty};
use crate::layout::sedpack::progress::Record;
use crate::store::{Expected, Store};
use crate::uri::RelPath;
use serde_json::{Value, json};
use sigbank_format::model::Metadata;
use std::collections::HashMap;

const FORMAT: &str = "sigbank.sedpack.dropped";

fn place() -> Result<RelPath> {
    RelPath::parse(".sigbank/dropped.json")
}

/// Each shard that was dropped, by the path of its first file.
pub(in super::super) fn read(store: &dyn Store) -> Result<HashMap<RelPath, Record>> {
    let bytes = match store.get(&place()?) {
        Ok(bytes) => bytes,
        Err(e) if e.code() == Code::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(e),
    };
    let one = |value: &Value| {
        let list = RelPath::parse(value.get("list")?.as_str()?).ok()?;
        let shard = ShardInfo::parse(value.get("shard")?).ok()?;
        Some((shard.path().ok()?.clone(), Record { list, shard }))
    };
    let parsed: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let shards = parsed.get("shards").and_then(Value::as_array).into_iter().flatten();
    Ok(shards.filter_map(one).collect())
}

/// Writes the memory anew.
pub(super) fn write(store: &dyn Store, dropped: &[Record]) -> Result<()> {
    let shards = dropped.iter().map(|r| json!({"list": r.list.as_str(), "shard": r.shard.to_value()})).collect::<Vec<_>>();
    let mut body = Metadata::new();
    body.insert("format".into(), FORMAT.into());
    body.insert("shards".into(), shards.into());
    store.replace(&place()?, &[&pretty(&body)?], Expected::Any)?;
    if store.capabilities().flush { store.flush(&[place()?]) } else { Ok(()) }
}
