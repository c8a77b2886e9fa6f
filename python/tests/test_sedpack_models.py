"""The metadata models behave like the reference's: values, errors, JSON."""

from __future__ import annotations

import copy
import datetime
import importlib
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sedpack_cases import needs_reference, reference
from sigbank.sedpack import io as sedpack_io
from sigbank.sedpack.io._model import ValidationError, json_text
from sigbank.sedpack.io.file_info import FileInfo
from sigbank.sedpack.io.metadata import Attribute, DatasetInfo, DatasetStructure, Metadata
from sigbank.sedpack.io.shard_file_metadata import ShardInfo, ShardListInfo, ShardsList

MODULES = {
    "Metadata": "io.metadata",
    "Attribute": "io.metadata",
    "DatasetStructure": "io.metadata",
    "DatasetInfo": "io.metadata",
    "ShardInfo": "io.shard_file_metadata",
    "ShardListInfo": "io.shard_file_metadata",
    "ShardsList": "io.shard_file_metadata",
    "FileInfo": "io.file_info",
}
FILE = {"file_path": "train/shards_list.json", "hash_checksums": ["00", "11"]}
LIST = {"shard_list_info_file": FILE, "number_of_examples": 3, "number_of_shards": 2}
SHARD = {"file_infos": [{"file_path": "train/a.fb"}], "number_of_examples": 2, "custom_metadata": {"k": [1, None]}}
STORED = json.dumps({**SHARD, "custom_metadata": {"kind": 3}, "unknown": 1})
TRACE = {"name": "trace", "dtype": "float32", "shape": [4, 2], "custom_metadata": {"min": -0.5}}


def attribute(**values: Any) -> dict[str, Any]:
    return {"name": "a", "dtype": "f4", "shape": (), **values}


# Values that both take, with the same result.
ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("Metadata", {"sedpack_version": "9.9.9"}),
    ("Metadata", {"sedpack_version": "9.9.9", "description": 'é\n\x01"/', "custom_metadata": {"a": {"b": (1, 2.5)}}}),
    ("Metadata", {"sedpack_version": "9.9.9", "dataset_version": "x", "unknown": 1}),
    ("Metadata", {"sedpack_version": "9.9.9", "custom_metadata": {"nan": math.nan, "inf": -math.inf, "big": 2**70}}),
    (
        "Metadata",
        {"sedpack_version": "9.9.9", "custom_metadata": {"p": Path("x/y"), "s": {1}, "b": b"xx", "d": {1: 2}}},
    ),
    (
        "Metadata",
        {"sedpack_version": "9.9.9", "custom_metadata": {"t": datetime.datetime(2020, 1, 2, 3, 4, 5), "n": None}},
    ),
    ("Metadata", {"sedpack_version": "9.9.9", "custom_metadata": {"x": np.float64(1.5), "y": True}}),
    ("Attribute", TRACE),
    ("Attribute", attribute(shape=(1.0, "3", True))),
    ("Attribute", attribute(shape=np.array([1, 2]))),
    ("Attribute", attribute(shape=range(1, 3))),
    ("Attribute", attribute(name="", dtype="")),
    ("Attribute", attribute(name=np.str_("q"))),
    ("DatasetStructure", {}),
    (
        "DatasetStructure",
        {"saved_data_description": (TRACE, attribute()), "compression": "", "examples_per_shard": "5"},
    ),
    ("DatasetStructure", {"hash_checksum_algorithms": ["md5", "xxh128"], "examples_per_shard": 5.0}),
    ("DatasetStructure", {"hash_checksum_algorithms": (), "shard_file_type": "npz", "examples_per_shard": np.int64(4)}),
    ("FileInfo", FILE),
    ("FileInfo", {"file_path": "a//b/./c"}),
    ("FileInfo", {"file_path": "..a/b"}),
    ("FileInfo", {"file_path": Path("a/b")}),
    ("ShardInfo", SHARD),
    ("ShardInfo", {"file_infos": []}),
    ("ShardListInfo", LIST),
    ("ShardsList", {"relative_path_self": "train/shards_list.json"}),
    (
        "ShardsList",
        {"relative_path_self": "train/shards_list.json", "shard_files": [SHARD], "children_shard_lists": [LIST]},
    ),
    ("DatasetInfo", {"metadata": {"sedpack_version": "9.9.9"}, "splits": {"train": LIST}, "zz": 0}),
]

# Values that both refuse with a ValueError, and what our message names.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Metadata", {"description": 1}, r"Metadata\.description: expected a str, found 1"),
    ("Metadata", {"custom_metadata": None}, r"Metadata\.custom_metadata: expected a dict"),
    ("Metadata", {"custom_metadata": {1: 2}}, r"Metadata\.custom_metadata key: expected a str"),
    ("Metadata", {"custom_metadata": [("a", 1)]}, "expected a dict"),
    ("Attribute", {"name": "a", "dtype": "f4"}, r"Attribute\.shape: this field is required"),
    ("Attribute", attribute(shape=(0,)), r"Attribute\.shape\[0\]: expected a positive"),
    ("Attribute", attribute(shape=(3, -1)), r"Attribute\.shape\[1\]"),
    ("Attribute", attribute(shape=(1.5,)), r"Attribute\.shape\[0\]: expected an integer, found 1\.5"),
    ("Attribute", attribute(shape=("x",)), "expected an integer"),
    ("Attribute", attribute(shape=3), "expected a tuple"),
    ("Attribute", attribute(shape="12"), "expected a tuple"),
    ("Attribute", attribute(shape=[[1]]), "expected an integer"),
    ("Attribute", attribute(dtype=np.float32), "expected a str"),
    ("Attribute", attribute(dtype=np.dtype("f4")), "expected a str"),
    ("Attribute", attribute(name=None), "expected a str"),
    ("DatasetStructure", {"compression": "gzip"}, r"DatasetStructure\.compression: expected one of '', 'BZ2'"),
    ("DatasetStructure", {"compression": None}, "expected one of"),
    ("DatasetStructure", {"shard_file_type": "x"}, "expected one of 'fb', 'npz', 'tfrec'"),
    ("DatasetStructure", {"examples_per_shard": 5.5}, "expected an integer"),
    ("DatasetStructure", {"examples_per_shard": None}, "expected an integer"),
    ("DatasetStructure", {"hash_checksum_algorithms": "md5"}, "expected a tuple"),
    ("DatasetStructure", {"hash_checksum_algorithms": ["crc"]}, r"hash_checksum_algorithms\[0\]: expected one of"),
    ("DatasetStructure", {"saved_data_description": None}, "expected a list"),
    (
        "DatasetStructure",
        {"saved_data_description": [attribute(shape=(0,))]},
        r"saved_data_description\[0\]\.shape\[0\]",
    ),
    ("FileInfo", {"file_path": "../a"}, "stays inside it, found '../a'"),
    ("FileInfo", {"file_path": "a/../b"}, "stays inside"),
    ("FileInfo", {"file_path": 5}, "expected a path"),
    ("FileInfo", {"file_path": None}, "expected a path"),
    ("ShardInfo", {}, "required"),
    (
        "ShardListInfo",
        {"shard_list_info_file": {"file_path": "q"}},
        "expected a file called 'shards_list.json', found 'q'",
    ),
    ("ShardsList", {"relative_path_self": "x"}, "expected a file called"),
    ("ShardsList", {"relative_path_self": "../shards_list.json"}, "stays inside"),
    ("DatasetInfo", {"splits": {"valid": LIST}}, "expected one of 'train', 'test', 'holdout', found 'valid'"),
    ("DatasetInfo", {"metadata": 3}, r"DatasetInfo\.metadata: expected a mapping or a Metadata"),
]


def ours(name: str) -> Any:
    return getattr(importlib.import_module(f"sigbank.sedpack.{MODULES[name]}"), name)


def theirs(name: str) -> Any:
    return getattr(reference(MODULES[name]), name)


@needs_reference
@pytest.mark.parametrize(("name", "values"), ACCEPTED, ids=lambda x: x if isinstance(x, str) else "")
def test_model_matches_the_reference(name: str, values: dict[str, Any]) -> None:
    mine, other = ours(name)(**values), theirs(name)(**values)
    assert mine.model_fields_set == other.model_fields_set
    for options in ({}, {"mode": "json"}, {"exclude_defaults": True}, {"exclude_unset": True}, {"exclude_none": True}):
        assert repr(mine.model_dump(**options)) == repr(other.model_dump(**options)), options
    for options in ({}, {"indent": 2}, {"exclude_defaults": True}):
        assert mine.model_dump_json(**options) == other.model_dump_json(**options)
    assert repr(mine) == repr(other)
    assert str(mine) == str(other)
    assert ours(name).model_validate_json(other.model_dump_json()).model_dump_json() == mine.model_dump_json()


def test_a_dataset_asks_for_the_oldest_version_that_reads_it() -> None:
    assert Metadata().sedpack_version == "0.1.0"


@pytest.mark.parametrize(("name", "values", "message"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_refused_values_name_the_field(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ours(name)(**values)


@needs_reference
@pytest.mark.parametrize(("name", "values", "message"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_the_reference_refuses_the_same(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError):
        theirs(name)(**values)


@needs_reference
@pytest.mark.parametrize("name", list(MODULES))
def test_fields_and_defaults_are_those_of_the_reference(name: str) -> None:
    mine, other = ours(name).model_fields, theirs(name).model_fields
    assert list(mine) == list(other)
    for field, declared in mine.items():
        assert declared.required == other[field].is_required(), field
        if not declared.required and field not in ("sedpack_version", "metadata", "dataset_structure"):
            assert declared.default == other[field].get_default(call_default_factory=True), field


@pytest.mark.parametrize(
    "values",
    [{"file_path": "/etc/passwd"}, {"file_path": Path("/")}],
)
def test_absolute_paths_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="relative to the dataset's root"):
        FileInfo(**values)


@pytest.mark.parametrize("examples_per_shard", [0, -1])
def test_a_shard_holds_at_least_one_example(examples_per_shard: int) -> None:
    with pytest.raises(ValueError, match="examples_per_shard: expected a positive"):
        DatasetStructure(examples_per_shard=examples_per_shard)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ShardInfo\.number_of_examples: expected a count, found -1"):
        ShardInfo(file_infos=[], number_of_examples=-1)
    with pytest.raises(ValueError, match="number_of_shards"):
        ShardListInfo.model_validate({**LIST, "number_of_shards": -2})


def test_models_take_keywords_only_and_can_be_changed() -> None:
    with pytest.raises(TypeError):
        Attribute("a", "f4", ())  # type: ignore[misc]
    value = Attribute(name="a", dtype="f4", shape=[1, 2])
    assert value.shape == (1, 2)
    value.shape = (9,)
    assert value == Attribute(name="a", dtype="f4", shape=(9,))
    assert value != Attribute(name="b", dtype="f4", shape=(9,))
    assert value != value.model_dump()
    with pytest.raises(ValueError, match="has no field 'shpae'; its fields are name, dtype, shape"):
        value.shpae = ()  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        hash(value)


def test_defaults_are_not_shared() -> None:
    one = Metadata()
    one.custom_metadata["x"] = 1
    assert Metadata().custom_metadata == {}
    info = DatasetInfo()
    info.metadata.description = "changed"
    info.dataset_structure.saved_data_description.append(Attribute(name="a", dtype="f4", shape=()))
    assert DatasetInfo() == DatasetInfo(metadata=Metadata(), dataset_structure=DatasetStructure())


def test_models_within_are_kept_as_given() -> None:
    trace = Attribute(**TRACE)
    structure = DatasetStructure(saved_data_description=[trace, attribute(name="q")])
    assert structure.saved_data_description[0] is trace
    assert structure.attribute_by_name("q").dtype == "f4"
    with pytest.raises(ValueError, match="no attribute 'zz'; the attributes are: 'trace', 'q'"):
        structure.attribute_by_name("zz")


def test_copies_and_pickles() -> None:
    value = ShardInfo.model_validate(SHARD)
    for same in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), value.model_copy()):
        assert same == value
        assert same is not value
        assert same.model_fields_set == value.model_fields_set
    assert value.model_copy().custom_metadata is value.custom_metadata
    assert value.model_copy(deep=True).custom_metadata is not value.custom_metadata
    assert value.model_copy(update={"number_of_examples": 9}).number_of_examples == 9
    assert value.number_of_examples == 2
    assert ShardInfo.model_validate(value) is value


def test_a_copy_has_its_own_set_of_given_fields() -> None:
    value = Metadata()
    other = value.model_copy()
    other.description = "x"
    assert (value.model_fields_set, other.model_fields_set) == (set(), {"description"})


def test_dump_of_chosen_fields() -> None:
    structure = DatasetStructure(compression="LZ4")
    assert structure.model_dump(include={"compression"}) == {"compression": "LZ4"}
    assert "compression" not in structure.model_dump(exclude={"compression"})
    assert structure.model_dump(exclude_defaults=True) == {"compression": "LZ4"}
    shards = ShardsList(relative_path_self="train/shards_list.json", shard_files=[SHARD])
    assert shards.model_dump_json(exclude_defaults=True) == (
        '{"relative_path_self":"train/shards_list.json","shard_files":[{"file_infos":[{"file_path":"train/a.fb"}],'
        '"number_of_examples":2,"custom_metadata":{"k":[1,null]}}]}'
    )


@pytest.mark.parametrize("value", [np.int64(1), np.arange(2), object(), [{"x": np.float32(1)}]])
def test_values_that_json_cannot_hold_are_named(value: Any) -> None:
    with pytest.raises(ValueError, match=r"Metadata\.custom_metadata\['key'\].*found a .*tolist"):
        Metadata(custom_metadata={"key": value}).model_dump_json()
    with pytest.raises(ValueError, match="custom_metadata"):
        json_text({"key": value}, "custom_metadata")


@pytest.mark.parametrize("text", ["nonsense", "[]", "3", '{"name": 1}', "", b"\xff"])
def test_bad_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="Attribute"):
        Attribute.model_validate_json(text)


@pytest.mark.parametrize(
    ("dtype", "shape", "variable"),
    [("str", (), True), ("bytes", (), True), ("bytes", (3,), False), ("int", (), False), ("f4", (), False)],
)
def test_has_variable_size(dtype: str, shape: tuple[int, ...], variable: bool) -> None:
    assert Attribute(name="a", dtype=dtype, shape=shape).has_variable_size() is variable


@pytest.mark.parametrize("value", [math.nan, -math.inf, "\ud800", [1, {"b": math.nan}]])
def test_what_a_file_would_not_give_back_is_refused_when_it_is_saved(tmp_path: Path, value: object) -> None:
    structure = DatasetStructure(saved_data_description=[Attribute(name="i", dtype="int", shape=())])
    with pytest.raises(ValueError, match=r"metadata.*'a'"):
        sedpack_io.Dataset.create(tmp_path / "new", Metadata(custom_metadata={"a": value}), structure)
    assert not (tmp_path / "new" / "dataset_info.json").exists()
    dataset = sedpack_io.Dataset.create(tmp_path / "d", Metadata(), structure)
    with dataset.filler() as filler:
        with pytest.raises(ValueError, match=r"custom_metadata.*'a'"):
            filler.write_example({"i": 1}, "train", custom_metadata={"a": value})
        filler.write_example({"i": 2}, "train", custom_metadata={"a": 1.5})
    dataset.metadata = Metadata(custom_metadata={"a": value})
    with pytest.raises(ValueError, match=r"metadata.*'a'"):
        dataset.write_config()
    assert sedpack_io.Dataset(tmp_path / "d").metadata.custom_metadata == {}


def stored(text: str = STORED) -> ShardInfo:
    return ShardInfo._stored_as()(text)


def test_a_listed_shard_is_looked_into_when_it_is_asked() -> None:
    eager = ShardInfo.model_validate_json(STORED)
    info = stored()
    assert info.custom_metadata == {"kind": 3}
    # Nothing else was made of it.
    assert set(info.__dict__) == {"custom_metadata"}
    info.custom_metadata["kind"] = 4
    assert [name for name, _ in info] == ["file_infos", "number_of_examples", "custom_metadata"]
    assert info.custom_metadata == {"kind": 4}
    assert info != eager
    assert stored() == eager
    assert eager == stored()
    for same in (copy.copy(stored()), copy.deepcopy(stored()), pickle.loads(pickle.dumps(stored())), stored().model_copy(deep=True)):
        assert type(same) is ShardInfo
        assert same == eager
        assert same.model_fields_set == eager.model_fields_set
    assert repr(stored()) == repr(eager)
    assert stored().model_dump_json() == eager.model_dump_json()
    assert stored().model_dump(exclude_unset=True) == eager.model_dump(exclude_unset=True)
    assert stored().model_fields_set == {"file_infos", "number_of_examples", "custom_metadata"}
    changed = stored()
    changed.number_of_examples = 7
    assert (changed.number_of_examples, changed.file_infos) == (7, eager.file_infos)
    with pytest.raises(AttributeError, match="'ShardInfo' object has no attribute 'nothing'"):
        stored().nothing  # noqa: B018
    with pytest.raises(ValueError, match="ShardInfo has no field 'nothing'"):
        stored().nothing = 1
    short = stored('{"file_infos": [{"file_path": "train/a.fb"}]}')
    assert (short.custom_metadata, short.number_of_examples, short.model_fields_set) == ({}, 0, {"file_infos"})
    short.custom_metadata["x"] = 1
    assert stored('{"file_infos": [{"file_path": "train/a.fb"}]}').custom_metadata == {}


def test_threads_may_look_into_one_listed_shard() -> None:
    eager = ShardInfo.model_validate_json(STORED)
    for _ in range(200):
        info = stored()
        with ThreadPoolExecutor(4) as pool:
            looks = [lambda: info.custom_metadata, lambda: info == eager, lambda: info.file_infos, lambda: info.model_dump()]
            found = list(pool.map(lambda look: look(), looks))
        assert found == [eager.custom_metadata, True, eager.file_infos, eager.model_dump()]
