"""Data sets and their items."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._native import JbofDataset
from . import _documents, _names, errors
from ._names import as_str, is_address, is_text, local, text
from .item import Item


class DataSet:
    """A data set: a directory with a directory an item.

    Opening reads nothing but whether it is there. Items are sorted by name. What others add and delete shows in the next call; an
    item's metadata file that is edited by hand shows in `find`, and in `find_items` when items were added or deleted since, or in a new
    `DataSet`.

    Args:
        directory: where it is; to read it, also in a bucket: `s3://bucket/folder`.
        readonly: whether adding and deleting are errors.
        durable: flush each item and array before it is visible, so that it survives a power failure too.

    Raises:
        NotFoundError: (a TypeError) there is no data set in the directory.
    """

    _native: JbofDataset
    _durable: bool
    _template: Any

    def __init__(self, directory: str | os.PathLike[str], readonly: bool = True, *, durable: bool = False) -> None:
        """Opens it."""
        if is_address(directory) and readonly:
            native = JbofDataset.open_address(os.fspath(directory))
        else:
            native = JbofDataset.open(local(directory, "data sets are added to"), bool(readonly), durable)
        self._set(native, durable)

    def _set(self, native: JbofDataset, durable: bool) -> None:
        self._native, self._durable, self._template = native, durable, ...

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by what opens it again."""
        return _reopened, (type(self), self._native.path, self._native.readonly, self._durable)

    def __repr__(self) -> str:
        """Where it is, and whether it can be written to."""
        return f"DataSet({self._native.path!r}, readonly={self._native.readonly})"

    @property
    def name(self) -> str:
        """The directory's name."""
        return self._native.name

    @property
    def metadata(self) -> dict[str, Any]:
        """The data set's metadata, read anew."""
        document = self._document()
        document.pop("_itemformat", None)
        return document

    @property
    def itemformat(self) -> str | None:
        """The template that gives items their names, in the words of `str.format`, without attribute access."""
        return self._document().get("_itemformat")

    def _document(self) -> dict[str, Any]:
        return _documents.parse_object(self._native.document(), self._native.path)

    def add_item(self, name: str | None = None, metadata: dict[str, Any] | None = None) -> Item:
        """Add an item without arrays, in one step: of several writers of one name exactly one succeeds.

        Without a name, the data set's `itemformat` makes one of the metadata, or it is a random one.

        Raises:
            AlreadyExistsError: (a TypeError) there is an item of this name.
            InvalidError: (a TypeError) a name that is not one path component, or metadata that JSON does not have.
            KeyError: the metadata lack a key that the template names.
            ReadOnlyError: (a RuntimeError) the data set was opened to read.
        """
        if name is None and not self._native.readonly:
            if self._template is Ellipsis:
                self._template = self.itemformat  # Nobody changes it later, so that it need not be read for each item.
            name = None if self._template is None else _names.from_template(self._template, metadata)
        name = None if name is None else text(name, "item")
        return Item._of(self, self._native.add_item(name, metadata))

    def delete_item(self, item: Item | str) -> None:
        """Delete an item, given as such or by its name, with all its arrays.

        Raises:
            NotFoundError: (a TypeError) there is none.
            ReadOnlyError: (a RuntimeError) the data set was opened to read.
        """
        if isinstance(item, Item) and os.path.dirname(item._path) != self._native.path:
            raise errors.InvalidError(f"the item {item._path} is in another data set than {self._native.path}")
        self._native.delete_item(item.name if isinstance(item, Item) else text(item, "item"))

    def has_item(self, name: str) -> bool:
        """Whether there is an item of this name."""
        name = as_str(name, "item")
        return is_text(name) and self._native.has_item(name)

    def __contains__(self, name: object) -> bool:
        """Whether there is an item of this name."""
        return self.has_item(name.name if isinstance(name, Item) else name)  # type: ignore[arg-type]

    def get_item(self, name: str) -> Item:
        """The item of this name.

        Raises:
            NotFoundError: (a TypeError) there is none.
        """
        name = text(name, "item")
        if self._native.has_item(name):
            return Item._of(self, name)
        raise errors.NotFoundError(f"{self._native.path}: there is no item {name!r}: all_items() gives those that are there")

    __getitem__ = get_item

    def all_items(self) -> Iterator[Item]:
        """All items, sorted by name."""
        for name in self._native.item_names():
            yield Item._of(self, name)

    def find_items(self, **query: Any) -> Iterator[Item]:
        """The items whose metadata have the value given for each key; what can be iterated over (a list, set, array, range, generator) means any
        of its values, but a text itself, and a dict itself or any of its keys.

        Values compare as Python's do: 1, 1.0 and True are equal. A key that an item lacks does not match. An iterator is used up.

        Raises:
            InvalidError: (a TypeError) a value that JSON does not have, and metadata therefore cannot.
            CorruptError: (a ValueError) when the search comes to an item whose metadata are damaged.
        """
        wanted = [(key, _alternatives(value)) for key, value in query.items()]
        return self._found(wanted, None)

    def find_one_item(self, **query: Any) -> Item | None:
        """The first item that `find_items` would give, or None."""
        wanted = [(key, _alternatives(value)) for key, value in query.items()]
        return next(self._found(wanted, 1), None)

    def _found(self, wanted: list[tuple[str, list[Any]]], limit: int | None) -> Iterator[Item]:
        # No JSON that is text has other keys and values: the items that are found for them are those of which the core is not certain.
        of_text = [(key, values) if is_text(key) else ("", []) for key, values in wanted]
        for name, document, certain in self._native.find(of_text, limit):
            item = Item._of(self, name, document)
            if certain or _matches(item.metadata, wanted):
                yield item

    def find(self, expression: str) -> Iterator[Item]:
        """The items for which an expression holds, sorted by name: `find("snr > 10 and speaker in ['a', 'b']")`.

        An expression compares (`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`), looks into texts and lists (`contains`, `startswith`, `endswith`,
        `like 'a%'`, `matches '^a'`) and joins with `and`, `or`, `not`. Metadata are `key`, `a.b`, `a[0]`, `metadata['odd key']`;
        `id` is the item's name, and a key of that name `metadata.id`; `exists(key)` and `has(array)` ask whether they are there; `array@shape[0]`, `array@dtype`, `array@length`, `array@ndim` and
        `array@sample_rate` ask for arrays without reading them. A key that an item lacks makes a comparison false, `!=` too.

        The search itself runs when the first item is asked for. For some hundred items it leaves an index in the data set's
        `__pycache__`, where writing is permitted, so that the next program need not read each item; it is used for what still
        stands, as the times of each item's file tell, which every search compares. The environment variable `SIGBANK_INDEX` is `use` to have none written, `ignore` for
        none at all.

        Raises:
            InvalidError: (a TypeError) the expression cannot be read; the message points at the place.
            ConflictError: (a RuntimeError) the file that the data set is in was replaced, changed or removed since it was opened.

        Warns:
            UserWarning: of items whose metadata are damaged, by name and number: the others are searched; of a key or array that no item has;
                and of a damaged index, which is made anew.
        """
        _check(expression)
        return self._selected(expression, None)

    def find_one(self, expression: str) -> Item | None:
        """The first item that `find` would give, or None."""
        _check(expression)
        return next(self._selected(expression, 1), None)

    def _selected(self, expression: str, limit: int | None) -> Iterator[Item]:
        found, warned = self._native.select(expression, limit)
        for message in warned:
            warnings.warn(f"{self._native.path}: {message}", UserWarning, stacklevel=3)
        for name, document, _ in found:
            yield Item._of(self, name, document)

    def index(self, arrays: bool = False) -> str:
        """Brings the index up to date and gives its path: a Parquet file that DuckDB, polars and pandas read too. Searching does this by itself.

        Args:
            arrays: whether dtypes and shapes of arrays go in too.

        Raises:
            ReadOnlyError, StorageError: it cannot be written.
            UnsupportedError: (a ValueError) the data set is in one file.
        """
        return os.fspath(self._native.write_index(arrays))

    def calculate_hash(self) -> str:
        """The hex MD5 of all items (not of the data set's own metadata), as the `jbof` package computes it."""
        return self._native.hash()


def _check(expression: str) -> None:
    if isinstance(expression, str) and not is_text(expression):
        raise errors.InvalidError(f"the expression {expression!r} has half of a surrogate pair, which is no text: use find_items")
    JbofDataset.check(expression)


def _alternatives(value: Any) -> list[Any]:
    """What a key's value may be: all that an iterable gives; of a dict itself or any of its keys."""
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.ndim else value.item()
    if isinstance(value, str):
        return [value]
    try:
        each = list(value)
    except TypeError:
        return [value]
    return [value, *each] if isinstance(value, Mapping) else each


def _matches(metadata: Any, wanted: list[tuple[str, list[Any]]]) -> bool:
    return isinstance(metadata, dict) and all(
        key in metadata and any(metadata[key] == value for value in values) for key, values in wanted
    )


def _reopened(cls: type[DataSet], path: str, readonly: bool, durable: bool) -> DataSet:
    return cls(path, readonly, durable=durable)


def create_dataset(
    directory: str | os.PathLike[str],
    metadata: dict[str, Any] | None = None,
    itemformat: str | None = None,
    *,
    durable: bool = False,
) -> DataSet:
    """Create an empty data set, and open it to write.

    Args:
        directory: where; nothing may be there.
        metadata: a dict of what JSON has.
        itemformat: what gives items their names, a template in the words of `str.format` (without attribute access) that is applied
            to their metadata.
        durable: see `DataSet`.

    Raises:
        AlreadyExistsError: (a TypeError) something is there.
        InvalidError: (a TypeError) metadata that JSON does not have, an itemformat that could name no item.
    """
    path = local(directory, "data sets are created")
    if itemformat is not None and not (isinstance(itemformat, str) and is_text(itemformat)):
        raise errors.InvalidError(f"{path}: an itemformat is a str or None, found {itemformat!r}")
    created = DataSet.__new__(DataSet)
    created._set(JbofDataset.create(path, metadata, itemformat, durable), durable)
    return created


def delete_dataset(dataset: DataSet) -> None:
    """Delete a data set with all that is in its directory.

    Raises:
        ReadOnlyError: (a RuntimeError) it was opened to read.
    """
    if not isinstance(dataset, DataSet):
        raise errors.InvalidError(f"a DataSet is expected, found {type(dataset).__name__}")
    dataset._native.delete()
