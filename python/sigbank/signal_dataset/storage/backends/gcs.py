"""Google Cloud Storage."""

from __future__ import annotations

from ..native import AddressObjectStore


class GCSObjectStore(AddressObjectStore):
    """Google Cloud Storage. Credentials come from the environment (Application Default Credentials)."""

    def __init__(self, client: None = None) -> None:
        if client is not None:
            raise TypeError("a client of google-cloud-storage is not taken: give credentials by the environment")
        super().__init__()
