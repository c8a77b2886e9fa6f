"""Records: their classes, their rules and their bytes."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import enum
import inspect
import math
import pickle
import sys
import threading
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import sigbank
import sigbank.signal_dataset as ours
from signal_cases import MODULES, all_kinds, iq, needs_reference, reference, same_record
from sigbank.signal_dataset import Axis, Coordinate, Field, FieldMetadata, Record, RecordMetadata, ValidationError

MODEL = ["Record", "Field", "Axis", "Coordinate", "RecordMetadata", "FieldMetadata", "AnnotationRecord", "PublishedShard"]
OPTIONS = ["ResourcePolicy", "ControlPolicy", "RetryPolicy", "StorageOptions", "PublicationOptions", "AnnotationOptions"]


def one(data: Any, *axes: Any, module: Any = ours, **more: Any) -> Any:
    return module.Record("r", {"x": module.Field(data, axes)}, **more)


@needs_reference
@pytest.mark.parametrize("make", [iq, all_kinds])
def test_bytes_are_the_references_and_each_reads_the_other(make: Any) -> None:
    mine, theirs = make(ours), make(reference)
    assert repr(mine) == repr(theirs)
    payload = ours.encode(mine)
    assert payload == reference.encode(theirs)
    same_record(ours.decode(payload), reference.decode(payload))
    document = ours.record.RecordMetadataCodec().encode(RecordMetadata.from_record(mine))
    codec = reference.record.RecordMetadataCodec()
    assert document == codec.encode(reference.RecordMetadata.from_record(theirs))
    assert repr(ours.record.RecordMetadataCodec().decode(document)) == repr(codec.decode(document))


@needs_reference
@pytest.mark.parametrize("name", MODEL + OPTIONS)
def test_signatures_are_the_references(name: str) -> None:
    mine, theirs = (inspect.signature(getattr(m, name)) for m in (ours, reference))
    assert [(p.name, p.kind) for p in mine.parameters.values()] == [(p.name, p.kind) for p in theirs.parameters.values()]
    for a, b in zip(mine.parameters.values(), theirs.parameters.values(), strict=True):
        assert (a.default is inspect.Parameter.empty) == (b.default is inspect.Parameter.empty)
        if not repr(a.default).startswith("<"):
            assert a.default == b.default
    if name in OPTIONS:
        assert repr(getattr(ours, name)()) == repr(getattr(reference, name)())


@pytest.mark.parametrize("m", MODULES)
def test_arrays_are_read_only_copies_in_c_order(m: Any) -> None:
    given = np.arange(6, dtype="f4").reshape(2, 3).T
    field = m.Field(given, [m.Axis("a", 3), m.Axis("b", 2)])
    assert field.data.flags.c_contiguous and not field.data.flags.writeable and field.data.shape == (3, 2)
    given[:] = 0
    assert field.data[2, 1] == 5
    assert type(m.Field(np.ma.masked_array([1, 2], [True, False])).data) is np.ndarray
    assert m.Field(3.0).data.shape == (1,) and m.Field([1, 2]).data.dtype == np.dtype("i8")
    assert isinstance(field.axes, tuple)
    with pytest.raises(ValueError):
        m.Field(np.array([None, "x"], dtype=object))


@pytest.mark.parametrize("m", MODULES)
def test_decoded_arrays_are_views_of_the_payload(m: Any) -> None:
    payload = m.encode(all_kinds(m))
    decoded = m.decode(payload)
    for field in decoded.values():
        assert not field.data.flags.writeable
        with pytest.raises(ValueError):
            field.data[...] = 0
    if m is ours:
        start = np.frombuffer(payload, "u1").ctypes.data
        assert all(start < f.data.ctypes.data <= start + len(payload) for f in decoded.values())
        assert all(f.data.flags.aligned for f in decoded.values())


def test_a_view_keeps_its_payload_and_unaligned_data_are_told() -> None:
    record = iq(ours, length=100)
    data = ours.decode(b"".join([ours.encode(record)]))["iq"].data
    junk = [bytes(4000) for _ in range(100)]
    assert np.array_equal(data, record["iq"].data) and len(junk) == 100
    # A header that is not padded to a multiple of eight is allowed.
    payload = ours.encode(one(np.arange(3.0), Axis("t", 3)))
    n = int.from_bytes(payload[:8], "little")
    shifted = (n + 1).to_bytes(8, "little") + payload[8 : 8 + n] + b" " + payload[8 + n :]
    data = ours.decode(shifted)["x"].data
    assert data.tolist() == [0, 1, 2] and not data.flags.aligned


@pytest.mark.parametrize("m", MODULES)
def test_metadata_are_frozen_copies(m: Any) -> None:
    class Level(enum.IntEnum):
        HIGH = 3

    class Text(str):
        pass

    inner = {"list": [1, (2, {"x": None})], "b": True}
    axis = m.Axis("t", 1, metadata={"z": inner, "a": np.float64(0.5), "level": Level.HIGH, "text": Text("s")})
    inner["b"] = False
    assert axis.metadata["z"]["b"] is True
    assert axis.metadata["z"]["list"] == (1, (2, MappingProxyType({"x": None})))
    assert list(axis.metadata) == ["z", "a", "level", "text"]
    with pytest.raises(TypeError):
        axis.metadata["new"] = 1
    with pytest.raises(TypeError):
        axis.metadata["z"]["new"] = 1
    record = one(np.zeros(1), axis, module=m)
    assert m.decode(m.encode(record))["x"].axes[0].metadata == {
        "a": 0.5,
        "level": 3,
        "text": "s",
        "z": MappingProxyType({"b": True, "list": (1, (2, MappingProxyType({"x": None})))}),
    }
    assert m.Axis("t", 1, metadata=None).metadata == {} and m.Axis("t", 1, metadata=[]).metadata == {}
    assert m.Coordinate(values=range(3)).values == (0, 1, 2) and m.Coordinate(values=(x for x in "ab")).values == ("a", "b")


@pytest.mark.parametrize("m", MODULES)
@pytest.mark.parametrize(
    "value",
    [np.int64(1), np.float32(1), np.bool_(True), b"x", {1}, np.zeros(2), math.nan, -math.inf, {1: 2}, object(), 1j, {"a": [b""]}],
    ids=repr,
)
def test_what_is_not_json_is_a_type_error(m: Any, value: Any) -> None:
    makers = [
        lambda v: m.Axis("t", 1, metadata={"k": v}),
        lambda v: m.Coordinate(values=[v]),
        lambda v: m.Coordinate(metadata={"k": v}),
        lambda v: m.Field([1], metadata={"k": v}),
        lambda v: m.Record("r", {}, metadata={"k": v}),
        lambda v: m.FieldMetadata("<f4", [1], metadata={"k": v}),
        lambda v: m.RecordMetadata("r", {}, metadata={"k": v}),
        lambda v: m.AnnotationRecord("r", 0, m.AnnotationStatus.SUCCESS, values={"k": v}),
    ]
    for make in makers:
        with pytest.raises(TypeError):
            make(value)
    with pytest.raises(TypeError):
        m.Axis("t", 1, metadata=[1])


@pytest.mark.parametrize("m", MODULES)
def test_endless_metadata_are_a_recursion_error(m: Any) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        m.Axis("t", 1, metadata={"k": endless})


@pytest.mark.parametrize("m", MODULES)
def test_records_are_mappings(m: Any) -> None:
    record = iq(m)
    said = m.RecordMetadata.from_record(record)
    for mapping in (record, said):
        assert isinstance(mapping, collections.abc.Mapping)
        assert (list(mapping), len(mapping), "iq" in mapping, mapping.get("nope")) == (["iq"], 1, True, None)
        assert dict(mapping)["iq"] is mapping["iq"] and isinstance(mapping.fields, MappingProxyType)
        with pytest.raises(KeyError):
            mapping["nope"]
    assert (said["iq"].dtype, said["iq"].shape, said["iq"].axes) == ("<c8", (2, 4), record["iq"].axes)


@pytest.mark.parametrize("m", MODULES)
def test_equality_hash_and_assignment(m: Any) -> None:
    assert m.Axis("t", 1) == m.Axis("t", 1) != m.Axis("t", 2)
    assert m.Coordinate(start=0, step=1) == m.Coordinate(start=0.0, step=1)
    assert m.FieldMetadata("<f4", [1]) == m.FieldMetadata("<f4", (1,))
    assert m.RecordMetadata("r", {}) == m.RecordMetadata("r", {}) != m.RecordMetadata("q", {})
    field = m.Field([1])
    assert field != m.Field([1]) and len({field, field}) == 1
    assert m.Record("a", {"x": field}) == m.Record("b", {"x": field}) != m.Record("a", {"x": m.Field([1])})
    for unhashable in (m.Axis("t", 1), m.Coordinate(), m.FieldMetadata("<f4", ()), m.RecordMetadata("r", {}), m.Record("r", {})):
        with pytest.raises(TypeError):
            hash(unhashable)
    for frozen, name in ((m.Axis("t", 1), "name"), (field, "data"), (m.Record("r", {}), "id"), (m.Coordinate(), "unit")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, "x")
        assert not hasattr(frozen, "__dict__")
    assert dataclasses.replace(iq(m), id="other").id == "other"


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: pickle.loads(pickle.dumps(x, 2))])
def test_ours_are_copied_and_pickled(clone: Any) -> None:
    decoded = ours.decode(ours.encode(all_kinds(ours)))
    for value in (all_kinds(ours), decoded, RecordMetadata.from_record(decoded), ours.AnnotationRecord("r", 1, ours.AnnotationStatus.FAILED)):
        again = clone(value)
        assert type(again) is type(value) and repr(again) == repr(value)
    again = clone(decoded)
    assert isinstance(again.metadata, MappingProxyType) and isinstance(again.metadata["z"][1][1], MappingProxyType)
    assert not any(field.data.flags.writeable for field in again.values())
    assert ours.encode(again) == ours.encode(decoded)


def record_with(axis: Any = None, field: Any = None, **record: Any) -> Any:
    """A function that makes a record with these differences, with either module."""

    def make(m: Any) -> Any:
        axes = (m.Axis(**({"name": "t", "length": 3} | (axis(m) if axis else {}))),)
        fields = {"x": m.Field(np.zeros(3, "f4"), axes)} if field is None else field(m)
        return m.Record(**({"id": "r", "fields": fields} | record))

    return make


def coordinate(**values: Any) -> Any:
    return record_with(axis=lambda m: {"coordinate": m.Coordinate(**values)})


def fields_of(*dtypes: str) -> Any:
    return lambda m: {d: m.Field(np.zeros(1, d), (m.Axis("t", 1),)) for d in dtypes}


def shared(first: Any, second: Any) -> Any:
    def make(m: Any) -> Any:
        coordinates = [m.Coordinate(**values) if values else None for values in (first, second)]
        return {str(i): m.Field([1], (m.Axis("t", 1, id="i", coordinate=c),)) for i, c in enumerate(coordinates)}

    return record_with(field=make)


ACCEPTED: dict[str, Any] = {
    "plain": record_with(),
    "empty scene": record_with(scene_id=""),
    "empty role": record_with(axis=lambda m: {"role": "", "id": ""}),
    "coordinate without a word": coordinate(),
    "only a unit": coordinate(unit="s"),
    "step 0": coordinate(start=0, step=0),
    "numpy's double": coordinate(start=np.float64(0.5), step=1),
    "values": coordinate(values=[1, "a", None]),
    "a reference to itself": coordinate(reference="x"),
    "an empty reference": coordinate(reference=""),
    "equal numbers": shared({"start": 0, "step": 1}, {"start": 0.0, "step": True + 0}),
}

REFUSED: dict[str, tuple[Any, str]] = {
    "empty id": (record_with(id=""), "id is empty"),
    "id of another type": (record_with(id=3), "record id must be"),
    "scene": (record_with(scene_id=3), "scene id"),
    "no fields": (record_with(fields={}), "no fields"),
    "empty field name": (record_with(field=lambda m: {"": m.Field([1], (m.Axis("t", 1),))}), "name is empty"),
    "field name of another type": (record_with(field=lambda m: {1: m.Field([1], (m.Axis("t", 1),))}), "field names"),
    "not a field": (record_with(field=lambda m: {"x": np.zeros(3)}), "'x'.*must be a Field"),
    "not an axis": (record_with(field=lambda m: {"x": m.Field([1], ("t",))}), "'x'.*must be Axis"),
    "complex128": (record_with(field=fields_of("c16")), "complex64"),
    "big-endian": (record_with(field=fields_of(">f4")), "little-endian"),
    "text": (record_with(field=fields_of("U3")), "<U3"),
    "time": (record_with(field=fields_of("M8[s]")), "int64"),
    "long double": (record_with(field=fields_of("f16")), "float64"),
    "bytes": (record_with(field=fields_of("S2")), r"\|S2"),
    "rank": (record_with(field=lambda m: {"x": m.Field([1])}), "0 axes for 1 dimensions"),
    "axis name": (record_with(axis=lambda m: {"name": ""}), "empty name"),
    "axis name of another type": (record_with(axis=lambda m: {"name": None}), "axis name"),
    "two axes of one name": (
        record_with(field=lambda m: {"x": m.Field([[1]], (m.Axis("t", 1), m.Axis("t", 1)))}),
        "two axes are called 't'",
    ),
    "length of another dimension": (record_with(axis=lambda m: {"length": 4}), "length 4.*has 3"),
    "length True": (record_with(axis=lambda m: {"length": True}), "length must be a nonnegative integer"),
    "length 3.0": (record_with(axis=lambda m: {"length": 3.0}), "length must be"),
    "length of NumPy's": (record_with(axis=lambda m: {"length": np.int64(3)}), "length must be"),
    "negative length": (record_with(axis=lambda m: {"length": -3}), "length must be"),
    "role": (record_with(axis=lambda m: {"role": 1}), "role must be"),
    "axis id": (record_with(axis=lambda m: {"id": 1}), "id must be"),
    "coordinate of another type": (record_with(axis=lambda m: {"coordinate": {"start": 0}}), "must be a Coordinate"),
    "start is a bool": (coordinate(start=True, step=1), "start must be a number"),
    "start is NumPy's": (coordinate(start=np.int64(1), step=1), "start must be a number"),
    "step is a text": (coordinate(start=0, step="1"), "step must be a number"),
    "NaN": (coordinate(start=math.nan, step=1), "nan"),
    "only start": (coordinate(start=0), "no step"),
    "only step": (coordinate(step=1), "no start"),
    "two forms": (coordinate(values=[1, 2, 3], start=0, step=1), "more than one"),
    "empty forms": (coordinate(values=[], reference=""), "more than one"),
    "values of another length": (coordinate(values=[1, 2]), "2 coordinate values for a length of 3"),
    "unit": (coordinate(unit=1), "unit must be"),
    "reference of another type": (coordinate(reference=1), "reference must be"),
    "reference to nothing": (coordinate(reference="nope"), "'nope' is neither"),
    "shared axes disagree": (shared({"start": 0, "step": 1}, {"start": 0, "step": 2}), "one axis"),
    "one has a coordinate": (shared({"unit": "s"}, None), "one axis"),
}


@pytest.mark.parametrize("m", MODULES)
@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(m: Any, case: str) -> None:
    record = ACCEPTED[case](m)
    assert m.validate(record) is None
    assert m.decode(m.encode(record)).id == record.id


@pytest.mark.parametrize("m", MODULES)
@pytest.mark.parametrize("case", REFUSED)
def test_refused(m: Any, case: str) -> None:
    make, words = REFUSED[case]
    record = make(m)
    assert repr(record).startswith("Record(id=")
    for refuse in (m.validate, m.encode):
        with pytest.raises(m.ValidationError, match=words if m is ours else None) as caught:
            refuse(record)
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, m.SignalDatasetError)


def test_messages_name_the_place() -> None:
    with pytest.raises(ValidationError, match=r"^record 'r': field 'x': axis 't': the coordinate's step must be a number or None, found 'fast'$"):
        ours.validate(coordinate(start=0, step="fast")(ours))
    with pytest.raises(ValidationError, match=r"^record 'r': field 'x': axis 't' has length 4, but dimension 0 of its array \[3\] has 3$"):
        ours.encode(record_with(axis=lambda m: {"length": 4})(ours))
    with pytest.raises(ValidationError) as caught:
        ours.validate(one([1], Axis("t", 1), metadata={"s": "\ud800"}))
    assert "surrogate" in str(caught.value) and isinstance(caught.value, sigbank.SigbankError)


@pytest.mark.parametrize("m", MODULES)
@pytest.mark.parametrize("limit", ["max_fields", "max_axes_per_field", "max_coordinate_values", "max_tensor_bytes", "max_total_tensor_bytes", "max_metadata_bytes"])
def test_limits(m: Any, limit: str) -> None:
    record = one(np.zeros(3, "f4"), m.Axis("t", 3, coordinate=m.Coordinate(values=[1, 2, 3])), module=m, metadata={"k": "v"})
    payload = m.encode(record)
    policy = m.ResourcePolicy(**{limit: 0})
    for refuse in (lambda: m.validate(record, policy=policy), lambda: m.encode(record, policy=policy), lambda: m.decode(payload, policy=policy)):
        with pytest.raises(m.ValidationError, match=limit if limit != "max_fields" else "max_fields|0-field"):
            refuse()
    assert m.decode(payload, policy=m.ResourcePolicy()).id == "r"


@pytest.mark.parametrize("m", MODULES)
def test_options_check_their_values(m: Any) -> None:
    for make in (
        lambda: m.ResourcePolicy(max_fields=-1),
        lambda: m.ResourcePolicy(max_fields=True),
        lambda: m.ResourcePolicy(max_fields=1.0),
        lambda: m.ControlPolicy(max_json_depth=0),
        lambda: m.StorageOptions(max_open_shards=0),
        lambda: m.StorageOptions(max_records_per_shard=0),
        lambda: m.StorageOptions(file_reader_buffer_size=-1),
        lambda: m.PublicationOptions(shards_per_manifest=0),
        lambda: m.AnnotationOptions(records_per_shard=True),
        lambda: m.AnnotationOptions(publication_id=""),
        lambda: m.RetryPolicy(attempts=0),
        lambda: m.RetryPolicy(attempts=65),
        lambda: m.RetryPolicy(attempts=True),
        lambda: m.RetryPolicy(base_seconds=-1),
        lambda: m.RetryPolicy(base_seconds=2, max_seconds=1),
        lambda: m.RetryPolicy(jitter=1),
        lambda: m.PublishedShard("", "b", "w", 0, 1, 2, 3),
        lambda: m.PublishedShard("a", "b", "w", -1, 1, 2, 3),
        lambda: m.PublishedShard("a", "b", "w", 0, True, 2, 3),
        lambda: m.AnnotationRecord("r", -1, m.AnnotationStatus.SUCCESS),
    ):
        with pytest.raises(ValueError):
            make()
    assert hash(m.ResourcePolicy()) == hash(m.ResourcePolicy(max_fields=10_000))
    assert str(m.AnnotationStatus.FAILED) == "failed" and m.AnnotationStatus("skipped") is m.AnnotationStatus.SKIPPED
    assert pickle.loads(pickle.dumps(m.StorageOptions(max_open_shards=2))) == m.StorageOptions(max_open_shards=2)


@pytest.mark.parametrize("m", MODULES)
def test_damaged_bytes_are_a_validation_error(m: Any) -> None:
    payload = m.encode(iq(m))
    for wrong in (b"", payload[:40], payload[:-1], payload + b"\0", b"\xff" * 64, payload.replace(b'"version":"0.1"', b'"version":"0.2"'), payload.replace(b'"id":"r0"', b'"id":NaN ')):
        with pytest.raises(m.ValidationError):
            m.decode(wrong)
    with pytest.raises((TypeError, ValueError)):
        m.decode(memoryview(payload))


def test_what_is_no_record() -> None:
    for call in (ours.encode, ours.validate):
        with pytest.raises(AttributeError):
            call(3)  # type: ignore[operator]
    with pytest.raises(ValidationError, match="bytes are expected, found bytearray"):
        ours.decode(bytearray(8))  # type: ignore[arg-type]


def test_large_records_and_threads() -> None:
    records = [one(np.full(100_000, i, "f4"), Axis("t", 100_000), metadata={"i": i}) for i in range(8)]
    payloads: dict[int, bytes] = {}

    def work(i: int) -> None:
        for _ in range(3):
            payloads[i] = ours.encode(records[i])
            decoded = ours.decode(payloads[i])
            assert decoded.metadata["i"] == i and decoded["x"].data[-1] == i and decoded["x"].axes[0].length == 100_000

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(payloads) == list(range(8))


def test_nothing_leaks() -> None:
    payload = ours.encode(iq(ours, length=1000))
    before = sys.getrefcount(payload)
    for _ in range(100):
        record = ours.decode(payload)
    assert sys.getrefcount(payload) == before + 1
    del record
    assert sys.getrefcount(payload) == before
    none = sys.getrefcount(ours.Axis)
    for _ in range(1000):
        ours.decode(payload)
    assert abs(sys.getrefcount(ours.Axis) - none) < 50


def test_codecs() -> None:
    codec = ours.record.SafeTensorsRecordCodec(policy=ours.ResourcePolicy(max_fields=0))
    with pytest.raises(ValidationError):
        codec.encode(iq(ours))
    said = RecordMetadata("r", {"x": FieldMetadata("<f4", (3,), (Axis("t", 3, coordinate=Coordinate(start=0, step=1)),))})
    metadata = ours.record.RecordMetadataCodec()
    assert metadata.decode(metadata.encode(said)) == said
    for wrong in (b"", b"[]", b'{"id":"r","id":"s","fields":{}}', b'{"id":"r"}'):
        with pytest.raises(ValidationError):
            metadata.decode(wrong)
    with pytest.raises(ValidationError):
        metadata.encode(RecordMetadata("r", {"x": FieldMetadata("<f4", (3,))}))
    assert isinstance(Record("r", {"x": Field([1.0], (Axis("t", 1),))}), Record)
