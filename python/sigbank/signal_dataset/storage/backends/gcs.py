"""Google Cloud Storage."""

from __future__ import annotations

from ..native import AddressObjectStore


class GCSObjectStore(AddressObjectStore):
    """Google Cloud Storage. Credentials come from the environment (Application Default Credentials)."""

    def __init__(self, client: None = None) -> None:
        if client is not None:
            raise TypeError(
                f"client: a {type(client).__name__} is not called here, since requests are made without Python. Give credentials by "
                "the environment; or derive a class from ObjectStore that calls your client, and give that as object_store"
            )
        super().__init__()
