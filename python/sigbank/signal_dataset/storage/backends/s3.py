"""Amazon S3, and whatever speaks its protocol."""

from __future__ import annotations

import configparser
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sigbank import _native

from ..._frozen import whole_number
from ..native import AddressObjectStore
from ..registry import ObjectStoreBackend
from .s3_client import ClientBucket, client_errors

_SINGLE_PART = 5 << 30


@dataclass(frozen=True, slots=True)
class S3Options:
    """How S3 is reached: where, and how often what fails is tried again. Credentials come from the environment or the profile.

    `retry_mode` and `etag_memo_size` are taken so that programs run unchanged.

    >>> S3Options(endpoint_url="http://localhost:9000", addressing_style="path").max_attempts
    5
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    addressing_style: str | None = None
    max_attempts: int = 5
    retry_mode: str = "standard"
    conflict_attempt_limit: int = 5
    conflict_retry_base_seconds: float = 0.05
    conflict_retry_max_seconds: float = 1.0
    etag_memo_size: int = 128
    max_single_part_bytes: int = _SINGLE_PART

    def __post_init__(self) -> None:
        for name in ("region_name", "endpoint_url", "profile_name"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} must be non-empty or None")
        if self.addressing_style not in (None, "virtual", "path"):
            raise ValueError(f"addressing_style must be one of ('virtual', 'path') or None, found {self.addressing_style!r}")
        if self.retry_mode not in ("legacy", "standard", "adaptive"):
            raise ValueError(
                f"retry_mode must be one of ('legacy', 'standard', 'adaptive'), found {self.retry_mode!r}"
            )
        for name in ("max_attempts", "conflict_attempt_limit", "etag_memo_size", "max_single_part_bytes"):
            whole_number(name, getattr(self, name), 1, "a positive integer")
        if self.max_single_part_bytes > _SINGLE_PART:
            raise ValueError(f"max_single_part_bytes must not exceed the S3 limit of {_SINGLE_PART}")
        for name in ("conflict_retry_base_seconds", "conflict_retry_max_seconds"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
                raise ValueError(f"{name} must be a nonnegative number, found {seconds!r}")
        if self.conflict_retry_max_seconds < self.conflict_retry_base_seconds:
            raise ValueError("conflict_retry_max_seconds must not be below conflict_retry_base_seconds")

    def _settings(self) -> dict[str, str]:
        """The same as `storage_options`."""
        settings: dict[str, str] = {}
        endpoint = self.endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if self.profile_name is not None:
            settings |= _profile(self.profile_name)
        if self.region_name is not None:
            settings["aws_region"] = self.region_name
        if endpoint is not None:
            settings["aws_endpoint"] = endpoint
            if endpoint.startswith("http://"):
                settings["aws_allow_http"] = "true"
        if self.max_attempts != 5:
            settings["retries"] = str(self.max_attempts - 1)
        if self.addressing_style is not None:
            settings["aws_virtual_hosted_style_request"] = str(self.addressing_style == "virtual").lower()
        return settings


class S3ObjectStore(AddressObjectStore):
    """S3: objects are created by conditional requests, and read by ranges.

    Args:
        client: a boto3 client, which then makes every request, with its own credentials and settings; that is slower than without one,
            where requests are made by several threads without Python. A store with a client does not pickle.
        options: where and how; by default what the environment says. With a client, how conflicts are tried again.
        client_error: what the client raises, where it is not boto3's.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        options: S3Options | None = None,
        client_error: type[Exception] | tuple[type[Exception], ...] | None = None,
    ) -> None:
        self._s3 = options or S3Options()
        self._client = client
        self._client_errors = client_errors(client_error)
        super().__init__(self._s3._settings() if client is None else None)

    def _connect(self, root: str, *, create: bool) -> _native.SignalStore:
        if self._client is None:
            return super()._connect(root, create=create)
        bucket = root.partition("://")[2].split("/")[0]
        return cast(_native.SignalStore, ClientBucket(self._client, bucket, self._s3, self._client_errors))

    def _labels(self, content_type: str) -> dict[str, str]:
        return {} if self._client is None else {"content_type": content_type}

    @property
    def called(self) -> bool:
        """Whether requests are made by a client of the program's own."""
        return self._client is not None

    @property
    def options(self) -> S3Options:
        """The options that it was made with."""
        return self._s3


def s3_backend(options: S3Options | None = None) -> ObjectStoreBackend:
    """A backend to register, so that `s3://` addresses are reached with these options everywhere.

    >>> from sigbank.signal_dataset.storage import ObjectStoreRegistry
    >>> registry = ObjectStoreRegistry()
    >>> registry.register(s3_backend(S3Options(region_name="eu-central-1")))
    >>> registry.schemes()
    frozenset({'s3'})
    """

    def factory(uri: str, *, root_is_directory: bool) -> S3ObjectStore:
        return S3ObjectStore(options=options)

    return ObjectStoreBackend(scheme="s3", filesystem=False, factory=factory, validate_root=validate_root)


def validate_root(uri: str) -> None:
    """ValueError for an address without a bucket."""
    if not uri.partition("://")[2].strip("/"):
        raise ValueError(f"invalid S3 URI: {uri!r}")


def _profile(name: str) -> dict[str, str]:
    """The credentials and the region of a profile of the shared files."""
    home = Path.home() / ".aws"
    credentials, config = configparser.ConfigParser(interpolation=None), configparser.ConfigParser(interpolation=None)
    credentials.read(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"))
    config.read(os.environ.get("AWS_CONFIG_FILE", home / "config"))
    found: dict[str, str] = {}
    section = name if name == "default" else f"profile {name}"
    for parser, part in ((config, section), (credentials, name)):
        if parser.has_section(part):
            found |= parser[part]
    if not found:
        raise ValueError(f"there is no profile {name!r} in the shared AWS files")
    names = {
        "aws_access_key_id": "aws_access_key_id",
        "aws_secret_access_key": "aws_secret_access_key",
        "aws_session_token": "aws_session_token",
        "region": "aws_region",
    }
    return {to: found[key] for key, to in names.items() if key in found}
