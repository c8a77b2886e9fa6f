"""A folder over plain HTTP, read-only: ranges, ETags and conditions as a static file server has them."""

from __future__ import annotations

import email.utils
import json
import mimetypes
import os
import stat
import sys
import urllib.parse
from pathlib import Path
from typing import BinaryIO

from .app import Request, Response, byte_range, serve


class Folder:
    """Answers GET and HEAD of regular files below the folder; folders are not found, and nothing outside."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def __call__(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, {"Allow": "GET, HEAD"}, b"read-only\n")
        path = Path(os.path.normpath(f"{self._root}/{urllib.parse.unquote(request.path)}"))
        try:
            if not path.is_relative_to(self._root) or not stat.S_ISREG(path.stat().st_mode):
                raise FileNotFoundError
            file = path.open("rb")
        except (OSError, ValueError):
            return Response(404, {}, b"not found\n")
        response = self._answer(request, file, path.name)
        if response.file is None:
            file.close()
        return response

    @staticmethod
    def _answer(request: Request, file: BinaryIO, name: str) -> Response:
        known = os.fstat(file.fileno())
        size = known.st_size
        etag = f'"{known.st_mtime_ns:x}-{size:x}"'
        headers = {
            "ETag": etag,
            "Last-Modified": email.utils.formatdate(known.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
            "Content-Type": mimetypes.guess_type(name)[0] or "application/octet-stream",
        }
        wanted = request.head.get("if-match")
        if wanted not in (None, "*", etag):
            return Response(412, headers)
        if request.head.get("if-none-match") in ("*", etag):
            return Response(304, headers)
        asked = request.head.get("range") if request.head.get("if-range") in (None, etag) else None
        try:
            span = byte_range(asked, size)
        except ValueError as outside:
            return Response(416, {"Content-Range": str(outside)})
        first, end = span or (0, size)
        if span is not None:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        return Response(200 if span is None else 206, headers, file=(file, first, end - first))


def start(root: str) -> dict[str, str]:
    return {"endpoint": serve(Folder(Path(root))).endpoint}


if __name__ == "__main__":
    print(json.dumps(start(sys.argv[1])), flush=True)
    sys.stdin.read()
