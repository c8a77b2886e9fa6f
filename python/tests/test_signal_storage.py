"""Stores of one's own under `sigbank.signal_dataset`, and buckets that the reference package uses too."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import sigbank
import sigbank.signal_dataset as ours
from sigbank.signal_dataset import storage
from signal_cases import ids, iq, needs_reference, numbered, reference, same_record, written


class DictStore(storage.ObjectStore):
    """Objects in a dict, whose calls are written down."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.calls: list[tuple[str, str]] = []
        self.types: dict[str, str] = {}
        self.failing: list[Exception] = []
        self.count = 0
        self.lock = threading.Lock()

    def _called(self, name: str, uri: str) -> None:
        self.calls.append((name, uri))
        if self.failing:
            raise self.failing.pop()

    def _get(self, name: str, uri: str) -> tuple[bytes, int]:
        self._called(name, uri)
        if uri not in self.objects:
            raise FileNotFoundError(uri)
        return self.objects[uri]

    def _put(self, uri: str, data: bytes, content_type: str) -> None:
        self.count += 1
        self.objects[uri] = (bytes(data), self.count)
        self.types[uri] = content_type

    def info(self, uri: str, *, generation: int | None = None) -> storage.ObjectInfo:
        return storage.ObjectInfo(len(self._get("info", uri)[0]))

    def read(self, uri: str, *, generation: int | None = None) -> bytes:
        return self._get("read", uri)[0]

    def read_version(self, uri: str) -> storage.ObjectVersion:
        return storage.ObjectVersion(*self._get("read_version", uri))

    def generation(self, uri: str) -> int:
        return self._get("generation", uri)[1]

    def create(self, uri: str, data: bytes, *, content_type: str) -> None:
        with self.lock:
            self._called("create", uri)
            if uri in self.objects:
                raise ours.PublicationCollisionError(uri)
            self._put(uri, data, content_type)

    def create_file(self, uri: str, path: Path, *, content_type: str) -> None:
        self.create(uri, path.read_bytes(), content_type=content_type)

    def compare_and_swap(self, uri: str, data: bytes, *, expected_generation: int | None, content_type: str) -> None:
        with self.lock:
            self._called("swap", uri)
            if self.objects.get(uri, (b"", None))[1] != expected_generation:
                raise ours.PublicationCollisionError(uri)
            self._put(uri, data, content_type)


class RangeStore(DictStore):
    """The same with ranges."""

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        return self._get(f"range {stop - start}", uri)[0][start:stop]


def labels(m: Any, count: int) -> list[Any]:
    return [m.AnnotationRecord(f"r{i}", i, m.AnnotationStatus.SUCCESS, {"k": i}) for i in range(count)]


def filled(root: str, **store: Any) -> ours.Dataset:
    shard = ours.write_shard([iq(ours, i) for i in range(4)], root, work_id="w0", **store)
    return ours.publish(root, [shard], dataset_id="d", snapshot_id="v1", **store)


@pytest.mark.parametrize("kind", [DictStore, RangeStore])
@pytest.mark.parametrize("root", ["s3://bucket/a/b", "mem://x/y/"])
def test_a_store_in_python_carries_a_dataset(kind: type[DictStore], root: str) -> None:
    store = kind()
    dataset = filled(root, object_store=store)
    assert dataset.object_store is store and dataset.root == root.rstrip("/")
    # To do it again is safe, and changes nothing.
    before = dict(store.objects)
    filled(root, object_store=store)
    assert store.objects == before
    base = root.rstrip("/")
    assert store.types[f"{base}/root.json"] == "application/json"
    assert {t for uri, t in store.types.items() if uri.endswith(".arrayrecord")} == {"application/octet-stream"}

    dataset = ours.open(root, object_store=store)
    assert ids(dataset) == numbered(0, 1, 2, 3)
    same_record(dataset[2], iq(ours, 2))
    assert [m.id for m in dataset.iter_record_metadata()] == numbered(0, 1, 2, 3)
    assert ids(dataset.__getitems__([3, 0])) == numbered(3, 0)
    ours.publish_annotations(dataset, "first", labels(ours, 4))
    ours.publish_annotations(dataset, "second", labels(ours, 4))
    again = ours.open(root, object_store=store)
    assert sorted(again.annotations) == ["first", "second"]
    assert again.annotations["second"][3].values == {"k": 3}
    assert again.verify() == dataset.verify()
    # Other records under the same names.
    with pytest.raises(ours.PublicationCollisionError):
        ours.write_shard([iq(ours, 9)], root, work_id="w0", object_store=store)


def test_ranges_are_read_where_a_store_has_them() -> None:
    store = RangeStore()
    filled("s3://bucket/a", object_store=store)
    dataset = ours.open("s3://bucket/a", object_store=store)
    dataset[1]
    store.calls.clear()
    dataset[2]
    ((call, uri),) = store.calls
    assert call.startswith("range ") and int(call.split()[1]) < 4096 and "objects/data/" in uri


def test_errors_of_a_store_keep_their_kind() -> None:
    store = DictStore()
    with pytest.raises(FileNotFoundError, match="s3://bucket/none/root.json"):
        ours.open("s3://bucket/none", object_store=store)
    filled("s3://bucket/a", object_store=store)
    store.failing = [PermissionError("not yours")]
    with pytest.raises(PermissionError, match="not yours"):
        ours.open("s3://bucket/a", object_store=store)
    gone = next(uri for uri in store.objects if "objects/data" in uri)
    del store.objects[gone]
    with pytest.raises(ours.CorruptDatasetError, match="objects/data"):
        ours.open("s3://bucket/a", object_store=store)[0]


def test_a_store_that_fails_for_a_while_is_tried_again() -> None:
    store = DictStore()
    policy = ours.RetryPolicy(attempts=3, base_seconds=0.001, max_seconds=0.01)
    store.failing = [OSError("slow down"), ours.StorageError("slow down")]
    # Records that can be iterated but once, too.
    shard = ours.write_shard(iter([iq(ours)]), "s3://b/x", object_store=store, retry=policy)
    assert [name for name, _ in store.calls].count("create") == 4
    store.failing = [OSError("down")] * 3
    with pytest.raises(OSError, match="down"):
        ours.publish("s3://b/x", [shard], dataset_id="d", snapshot_id="v", object_store=store, retry=policy)
    assert not store.failing
    # What is wrong with the program is not tried again.
    store.failing = [AttributeError("typo"), AttributeError("typo")]
    with pytest.raises(AttributeError, match="typo"):
        ours.publish("s3://b/x", [shard], dataset_id="d", snapshot_id="v", object_store=store, retry=policy)
    assert len(store.failing) == 1


def test_a_store_without_compare_and_swap_takes_no_annotations() -> None:
    store = DictStore()
    dataset = filled("s3://bucket/a", object_store=store)
    store.supports_compare_and_swap = False  # type: ignore[misc]
    before = set(store.objects)
    with pytest.raises(ours.StorageError, match="compare-and-swap"):
        ours.publish_annotations(dataset, "labels", labels(ours, 4))
    assert set(store.objects) == before


def test_the_registry_finds_stores() -> None:
    store, registry = DictStore(), storage.default_registry()
    backend = storage.ObjectStoreBackend(
        scheme="dict", filesystem=False, factory=lambda uri, *, root_is_directory: store, validate_root=lambda uri: None
    )
    with pytest.raises(ValueError, match="unsupported storage URI scheme: 'dict'"):
        ours.open("dict://a/b")
    registry.register(backend, replace=True)
    with pytest.raises(ValueError, match="already registered: 'dict'"):
        registry.register(backend)
    filled("dict://a/b")
    assert ids(ours.open("dict://a/b")) == numbered(0, 1, 2, 3)
    assert storage.object_store_for("dict://a/b/root.json") is store
    assert storage.is_absolute_uri("dict://a/b") and not storage.is_absolute_uri("dict2://a/b")


def test_a_view_refers_to_a_store_in_python(tmp_path: Path) -> None:
    store = DictStore()
    registry = storage.default_registry()
    registry.register(
        storage.ObjectStoreBackend(
            scheme="kept", filesystem=False, factory=lambda uri, *, root_is_directory: store, validate_root=lambda uri: None
        ),
        replace=True,
    )
    dataset = filled("kept://a/b")
    dataset.select([3, 1]).publish(tmp_path / "view", dataset_id="v", snapshot_id="v1")
    view = ours.open(tmp_path / "view")
    assert ids(view) == numbered(3, 1)
    # In the same bucket, by the dataset's own store.
    assert ids(dataset.select([2]).publish("kept://a/view", dataset_id="v", snapshot_id="v1")) == numbered(2)


def test_a_local_store(tmp_path: Path) -> None:
    store = storage.LocalObjectStore(root=tmp_path)
    uri = str(tmp_path / "a" / "b.json")
    store.create(uri, b"1", content_type="application/json")
    with pytest.raises(ours.PublicationCollisionError):
        store.create(uri, b"2", content_type="application/json")
    assert store.read(uri) == b"1" and store.info(uri) == storage.ObjectInfo(1)
    first = store.read_version(uri)
    store.compare_and_swap(uri, b"2", expected_generation=first.generation, content_type="application/json")
    assert store.generation(uri) != first.generation
    with pytest.raises(ours.PublicationCollisionError):
        store.compare_and_swap(uri, b"3", expected_generation=first.generation, content_type="application/json")
    with pytest.raises(ours.PublicationCollisionError):
        store.compare_and_swap(uri, b"3", expected_generation=None, content_type="application/json")
    assert store.read(uri) == b"2"
    with pytest.raises(FileNotFoundError):
        store.read(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="outside"):
        store.read("/etc/passwd")
    assert store.list(f"{tmp_path}/a/") == [uri]
    # As object_store it is the directory itself.
    root = str(tmp_path / "ds")
    filled(root, object_store=storage.LocalObjectStore())
    assert ids(ours.open(root)) == numbered(0, 1, 2, 3)
    assert ids(pickle.loads(pickle.dumps(ours.open(root, object_store=store)))) == numbered(0, 1, 2, 3)


@pytest.mark.parametrize("declared", ["environment", "capabilities"])
def test_a_mounted_bucket(tmp_path: Path, declared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root, given = tmp_path / "mount" / "ds", {}
    if declared == "environment":
        monkeypatch.setenv("SIGNAL_DATASET_MOUNT_ROOTS", f"/nowhere:{tmp_path / 'mount'}")
    else:
        given = {"object_store": storage.LocalObjectStore(root=root, capabilities=storage.MOUNTED_BUCKET)}
    dataset = filled(str(root), **given)
    filled(str(tmp_path / "plain"))

    def files(of: Path) -> dict[str, bytes]:
        return {str(path.relative_to(of)): path.read_bytes() for path in of.rglob("*") if path.is_file()}

    before = files(root)
    assert before == files(tmp_path / "plain")
    assert ids(ours.open(root)) == ids(dataset) == numbered(0, 1, 2, 3)
    reopened = ours.open(root, **given).object_store
    assert not reopened.supports_compare_and_swap
    # What the native side writes with knows it too.
    assert isinstance(reopened, storage.LocalObjectStore) and not reopened._connect(str(root), create=False).swaps
    with pytest.raises(ours.StorageError, match="compare-and-swap"):
        ours.publish_annotations(dataset, "labels", labels(ours, 4))
    assert files(root) == before
    store, name = dataset.object_store, str(root / "x.json")
    store.create(name, b"1", content_type="application/json")
    with pytest.raises(ours.PublicationCollisionError):
        store.create(name, b"2", content_type="application/json")
    with pytest.raises(ours.StorageError, match="mounted bucket"):
        store.compare_and_swap(
            name, b"2", expected_generation=store.generation(name), content_type="application/json"
        )
    assert store.read(name) == b"1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"addressing_style": "x"},
        {"max_attempts": 0},
        {"retry_mode": "q"},
        {"conflict_retry_base_seconds": 5},
        {"max_single_part_bytes": 6 << 30},
        {"region_name": ""},
        {"etag_memo_size": True},
    ],
)
def test_options_of_s3_are_compared(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        storage.S3Options(**wrong)


@pytest.fixture
def bucket(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An address of this test's own, which both packages reach by the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server["endpoint"],
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server['bucket']}/{tmp_path.name}"


def test_a_bucket_carries_a_dataset(bucket: str) -> None:
    written(ours, bucket)
    dataset = ours.open(bucket)
    assert ids(dataset) == numbered(*range(8)) and dataset.verify()[1] == 8
    assert ids(dataset.__getitems__([7, 0, 3])) == numbered(7, 0, 3)
    ours.publish_annotations(dataset, "labels", labels(ours, 8))
    assert pickle.loads(pickle.dumps(dataset)).annotations["labels"][5].values == {"k": 5}
    view = dataset.select([6, 1]).publish(f"{bucket}-view", dataset_id="v", snapshot_id="v1")
    assert ids(view) == numbered(6, 1) and view.annotations["labels"][0].values == {"k": 6}
    assert len(sigbank.open(bucket)) == 8
    with pytest.raises(FileNotFoundError):
        ours.open(f"{bucket}-none")
    with pytest.raises(ours.PublicationCollisionError):
        ours.publish(bucket, [], dataset_id="other", snapshot_id="v1")


@needs_reference
@pytest.mark.parametrize("compat", [False, True])
def test_the_reference_reads_our_bucket(bucket: str, compat: bool) -> None:
    pytest.importorskip("boto3")
    written(ours, bucket, compat=compat)
    ours.publish_annotations(ours.open(bucket), "labels", labels(ours, 8))
    theirs = reference.open(bucket)
    for got, expected in zip(theirs, ours.open(bucket), strict=True):
        same_record(got, expected)
    # Both swing the same catalog.
    reference.publish_annotations(theirs, "theirs", labels(reference, 8))
    ours.publish_annotations(ours.open(bucket), "again", labels(ours, 8))
    for module in (ours, reference):
        annotations = module.open(bucket).annotations
        assert sorted(annotations) == ["again", "labels", "theirs"]
        assert all(annotations[name][7].values == {"k": 7} for name in annotations)


@needs_reference
def test_we_read_the_references_bucket(bucket: str) -> None:
    pytest.importorskip("boto3")
    written(reference, bucket)
    dataset = ours.open(bucket)
    for got, expected in zip(dataset, reference.open(bucket), strict=True):
        same_record(got, expected)
    view = reference.open(bucket).select([5, 2]).publish(f"{bucket}-view", dataset_id="v", snapshot_id="v1")
    assert ids(ours.open(f"{bucket}-view")) == ids(view) == numbered(5, 2)


def test_settings_are_given_and_not_shown(s3_server: dict[str, str], tmp_path: Path) -> None:
    root = f"s3://{s3_server['bucket']}/{tmp_path.name}"
    settings = {
        "access_key_id": "test",
        "secret_access_key": "hush-hush",
        "region": "us-east-1",
        "endpoint": s3_server["endpoint"],
    }
    shard = ours.write_shard([iq(ours, i) for i in range(3)], root, storage_options=settings)
    ours.publish(root, [shard], dataset_id="d", snapshot_id="v1", storage_options=settings)
    dataset = ours.open(root, storage_options=settings)
    assert ids(pickle.loads(pickle.dumps(dataset))) == numbered(0, 1, 2)
    whole = sigbank.open(root, storage_options=settings)
    assert len(pickle.loads(pickle.dumps(whole))) == 3
    for shown in (repr(dataset), repr(dataset.object_store), repr(whole), str(whole)):
        assert "hush-hush" not in shown
    with pytest.raises(ValueError, match="both"):
        ours.open(root, storage_options=settings, object_store=DictStore())


def test_a_local_view_reaches_its_bucket_by_the_settings_given(
    s3_server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    root = f"s3://{s3_server['bucket']}/{tmp_path.name}"
    keys = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}
    settings = {**keys, "endpoint": s3_server["endpoint"]}
    shard = ours.write_shard([iq(ours, i) for i in range(3)], root, storage_options=settings)
    dataset = ours.publish(root, [shard], dataset_id="d", snapshot_id="v1", storage_options=settings)
    here = tmp_path / "view"
    dataset.select([2, 0]).publish(here, dataset_id="v", snapshot_id="v1", storage_options=settings)
    view = ours.open(here, storage_options=settings)
    assert ids(view) == ids(pickle.loads(pickle.dumps(view))) == numbered(2, 0)
    monkeypatch.setenv("SIGNAL_DATASET_MOUNT_ROOTS", str(tmp_path))
    assert ids(ours.open(here, storage_options=settings)) == numbered(2, 0)
    assert not ours.open(here, storage_options=settings).object_store.supports_compare_and_swap


def test_a_dataset_tells_its_stores_and_the_package_its_version_as_the_reference(tmp_path: Path) -> None:
    for m in [m for m in (reference, ours) if m is not None]:
        root = str(tmp_path / m.__name__)
        shard = m.write_shard([iq(m, 0)], root, work_id="w")
        m.publish(root, [shard], dataset_id="d", snapshot_id="s", expected_work_ids=["w"])
        dataset = m.open(root)
        assert type(dataset.shard_store).__name__ == "ArrayRecordShardStore"
        assert type(dataset.object_store).__name__ == "LocalObjectStore"
        given = m.storage.ArrayRecordShardStore()
        assert m.open(root, shard_store=given).shard_store is given
        assert m.resolve_version() == "0.4.0" and "resolve_version" in dir(m)
