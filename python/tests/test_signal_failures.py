"""What stores of a program's own and clients of storage services raise comes out as it was raised."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sigbank.signal_dataset as ours
from signal_cases import iq, reference
from test_signal_stores import Failing, Refused, objects_of, shards_of

ROOT = "s3://bucket/a"
BOTH: list[ModuleType] = [m for m in (reference, ours) if m is not None]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried again is at once: how long is waited is tested elsewhere."""
    monkeypatch.setattr("sigbank.signal_dataset._roots.RetryPolicy", lambda **_: soon(ours))


def soon(m: ModuleType) -> Any:
    return m.RetryPolicy(attempts=2, base_seconds=0.001, max_seconds=0.001)


def published(m: ModuleType, objects: Any, shards: Any) -> Any:
    how = {"object_store": objects, "shard_store": shards, "retry": soon(m)}
    shard = m.write_shard([iq(m, i) for i in range(3)], ROOT, work_id="w", **how)
    return m.publish(ROOT, [shard], dataset_id="d", snapshot_id="s", expected_work_ids=["w"], **how)


def outcome(m: ModuleType, where: str, failure: Exception) -> Exception:
    """What a call raises whose store raises `failure`."""
    objects = objects_of(m)
    shards = shards_of(m, of=objects)

    def failing(*_: Any, **__: Any) -> Any:
        raise failure

    with pytest.raises(Exception) as raised:
        if where in ("create", "create_file"):
            setattr(type(objects), where, failing)
            m.write_shard([iq(m, 0)], ROOT, work_id="w", object_store=objects, shard_store=shards, retry=soon(m))
            published(m, objects, shards)
        elif where == "write":
            type(shards).write = failing
            published(m, objects, shards)
        else:
            dataset = published(m, objects, shards)
            if where == "read":
                type(shards).read = failing
                dataset[0]
            else:
                type(objects).read = type(objects).read_version = failing
                m.open(ROOT, object_store=objects, shard_store=shards)
    return raised.value


@pytest.mark.parametrize("where", ["create_file", "write", "read", "open"])
@pytest.mark.parametrize(
    "failure",
    [
        PermissionError(13, "not yours"),
        TimeoutError("too late"),
        ConnectionResetError(104, "cut off"),
        OSError(28, "full"),
        ours.StorageError("of a kind"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_what_a_store_raises_comes_out(where: str, failure: OSError) -> None:
    failure = type(failure)(*failure.args)  # Notes stay with an exception.
    failure.__cause__ = RuntimeError("the cable")
    for m in BOTH:
        raised = outcome(m, where, failure)
        assert type(raised) is type(failure), (m.__name__, raised)
        assert isinstance(raised, OSError) and raised.errno == failure.errno and str(raised) == str(failure)
    assert isinstance(raised.__cause__, RuntimeError)
    if where in ("read", "open"):
        # The object is in a note, once.
        assert len([note for note in raised.__notes__ if note.startswith(ROOT)]) == 1


def test_an_address_is_told_once() -> None:
    for failure in (FileNotFoundError(f"{ROOT}/root.json"), ours.StorageError(f"{ROOT}/root.json: the line is cut")):
        told = str(outcome(ours, "open", failure))
        assert told.count("root.json") == 1, told


@pytest.mark.parametrize("given", [None, "text", 3])
def test_what_a_store_must_not_give_is_told_with_class_method_and_object(given: Any) -> None:
    objects = objects_of(ours)
    shards = shards_of(ours, of=objects)
    dataset = published(ours, objects, shards)
    name = type(given).__name__
    type(shards).read = lambda *_, **__: given
    with pytest.raises(TypeError, match=rf"{ROOT}/objects/.*: Pickles.read is expected to give bytes, and gave {name}"):
        dataset[0]
    type(shards).read_many = lambda *_, **__: [given]
    with pytest.raises(TypeError, match=rf"Pickles.read_many is expected to give records of bytes, and gave {name}"):
        dataset.__getitems__([0, 1])
    type(objects).read = lambda *_, **__: given
    type(objects).read_version = lambda *_, **__: given
    with pytest.raises(TypeError, match=rf"{ROOT}/root.json: Memory.read\w* is expected to give .*, and gave {name}"):
        ours.open(ROOT, object_store=objects, shard_store=shards)


def test_nothing_but_the_layout_is_put_into_a_programs_store() -> None:
    objects = objects_of(ours)
    deleted: list[str] = []
    type(objects).delete = lambda self, uri: deleted.append(uri)
    published(ours, objects, shards_of(ours, of=objects))
    assert deleted == [] and not [uri for uri in objects.objects if "/.sigbank/" in uri]
    assert not [put for put in objects.puts if "/.sigbank/" in str(put)]


@pytest.mark.parametrize(
    ("code", "status", "raised", "told"),
    [
        ("AccessDenied", 403, PermissionError, "denied"),
        ("403", 403, PermissionError, "denied"),
        ("ExpiredToken", 400, ours.StorageError, "check the credentials, their expiry"),
        ("RequestTimeTooSkewed", 403, ours.StorageError, "clock"),
        ("SignatureDoesNotMatch", 403, ours.StorageError, "check the credentials"),
        ("NotImplemented", 501, ours.StorageError, "does not implement conditional writes"),
        ("ConditionalRequestConflict", 409, ours.StorageError, "attempts|failed"),
        ("PreconditionFailed", 412, ours.PublicationCollisionError, ""),
        ("NoSuchKey", 404, FileNotFoundError, ""),
    ],
)
def test_what_a_service_refuses_is_not_tried_again(
    code: str, status: int, raised: type[Exception], told: str, tmp_path: Path
) -> None:
    file, uri = tmp_path / "file", f"{ROOT}/object"
    file.write_bytes(b"abc")
    json = {"content_type": "application/json"}
    calls = {
        "read": lambda store: store.read(uri),
        "info": lambda store: store.info(uri),
        "create": lambda store: store.create(uri, b"x", **json),
        "create_file": lambda store: store.create_file(uri, file, **json),
        "compare_and_swap": lambda store: store.compare_and_swap(uri, b"x", expected_generation=None, **json),
    }
    for name, call in calls.items():
        asked = []
        for m in BOTH:
            client = Failing(code, status)
            how = m.storage.S3Options(conflict_retry_base_seconds=0, conflict_retry_max_seconds=0)
            store = m.storage.S3ObjectStore(client=client, options=how, client_error=Refused)
            kind = raised if m is ours else getattr(m, raised.__name__, raised)
            with pytest.raises(kind, match=(told or None) if m is ours else None) as found:
                call(store)
            assert isinstance(found.value.__cause__, Refused), (m.__name__, name)
            assert not (kind.__name__ == "StorageError" and isinstance(found.value, FileExistsError))
            asked.append(client.calls)
        assert len(set(asked)) == 1, (name, asked)
    # By a whole call, too: no waiting for what stays as it is.
    if raised is not FileNotFoundError and code not in ("ConditionalRequestConflict", "PreconditionFailed"):
        client = Failing(code, status)
        with pytest.raises(raised, match=told):
            ours.open(ROOT, object_store=ours.storage.S3ObjectStore(client=client, client_error=Refused))
        assert client.calls == 1
