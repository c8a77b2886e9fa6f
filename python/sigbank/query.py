"""Search by what is said of records, in one language for all layouts; no samples are read.

`sigbank.open(place).find(expression)` gives the numbers of the records for which an expression holds, and `.where(expression)` these as a dataset,
of which `[i]`, `ids`, `batches`, `windows` and a further `where` work as of any other. `sigbank find PLACE EXPRESSION` prints them. What is
said of many records is kept in a Parquet file for the next program, which is used only while it is what the dataset says:

- JBOF: items by their metadata (and `array@shape`, ...); the file is `__pycache__/sigbank/index.parquet` in the data set. In a bucket it is written on
  demand only (`sigbank find s3://... --index`).
- signal-dataset: records by their metadata and fields; the file is in the folder that `SIGBANK_INDEX_DIR` names, by default
  `~/.cache/sigbank/index`.
- Sedpack: shards by their `custom_metadata` and `split`, whose examples are all meant: what examples hold is not searched. There is no file.

`SIGBANK_INDEX` is `use` to have no file written, and `ignore` for none at all. Records that cannot be searched and names that no record has are told
by a UserWarning.

An expression compares (`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`), looks into texts and lists (`contains`, `startswith`, `endswith`, `like 'a%'`,
`matches '^a'`) and joins with `and`, `or`, `not`. Metadata are `key`, `a.b`, `a[0]`, `metadata['odd key']`; `id` and `split` are the record's own;
`exists(key)` and `has(field)` ask whether they are there; `field@dtype`, `field@shape[0]`, `field@ndim`, `field@length`, `field@axes` and `field@sample_rate` ask
for fields. What is missing makes a comparison false, `!=` too. Infinities, which Python writes into JSON, are beyond all numbers; NaN is null.

What was found stays found: a pickle, such as workers of a DataLoader are given, has the same records though others were added meanwhile, and raises
ConflictError where some are gone.

>>> table = Table.from_json([("a", '{"snr": 3}'), ("b", '{"snr": 12.5}')])
>>> table.find("snr > 10")
['b']
>>> check_expression("snr=3 or not(snr<1)")
'snr == 3 or not snr < 1'
"""

from ._native import MetadataTable as Table, check_expression

__all__ = ["Table", "check_expression"]
