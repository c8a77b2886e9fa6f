"""Stores of a program's own, derived from those of either package: shards, objects, and the clients of storage services."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sigbank.signal_dataset as ours
from signal_cases import MODULES, ids, iq, needs_reference, numbered, reference, same_record

READ = {"generation": None, "options": "readahead_buffer_size:0,max_parallelism:0", "file_reader_buffer_size": None}


def shards_of(m: ModuleType, **objects: Any) -> Any:
    """Shards that are pickles, and write down how they are called."""

    class Pickles(m.storage.ShardStore):
        def __init__(self) -> None:
            self.calls: list[tuple[Any, ...]] = []

        def _load(self, uri: str) -> list[bytes]:
            return pickle.loads(objects["of"].objects[uri][0] if objects else Path(uri).read_bytes())

        def write(self, path: Path, records: Any, *, options: str) -> int:
            assert isinstance(path, Path) and path.suffix == ".arrayrecord" and not path.exists()
            payloads = list(records)
            assert all(type(payload) is bytes for payload in payloads)
            self.calls.append(("write", len(payloads), options))
            path.write_bytes(pickle.dumps(payloads))
            return len(payloads)

        def read(self, uri: str, index: int, **how: Any) -> bytes:
            self.calls.append(("read", uri, index, how))
            return self._load(uri)[index]

        def read_many(self, uri: str, indices: Any, **how: Any) -> tuple[bytes, ...]:
            self.calls.append(("read_many", uri, list(indices), how))
            return tuple(self._load(uri)[index] for index in indices)

        def count(self, uri: str, **how: Any) -> int:
            self.calls.append(("count", uri, how))
            return len(self._load(uri))

    return Pickles()


def objects_of(m: ModuleType) -> Any:
    """Objects in a dict, which write down how they are put."""

    class Memory(m.storage.ObjectStore):
        def __init__(self) -> None:
            self.objects: dict[str, tuple[bytes, int]] = {}
            self.puts: list[tuple[str, str, str]] = []

        def _get(self, uri: str) -> tuple[bytes, int]:
            if uri not in self.objects:
                raise FileNotFoundError(uri)
            return self.objects[uri]

        def info(self, uri: str, *, generation: int | None = None) -> Any:
            return m.storage.ObjectInfo(len(self._get(uri)[0]))

        def read(self, uri: str, *, generation: int | None = None) -> bytes:
            return self._get(uri)[0]

        def read_version(self, uri: str) -> Any:
            return m.storage.ObjectVersion(*self._get(uri))

        def generation(self, uri: str) -> int:
            return self._get(uri)[1]

        def create(self, uri: str, data: bytes, *, content_type: str, call: str = "create") -> None:
            if uri in self.objects:
                raise m.PublicationCollisionError(uri)
            self.puts.append((call, uri, content_type))
            self.objects[uri] = (bytes(data), len(self.puts))

        def create_file(self, uri: str, path: Path, *, content_type: str) -> None:
            self.create(uri, Path(path).read_bytes(), content_type=content_type, call="create_file")

        def compare_and_swap(
            self, uri: str, data: bytes, *, expected_generation: int | None, content_type: str
        ) -> None:
            if self.objects.get(uri, (b"", None))[1] != expected_generation:
                raise m.PublicationCollisionError(uri)
            self.puts.append(("compare_and_swap", uri, content_type))
            self.objects[uri] = (bytes(data), len(self.puts))

    return Memory()


def labels(m: ModuleType, first: int, last: int) -> list[Any]:
    return [m.AnnotationRecord(f"r{i}", i, m.AnnotationStatus.SUCCESS, {"k": i}) for i in range(first, last)]


def write_both(m: ModuleType, root: str, **stores: Any) -> list[Any]:
    return [
        m.write_shard([iq(m, i) for i in range(first, last)], root, work_id=f"w{first}", **stores)
        for first, last in ((0, 3), (3, 5))
    ]


def filled(m: ModuleType, root: str, **stores: Any) -> Any:
    return m.publish(root, write_both(m, root, **stores), dataset_id="d", snapshot_id="s", **stores)


def annotated(m: ModuleType, dataset: Any) -> None:
    m.publish_annotations(dataset, "whole", labels(m, 0, 5))
    parts = [
        m.annotation.write_shard(dataset, "parts", "p", first, labels(m, first, last), logical_shard_id=str(first))
        for first, last in ((0, 2), (2, 5))
    ]
    m.annotation.publish_shards(dataset, "parts", "p", parts)


@needs_reference
def test_both_packages_call_a_shard_store_alike_and_read_each_others(tmp_path: Path) -> None:
    roots, calls = {}, {}
    for m in (reference, ours):
        root, shards = str(tmp_path / m.__name__), shards_of(m)
        roots[m], calls[m] = root, []

        def called(m: Any = m, root: str = root, shards: Any = shards) -> None:
            calls[m].append([tuple(p.replace(root, "") if isinstance(p, str) else p for p in call) for call in shards.calls])
            shards.calls.clear()

        written = write_both(m, root, shard_store=shards)
        called()
        verified = m.PublicationOptions(verify_record_counts=True)
        how = {"dataset_id": "d", "snapshot_id": "s", "publication_options": verified}
        m.publish(root, written, shard_store=shards, **how)
        called()
        write_both(m, root, shard_store=shards)  # Again: what is there is counted.
        called()
        dataset = m.open(root, shard_store=shards)
        same_record(dataset[1], iq(m, 1))
        assert ids(dataset.__getitems__([4, 0, 2])) == numbered(4, 0, 2)
        assert dataset.record_metadata[2].id == "r2"
        called()
        annotated(m, dataset)
    assert calls[ours] == calls[reference]
    for m, other in ((ours, reference), (reference, ours)):
        shards = shards_of(m)
        dataset = m.open(roots[other], shard_store=shards)
        assert ids(dataset.iter_records()) == numbered(0, 1, 2, 3, 4)
        assert [said.id for said in dataset.iter_record_metadata()] == numbered(0, 1, 2, 3, 4)
        assert [row.values["k"] for row in dataset.annotations["whole"]] == [0, 1, 2, 3, 4]
        assert dataset.annotations["parts"][3].values == {"k": 3}
        same_record(dataset[4], iq(m, 4))
        assert {tuple(sorted(c[-1].items())) for c in shards.calls} == {tuple(sorted(READ.items()))}


@needs_reference
def test_both_packages_put_objects_alike() -> None:
    root, puts = "s3://bucket/a", {}
    for m in (reference, ours):
        objects = objects_of(m)
        shards = shards_of(m, of=objects)
        stores = {"object_store": objects, "shard_store": shards}
        dataset = filled(m, root, **stores)
        puts[m] = list(objects.puts)
        annotated(m, dataset)
        dataset = m.open(root, **stores)
        assert ids(dataset) == numbered(0, 1, 2, 3, 4) and sorted(dataset.annotations) == ["parts", "whole"]
        swaps = [put for put in objects.puts if put[0] == "compare_and_swap"]
        assert swaps == [("compare_and_swap", f"{root}/annotations/catalog.json", "application/json")] * 2
        # The other package on the same objects.
        other = ours if m is reference else reference
        theirs = objects_of(other)
        theirs.objects = objects.objects
        read = other.open(root, object_store=theirs, shard_store=shards_of(other, of=theirs))
        assert ids(read.iter_records()) == numbered(0, 1, 2, 3, 4)
        assert read.annotations["parts"][4].values == {"k": 4}
    assert puts[ours] == puts[reference]


def test_records_that_are_not_the_same_are_refused(tmp_path: Path) -> None:
    shards = shards_of(ours)
    ours.write_shard([iq(ours, 0)], tmp_path, work_id="w", shard_store=shards)
    with pytest.raises(ours.PublicationCollisionError, match="other records: 1 records, but not the same"):
        ours.write_shard([iq(ours, 1)], tmp_path, work_id="w", shard_store=shards)
    with pytest.raises(ours.PublicationCollisionError, match="1 were written then, 2 now"):
        ours.write_shard([iq(ours, 0), iq(ours, 1)], tmp_path, work_id="w", shard_store=shards)


def test_views_and_versions_keep_the_shard_store(tmp_path: Path) -> None:
    root, shards = str(tmp_path / "d"), shards_of(ours)
    dataset = filled(ours, root, shard_store=shards)
    ours.publish_annotations(dataset, "whole", labels(ours, 0, 5))
    for name, copied in (
        ("view", dataset.select([3, 1]).publish(tmp_path / "view", dataset_id="v", snapshot_id="v")),
        ("copy", dataset.select([3, 1]).materialize(tmp_path / "copy", dataset_id="v", snapshot_id="v")),
    ):
        assert ids(copied) == numbered(3, 1) and copied.annotations["whole"][0].values == {"k": 3}
        assert ids(ours.open(tmp_path / name, shard_store=shards)) == numbered(3, 1)
    more = ours.write_shard([iq(ours, 5)], root, work_id="more", shard_store=shards)
    newer = ours.versions.publish(dataset, [more], name="v2", base="latest")
    assert ids(newer) == numbered(*range(6)) and newer.verify()[1] == 6
    # Who has not got it is told what the bytes are not.
    with pytest.raises(ours.CorruptDatasetError, match="ArrayRecord"):
        ours.open(root)[0]


@pytest.mark.parametrize("m", MODULES)
def test_what_a_shard_store_raises(m: ModuleType, tmp_path: Path) -> None:
    shards = shards_of(m)
    dataset = filled(m, str(tmp_path), shard_store=shards)
    for raised in (RuntimeError("broken"), KeyError("k"), sqlite3.OperationalError("locked"), KeyboardInterrupt()):

        def fails(*_: Any, raised: BaseException = raised, **__: Any) -> Any:
            raise raised

        shards.read, shards.write = fails, fails
        with pytest.raises(type(raised)) as told:
            dataset[0]
        assert told.value is raised
        with pytest.raises(type(raised)):
            m.write_shard([iq(m, 0)], str(tmp_path / "e"), shard_store=shards, retry=1)
    shards.read = lambda *_, **__: (_ for _ in ()).throw(ValueError("cut short"))
    with pytest.raises(m.CorruptDatasetError):
        dataset[0]


def test_a_shard_store_must_do_what_it_says(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no methods write, read, read_many, count"):
        ours.open(tmp_path, shard_store=object())  # type: ignore[arg-type]
    shards = shards_of(ours)
    write = shards.write
    shards.write = lambda *given, **how: write(*given, **how) + 1
    with pytest.raises(ValueError, match="1 records were handed to the shard store, and its write says 2"):
        ours.write_shard([iq(ours, 0)], tmp_path / "a", shard_store=shards)
    shards.write = lambda path, records, *, options: sum(1 for _ in records)
    with pytest.raises(FileNotFoundError, match="must leave a file"):
        ours.write_shard([iq(ours, 0)], tmp_path / "b", shard_store=shards)
    shards.write = write
    dataset = filled(ours, str(tmp_path / "c"), shard_store=shards)
    shards.read_many = lambda uri, indices, **how: ()
    with pytest.raises(ours.CorruptDatasetError, match="2 records were asked for, and read_many gave 0"):
        dataset.__getitems__([0, 1])


class CountedClient:
    """A client that writes down what it is asked for."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def called(*given: Any, **how: Any) -> Any:
            self.calls.append((name, {key: value for key, value in how.items() if key != "Body"}))
            return method(*given, **how)

        return called


@pytest.fixture
def client(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    boto3 = pytest.importorskip("boto3")
    # Nothing but the client knows how to reach the bucket; the reference's reader of shards asks the environment.
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    return CountedClient(boto3.client("s3", endpoint_url=s3_server["endpoint"], **keys))


@needs_reference
def test_both_packages_put_objects_by_a_client_alike(client: Any, s3_server: dict[str, str], tmp_path: Path) -> None:
    base = f"s3://{s3_server['bucket']}/{tmp_path.name}"
    puts = {}
    for m in (reference, ours):
        root, name = f"{base}/{m.__name__}", m.__name__
        store = m.storage.S3ObjectStore(client)
        staged = m.storage.ArrayRecordShardStore(staging=m.storage.default_staging(store, root=root))
        client.calls.clear()
        filled(m, root, object_store=store, shard_store=staged)
        puts[m] = []
        for call, how in client.calls:
            if call == "put_object":
                kept = {key: value for key, value in how.items() if key != "ContentLength"}
                puts[m].append({**kept, "Key": how["Key"].replace(name, "")})
        dataset = m.open(root, object_store=store, shard_store=staged)
        m.publish_annotations(dataset, "first", labels(m, 0, 5))
        m.publish_annotations(dataset, "second", labels(m, 0, 5))
        assert sorted(m.open(root, object_store=store, shard_store=staged).annotations) == ["first", "second"]
        with pytest.raises(FileNotFoundError, match="none/root.json"):
            m.open(f"{base}/none", object_store=store)
        with pytest.raises(m.PublicationCollisionError):
            store.create(f"{root}/root.json", b"x", content_type="text/plain")
    assert puts[ours] == puts[reference]
    for m, other in ((ours, reference), (reference, ours)):
        root, store = f"{base}/{other.__name__}", m.storage.S3ObjectStore(client)
        staged = m.storage.ArrayRecordShardStore(staging=m.storage.default_staging(store, root=root))
        dataset = m.open(root, object_store=store, shard_store=staged)
        assert ids(dataset) == numbered(0, 1, 2, 3, 4) and dataset.annotations["second"][3].values == {"k": 3}


def test_a_client_reads_ranges_and_swaps_by_etag(client: Any, s3_server: dict[str, str], tmp_path: Path) -> None:
    root = f"s3://{s3_server['bucket']}/{tmp_path.name}"
    store = ours.storage.S3ObjectStore(client=client)
    filled(ours, root, object_store=store)
    dataset = ours.open(root, object_store=store)
    dataset[1]
    client.calls.clear()
    same_record(dataset[2], iq(ours, 2))
    ((call, how),) = client.calls
    assert call == "get_object" and how["Range"].startswith("bytes=")
    uri = f"{root}/x.json"
    store.create(uri, b"1", content_type="application/json")
    first = store.read_version(uri)
    store.compare_and_swap(uri, b"2", expected_generation=first.generation, content_type="application/json")
    assert client.calls[-1][1]["IfMatch"] and store.read(uri) == b"2"
    with pytest.raises(ours.PublicationCollisionError):
        store.compare_and_swap(uri, b"3", expected_generation=first.generation, content_type="application/json")
    assert store.read_range(uri, 0, 1) == b"2" and store.info(uri).size == 1
    assert uri in store.list(f"{root}/") and f"{root}/root.json" in store.list(f"{root}/root")
    # A client's failure is told as the storage's, and what it calls a conflict is tried again.
    broken = ours.storage.S3ObjectStore(Failing("SlowDown", 503), client_error=Refused)
    with pytest.raises(ours.StorageError, match="SlowDown"):
        broken.read(uri)
    busy = Failing("ConditionalRequestConflict", 409)
    how = ours.storage.S3Options(conflict_attempt_limit=3, conflict_retry_base_seconds=0.001)
    with pytest.raises(ours.StorageError, match="in each of 3 attempts"):
        ours.storage.S3ObjectStore(busy, options=how, client_error=Refused).create(uri, b"", content_type="")
    assert busy.calls == 3


class Refused(Exception):
    response: dict[str, Any]


class Failing:
    """A client that fails."""

    def __init__(self, code: str, status: int) -> None:
        self.error = Refused(code)
        self.error.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        def called(**_: Any) -> Any:
            self.calls += 1
            raise self.error

        return called
