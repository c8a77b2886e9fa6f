"""The base of the metadata models: typed fields, checked when an object is made, and JSON both ways.

A model is a class with annotated fields. Objects are made from keywords, can be changed afterwards (an assignment is not
checked again), are equal when their class and values are, and keep no field that the class does not declare. Those that
`Model._stored_as` makes look into their JSON text when a field is first asked for: most of a hundred thousand shards are
looked at for their metadata, if at all.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import enum
import json
import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, dataclass_transform

M = TypeVar("M", bound="Model")


class ValidationError(ValueError):
    """A value that a model does not accept. The message names the field, what was expected and what was found."""


class Field(NamedTuple):
    """What a class declares of one field."""

    annotation: Any
    default: Any
    required: bool


@dataclass_transform(kw_only_default=True)
class Model:
    """A value with named, typed fields; see the module for how it behaves."""

    __slots__ = ("__dict__", "_given", "_stored")

    model_fields: ClassVar[dict[str, Field]] = {}
    _given: set[str]
    # The JSON text, or what it says, of which fields are still to be taken; unset when all were.
    _stored: str | dict[str, Any]
    # What makes each field of a JSON object that was checked.
    _takers: ClassVar[dict[str, Callable[[dict[str, Any]], Any]]] = {}

    def __init_subclass__(cls) -> None:
        own = cls.__dict__.get("__annotations__", {})
        fields = dict(cls.model_fields)
        for name, annotation in typing.get_type_hints(cls).items():
            if name in own and not name.startswith("_") and typing.get_origin(annotation) is not ClassVar:
                required = name not in cls.__dict__
                fields[name] = Field(annotation, cls.__dict__.get(name), required)
                if not required:
                    # The default lives in `model_fields`; an attribute of the class would hide a deleted field.
                    delattr(cls, name)
        cls.model_fields = fields
        cls._takers = {name: _taker(name, field) for name, field in fields.items()}

    def __init__(self, **values: Any) -> None:
        self._fill(values, type(self).__name__)

    @classmethod
    def _stored_as(cls: type[M]) -> Callable[[str | dict[str, Any]], M]:
        """What makes a model of a JSON object, or of its text, that was checked when it was read from its file."""
        new = object.__new__

        def make(stored: str | dict[str, Any]) -> M:
            model = new(cls)
            _set_stored(model, stored)
            return model

        return make

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there: a field that was not taken from the text yet, or no field at all.
        stored = self._still_stored()
        if stored is not None and (take := self._takers.get(name)) is not None:
            value = self.__dict__[name] = take(stored)
            return value
        if stored is not None and name == "_given":
            return set(self.model_fields).intersection(stored)
        if name in self.__dict__:
            return self.__dict__[name]  # taken by another thread meanwhile
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _still_stored(self) -> dict[str, Any] | None:
        """What the text says; None where all fields were taken."""
        try:
            stored = _get_stored(self)
        except AttributeError:
            return None
        if isinstance(stored, str):
            stored = json.loads(stored)
            _set_stored(self, stored)
        return stored  # type: ignore[no-any-return]

    def _values(self) -> dict[str, Any]:
        """All fields, in the order of their declaration."""
        if (stored := self._still_stored()) is not None:
            taken = self.__dict__
            whole = {name: taken[name] if name in taken else take(stored) for name, take in self._takers.items()}
            # In one step, since threads may look at the same object.
            object.__setattr__(self, "__dict__", whole)
            object.__setattr__(self, "_given", set(self.model_fields).intersection(stored))
            with contextlib.suppress(AttributeError):
                object.__delattr__(self, "_stored")
        return self.__dict__

    def _fill(self, values: Mapping[Any, Any], where: str) -> None:
        object.__setattr__(self, "_given", {name for name in self.model_fields if name in values})
        for name, field in self.model_fields.items():
            if name in values:
                value = _coerce(field.annotation, values[name], f"{where}.{name}")
            elif field.required:
                raise ValidationError(f"{where}.{name}: this field is required and was not given")
            else:
                value = copy.deepcopy(field.default)
            object.__setattr__(self, name, value)
        self._check(where)

    def _check(self, where: str) -> None:
        """What a class asks of its values beyond their types; raises ValidationError."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.model_fields:
            raise ValueError(f"{type(self).__name__} has no field {name!r}; its fields are {', '.join(self.model_fields)}")
        self._values()
        self._given.add(name)
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._values().items())

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, value in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self._values(), "given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "_given", set(state["given"]))
        self.__dict__.update(state["values"])

    @property
    def model_fields_set(self) -> set[str]:
        """The fields that were given or assigned, rather than left at their default."""
        return self._given

    @classmethod
    def model_validate(cls: type[M], obj: Any) -> M:
        """`obj` itself when it is such a model, else a new one from a mapping; ValidationError (a ValueError)."""
        checked: M = _coerce(cls, obj, cls.__name__)
        return checked

    @classmethod
    def model_validate_json(cls: type[M], json_data: str | bytes | bytearray) -> M:
        """A model from JSON text; ValidationError (a ValueError) when it is no JSON or does not fit."""
        try:
            values = json.loads(json_data)
        except ValueError as error:
            raise ValidationError(f"{cls.__name__}: expected JSON, found what is none: {error}") from None
        return cls.model_validate(values)

    def model_copy(self: M, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> M:
        """A copy that shares the values, or with `deep` has its own; `update` replaces values unchecked."""
        other = copy.deepcopy(self) if deep else copy.copy(self)
        for name, value in (update or {}).items():
            setattr(other, name, value)
        return other

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] | str = "python",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        exclude_none: bool = False,
    ) -> dict[str, Any]:
        """The fields as a dict, models within as dicts too.

        `mode="json"` gives only what JSON has (a NaN becomes None); ValueError names a value that JSON cannot hold.
        `include` and `exclude` hold names of this model's own fields; the other switches apply at every depth.
        """
        included = None if include is None else set(include)
        excluded = set(exclude or ())

        def dump(model: Model) -> dict[str, Any]:
            kept: dict[str, Any] = {}
            for name, value in model._values().items():
                if model is self and (name in excluded or (included is not None and name not in included)):
                    continue
                field = model.model_fields[name]
                if exclude_unset and name not in model._given:
                    continue
                if exclude_defaults and not field.required and value == field.default:
                    continue
                if exclude_none and value is None:
                    continue
                kept[name] = convert(value, f"{type(model).__name__}.{name}")
            return kept

        convert = _to_json(dump) if mode == "json" else _to_python(dump)
        return dump(self)

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """The fields as JSON text, UTF-8 characters unescaped; the options of `model_dump` but `mode`."""
        separators = (",", ":") if indent is None else (",", ": ")
        values = self.model_dump(mode="json", **options)
        return json.dumps(values, indent=indent, ensure_ascii=False, separators=separators)


def refuse_lossy(value: Any, where: str) -> None:
    """ValueError for what a file would not give back: floats that JSON has no number for, and text that UTF-8 cannot hold.

    `Model.model_dump(mode="json")` makes None of such floats, as pydantic does; what goes to disk passes here first.
    """
    match value:
        case float() if not math.isfinite(value):
            raise ValidationError(f"{where}: JSON has no number for {value!r}; give None, or text")
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ValidationError(f"{where}: {ascii(value)} is not text that UTF-8 can hold: {error.reason}") from None
        case Model():
            for name in type(value).model_fields:
                refuse_lossy(getattr(value, name), f"{where}.{name}")
        case Mapping():
            for key, item in value.items():
                refuse_lossy(key, f"{where}: the key {ascii(key)}")
                refuse_lossy(item, f"{where}[{ascii(key)}]")
        case list() | tuple() | set() | frozenset():
            for index, item in enumerate(value):
                refuse_lossy(item, f"{where}[{index}]")


# Called for each shard of a listing.
_get_stored = Model._stored.__get__  # type: ignore[union-attr]
_set_stored = Model._stored.__set__  # type: ignore[union-attr]


def json_text(value: Any, where: str) -> str:
    """JSON text of a metadata value by the rules of `Model.model_dump(mode="json")`; ValueError names `where`."""
    refuse_lossy(value, where)
    return json.dumps(_to_json(lambda model: model.model_dump(mode="json"))(value, where), ensure_ascii=False)


def _to_python(dump: Callable[[Model], Any]) -> Callable[[Any, str], Any]:
    def convert(value: Any, where: str) -> Any:
        if isinstance(value, Model):
            return dump(value)
        if type(value) in (list, tuple):
            return type(value)(convert(item, where) for item in value)
        if isinstance(value, dict):
            return {key: convert(item, where) for key, item in value.items()}
        return value

    return convert


def _to_json(dump: Callable[[Model], Any]) -> Callable[[Any, str], Any]:
    def convert(value: Any, where: str) -> Any:
        match value:
            case enum.Enum():
                return convert(value.value, where)
            case None | bool() | int() | str():
                return value
            case float():
                return float(value) if math.isfinite(value) else None
            case Model():
                return dump(value)
            case Mapping():
                return {_json_key(key, where): convert(item, f"{where}[{key!r}]") for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [convert(item, f"{where}[{index}]") for index, item in enumerate(value)]
            case PurePath():
                return value.as_posix()
            case datetime.date() | datetime.time():
                return value.isoformat()
            case bytes():
                return value.decode()
        raise ValidationError(
            f"{where}: expected a value that JSON can hold, found a {_type_name(value)}; "
            "convert it first (a NumPy array or scalar with its tolist())"
        )

    return convert


def _json_key(key: Any, where: str) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return repr(key)
    raise ValidationError(f"{where}: expected text as the key of a JSON object, found a {_type_name(key)}")


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _wrong(where: str, expected: str, value: Any) -> ValidationError:
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return ValidationError(f"{where}: expected {expected}, found {shown} ({_type_name(value)})")


def _coerce(annotation: Any, value: Any, where: str) -> Any:
    """`value` as `annotation` says, converted where nothing is lost; ValidationError otherwise."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if annotation is Any:
        return value
    if annotation is str:
        if isinstance(value, str):
            return str(value)
        raise _wrong(where, "a str", value)
    if annotation is int:
        return _coerce_int(value, where)
    if annotation is Path:
        if isinstance(value, (str, Path)):
            return Path(value)
        raise _wrong(where, "a path", value)
    if origin is Literal:
        if isinstance(value, str) and value in arguments:
            return value
        raise _wrong(where, f"one of {', '.join(map(repr, arguments))}", value)
    if origin in (list, tuple):
        if isinstance(value, (str, bytes, bytearray, Mapping, Model)) or not isinstance(value, Iterable):
            raise _wrong(where, f"a {origin.__name__}", value)
        return origin(_coerce(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _wrong(where, "a dict", value)
        key_type, item_type = arguments
        return {
            _coerce(key_type, key, f"{where} key"): _coerce(item_type, item, f"{where}[{key!r}]") for key, item in value.items()
        }
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias) and issubclass(annotation, Model):
        if isinstance(value, annotation):
            return value
        if not isinstance(value, Mapping):
            raise _wrong(where, f"a mapping or a {annotation.__name__}", value)
        model = annotation.__new__(annotation)
        model._fill(value, where)
        return model
    raise TypeError(f"{where}: {annotation!r} is no type that a model's field can have")


def _taker(name: str, field: Field) -> Callable[[dict[str, Any]], Any]:
    """What makes a field's value of a JSON object that was checked."""
    convert = _from_json(field.annotation)

    def take(stored: dict[str, Any]) -> Any:
        if name not in stored:
            return field.default.copy() if type(field.default) is dict else copy.deepcopy(field.default)
        return stored[name] if convert is None else convert(stored[name])

    return take


def _from_json(annotation: Any) -> Callable[[Any], Any] | None:
    """What makes a value of JSON that was checked; None where it is the value already."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Path:
        return Path
    if origin in (list, tuple):
        each = _from_json(arguments[0])
        return origin if each is None else lambda items: origin(map(each, items))
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias) and issubclass(annotation, Model):
        return annotation._stored_as()
    return None


def _coerce_int(value: Any, where: str) -> int:
    try:
        if isinstance(value, str):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return int(operator.index(value))
    except (TypeError, ValueError):
        raise _wrong(where, "an integer", value) from None
