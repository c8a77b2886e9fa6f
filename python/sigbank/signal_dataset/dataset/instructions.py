"""Where records are stored, for tools that read shards themselves."""

from __future__ import annotations

from dataclasses import dataclass

from .._frozen import whole_number


@dataclass(frozen=True, slots=True)
class ReadInstruction:
    """A run of records in one shard: `take` of them behind the first `skip`, of `examples_in_shard` in all.

    `first_ordinal` is the place of the run's first record in the dataset.
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int
    first_ordinal: int

    def __post_init__(self) -> None:
        for name in ("skip", "take", "examples_in_shard", "first_ordinal"):
            whole_number(name, getattr(self, name), 0, "a nonnegative integer")
