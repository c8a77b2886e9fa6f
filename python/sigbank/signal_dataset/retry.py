"""Trying again what the storage failed at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from .policy import RetryPolicy

T = TypeVar("T")


def retry_policy(retry: int | RetryPolicy | None) -> RetryPolicy:
    """The policy that a `retry` argument stands for; None is to try once."""
    if retry is None:
        return RetryPolicy(attempts=1)
    if isinstance(retry, RetryPolicy):
        return retry
    if isinstance(retry, bool) or not isinstance(retry, int):
        raise TypeError(f"retry must be an int, a RetryPolicy, or None, found {retry!r}")
    return RetryPolicy(attempts=retry)


def retrying(policy: RetryPolicy, operation: Callable[[], T]) -> T:
    """What `operation` gives, which is called again as long as storage fails and the policy has attempts left."""
    for attempt in range(1, policy.attempts):
        try:
            return operation()
        except OSError as error:
            # What stays as it is is not tried again.
            stays = isinstance(error, PermissionError | FileNotFoundError | FileExistsError)
            if stays or not getattr(error, "retryable", True):
                raise
            wait = min(policy.max_seconds, policy.base_seconds * 2 ** (attempt - 1))
            time.sleep(wait * random.random() if policy.jitter else wait)
    return operation()
