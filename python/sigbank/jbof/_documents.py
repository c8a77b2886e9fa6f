"""The JSON documents as Python's `json` reads them: with NaN and infinities, which older files hold."""

from __future__ import annotations

import json
from typing import Any

from . import errors


def parse(text: bytes | str, where: str) -> Any:
    """The value of a document; CorruptError where it is damaged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.CorruptError(f"{where}: this is no JSON ({error}): restore the file, or delete the item") from error


def parse_object(text: bytes | str, where: str) -> dict[str, Any]:
    """The dict of a document; CorruptError where it is none."""
    value = parse(text, where)
    if isinstance(value, dict):
        return value
    raise errors.CorruptError(f"{where}: a JSON object is expected, found {type(value).__name__}: restore the file")
