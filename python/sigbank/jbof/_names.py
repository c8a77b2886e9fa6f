"""Names of items and arrays, and of items from their metadata."""

from __future__ import annotations

import os
import string
from collections.abc import Mapping, Sequence
from typing import Any

from . import errors


class _Formatter(string.Formatter):
    """`str.format` by keywords alone and without attribute access: a template is data, and what it names must be metadata."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        first, rest = string._string.formatter_field_name_split(field_name)  # type: ignore[attr-defined]
        if isinstance(first, int) or first == "":
            raise errors.InvalidError(f"the field {{{field_name}}} has no name: name a key of the metadata, as in {{speaker}}")
        found = kwargs[first]
        for is_attribute, key in rest:
            if is_attribute:
                raise errors.InvalidError(f"the field {{{field_name}}} asks for an attribute: use keys, as in {{speaker[age]}}")
            found = found[key]
        return found, first


_FORMATTER = _Formatter()


def from_template(template: str, metadata: object) -> str:
    """The name that a data set's `itemformat` gives an item of these metadata.

    Raises:
        KeyError: the metadata lack a key that the template names.
        InvalidError: (a TypeError) there are no metadata, or the template is damaged or asks for an attribute.
    """
    if not isinstance(metadata, Mapping):
        raise errors.InvalidError(
            f"the data set's itemformat {template!r} makes names of metadata, and there are none: give metadata or a name"
        )
    try:
        return _FORMATTER.vformat(template, (), metadata)
    except KeyError as error:
        raise KeyError(f"the itemformat {template!r} names {error.args[0]!r}, which the metadata lack") from None
    except errors.InvalidError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        raise errors.InvalidError(f"the itemformat {template!r} does not fit the metadata: {error}") from error


def is_text(value: str) -> bool:
    """Whether a str can be encoded: one with half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def local(path: str | os.PathLike[str], what: str) -> str:
    """The absolute path of what is on the local disk.

    Raises:
        InvalidError: (a TypeError) an address, such as of a bucket.
    """
    if is_address(path):
        raise errors.InvalidError(f"{path}: {what} on a local disk alone: do it there, and copy it here (sigbank cp)")
    return os.path.abspath(path)


def is_address(path: object) -> bool:
    """Whether a path is an address, such as s3://bucket/folder."""
    return isinstance(path, str) and "://" in path


def as_str(name: object, what: str) -> str:
    """What may be a name; numbers and paths are taken as their texts."""
    if isinstance(name, str):
        return name
    if isinstance(name, (int, os.PathLike)) and not isinstance(name, bool):
        return str(name)
    raise errors.InvalidError(f"the name of an {what} is a str, found {type(name).__name__}")


def text(name: object, what: str) -> str:
    """A name; numbers and paths are taken as their texts.

    Raises:
        InvalidError: (a TypeError) another type, and a str that cannot be encoded.
    """
    found = as_str(name, what)
    if not is_text(found):
        raise errors.InvalidError(f"the {what} name {found!r} has half of a surrogate pair, which no file's name can have: choose another")
    return found
