"""What the frozen classes of this package share."""

from __future__ import annotations

import dataclasses
from typing import Any

from sigbank import _native


def _restore(cls: type, values: tuple[Any, ...]) -> Any:
    return _native.signal_restore(cls, _slots(cls), list(values))


def _slots(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


class Frozen:
    """A frozen dataclass with slots that can be pickled and copied although it holds read-only mappings."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), _native.signal_thaw(self, _slots(type(self))))


def set_slot(instance: object, name: str, value: object) -> None:
    """Set an attribute of a frozen object that is being made."""
    object.__setattr__(instance, name, value)


def whole_number(name: str, value: object, least: int, error: str) -> None:
    """ValueError unless `value` is an int (no bool) of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be {error}, found {value!r}")
