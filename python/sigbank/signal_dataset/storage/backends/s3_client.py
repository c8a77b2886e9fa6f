"""A bucket that is reached by a boto3 client of the program's own."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ...errors import PublicationCollisionError, StorageError

if TYPE_CHECKING:
    from .s3 import S3Options

_MISSING = ("404", "NoSuchKey", "NotFound", "NoSuchBucket")
_BUSY = ("409", "ConditionalRequestConflict", "OperationAborted")
_OTHER = ("412", "PreconditionFailed")
_DENIED = ("403", "AccessDenied", "Forbidden", "AllAccessDisabled", "AccountProblem")
_CREDENTIALS = (
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "UnrecognizedClientException",
)
_NONE_FOUND = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError")


class ClientBucket:
    """The objects of a bucket, by the same methods as those of the stores that are reached without Python."""

    def __init__(self, client: Any, bucket: str, options: S3Options, errors: tuple[type[Exception], ...]) -> None:
        self._client = client
        self._bucket = bucket
        self._options = options
        self._errors = errors

    def head(self, key: str) -> tuple[int, str]:
        """Size and ETag."""
        found = self._call("head_object", key)
        return int(found["ContentLength"]), _etag(found)

    def read(self, key: str) -> bytes:
        """The whole object."""
        return self.read_version(key)[0]

    def read_range(self, key: str, start: int, stop: int) -> bytes:
        """The bytes from `start` to before `stop`."""
        if stop <= start:
            return b""
        return self._body(self._call("get_object", key, Range=f"bytes={start}-{stop - 1}"), key)

    def read_version(self, key: str) -> tuple[bytes, str]:
        """The whole object, and the ETag of these bytes."""
        found = self._call("get_object", key)
        return self._body(found, key), _etag(found)

    def create(self, key: str, data: bytes, content_type: str) -> None:
        """Put a new object."""
        self._put(key, data, len(data), content_type, IfNoneMatch="*")

    def create_file(self, key: str, path: Path, content_type: str) -> None:
        """Put a new object that has the bytes of a local file."""
        size, most = path.stat().st_size, self._options.max_single_part_bytes
        if size > most:
            raise StorageError(
                f"{self._uri(key)}: {size} bytes, where one request takes {most}: write smaller shards (max_encoded_shard_bytes)"
            )
        with path.open("rb") as file:
            self._put(key, file, size, content_type, IfNoneMatch="*")

    def compare_and_swap(self, key: str, data: bytes, expected: str | None, content_type: str) -> str:
        """Put an object in the place of that of an ETag, or of none; gives its ETag."""
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected}
        return _etag(self._put(key, data, len(data), content_type, **condition))

    def list(self, prefix: str | None) -> list[str]:
        """The keys below a directory."""
        pages = self._client.get_paginator("list_objects_v2")
        below = f"{prefix}/" if prefix else ""
        try:
            return [one["Key"] for page in pages.paginate(Bucket=self._bucket, Prefix=below) for one in page.get("Contents", ())]
        except self._errors as error:
            raise self._told(error, below) from error

    def _put(self, key: str, body: bytes | IO[bytes], size: int, content_type: str, **condition: str) -> Any:
        for attempt in range(1, self._options.conflict_attempt_limit + 1):
            try:
                return self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=body, ContentType=content_type, ContentLength=size, **condition
                )
            except self._errors as error:
                # Another write of the same key was going on: this one was not looked at.
                if not _is(error, _BUSY):
                    raise self._told(error, key) from error
                if attempt == self._options.conflict_attempt_limit:
                    text = f"others were writing it at the same time, as the service says, in each of {attempt} attempts"
                    raise _final(f"{self._uri(key)}: {text}: try again later") from error
            if not isinstance(body, bytes):
                body.seek(0)
            longest = self._options.conflict_retry_base_seconds * 2 ** (attempt - 1)
            time.sleep(random.random() * min(longest, self._options.conflict_retry_max_seconds))
        raise AssertionError("the last attempt gives or raises")

    def _call(self, name: str, key: str, **more: str) -> Any:
        try:
            return getattr(self._client, name)(Bucket=self._bucket, Key=key, **more)
        except self._errors as error:
            raise self._told(error, key) from error

    def _body(self, found: Any, key: str) -> bytes:
        try:
            data: bytes = found["Body"].read()
        except self._errors as error:
            raise self._told(error, key) from error
        if len(data) != found["ContentLength"]:
            raise StorageError(f"{self._uri(key)}: {len(data)} of {found['ContentLength']} bytes came")
        return data

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    def _told(self, error: Exception, key: str) -> Exception:
        uri = self._uri(key)
        if _is(error, _MISSING):
            return FileNotFoundError(uri)
        if _is(error, _OTHER):
            return PublicationCollisionError(uri)
        code = str((getattr(error, "response", None) or {}).get("Error", {}).get("Code"))
        if code in _CREDENTIALS or type(error).__name__ in _NONE_FOUND:
            return _final(f"{uri}: the request was refused ({error}): check the credentials, their expiry, and the system's clock")
        if _is(error, _DENIED):
            return PermissionError(f"{uri}: access is denied: the credentials do not allow it, or there is no such object ({error})")
        if _is(error, ("501", "NotImplemented")):
            return _final(f"{uri}: the service does not implement conditional writes, without which nothing can be published ({error})")
        return StorageError(f"{uri}: the client failed: {error}")


def _final(text: str) -> StorageError:
    """A failure that stays when it is tried again."""
    failure = StorageError(text)
    failure.retryable = False
    return failure


def client_errors(given: type[Exception] | tuple[type[Exception], ...] | None) -> tuple[type[Exception], ...]:
    """What a client raises: what was given, or what boto3 does."""
    if given is not None:
        return given if isinstance(given, tuple) else (given,)
    try:
        from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
    except ImportError:
        return (OSError,)
    return (ClientError, BotoCoreError, Boto3Error, OSError)


def _is(error: Exception, codes: tuple[str, ...]) -> bool:
    response = getattr(error, "response", None) or {}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return str(response.get("Error", {}).get("Code")) in codes or str(status) in codes


def _etag(found: Any) -> str:
    etag = found.get("ETag")
    if not etag:
        raise StorageError("the service tells no ETag, so that nothing can be replaced safely")
    return str(etag).strip('"')
