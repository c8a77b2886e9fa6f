"""A bucket of Google Cloud Storage in memory, as much of its XML interface as clients of object storage use.

No server that can be had honours `x-goog-if-generation-match`, so this one is the test of the writers on GCS. Every request is
judged and carried out under one lock. What S3 does otherwise (`If-None-Match: *`, `If-Match`, deletion) is understood as well, so
that measurements need not wait for moto, which answers some 500 requests a second.
"""

from __future__ import annotations

import dataclasses
import email.utils
import json
import hashlib
import itertools
import re
import sys
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape, unescape

from .app import Request, Response, byte_range, error, serve


@dataclasses.dataclass
class Object:
    data: bytes
    generation: int
    etag: str
    content_type: str
    modified: float
    metadata: dict[str, str]

    def headers(self) -> dict[str, str]:
        return {
            "ETag": self.etag,
            "x-goog-generation": str(self.generation),
            "Last-Modified": email.utils.formatdate(self.modified, usegmt=True),
            "Content-Type": self.content_type,
            "Accept-Ranges": "bytes",
            **self.metadata,
        }


@dataclasses.dataclass
class Upload:
    key: str
    request: Request
    parts: dict[int, tuple[str, bytes]] = dataclasses.field(default_factory=dict)


class Refused(Exception):
    """The request is answered with this instead."""

    def __init__(self, response: Response) -> None:
        self.response = response


def refuse(status: int, code: str, message: str = "") -> Refused:
    return Refused(error(status, code, message))


class Buckets:
    """The state, and the answer to each request."""

    def __init__(self, *names: str, s3: bool = False) -> None:
        self._s3 = s3
        self._buckets: dict[str, dict[str, Object]] = {name: {} for name in names}
        self._uploads: dict[str, Upload] = {}
        # Generations are times in microseconds where the service makes them.
        self._generations = itertools.count(time.time_ns() // 1000)
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        bucket, _, key = request.path.lstrip("/").partition("/")
        bucket, key = urllib.parse.unquote(bucket), urllib.parse.unquote(key)
        digest = hashlib.md5(request.body, usedforsecurity=False).hexdigest() if request.method == "PUT" else ""
        with self._lock:
            try:
                if request.method == "PUT" and not key:
                    self._buckets.setdefault(bucket, {})
                    return Response()
                objects = self._buckets.get(bucket)
                if objects is None:
                    raise refuse(404, "NoSuchBucket", "The specified bucket does not exist.")
                if not key and request.method == "POST" and "delete" in request.query:
                    return self._delete(objects, request.body.decode())
                if not key:
                    return self._list(bucket, objects, request)
                return self._object(objects, key, request, digest)
            except Refused as refused:
                return refused.response

    def _object(self, objects: dict[str, Object], key: str, request: Request, digest: str) -> Response:
        query = request.query
        if "uploadId" in query or "uploads" in query:
            return self._multipart(objects, key, request, digest)
        match request.method:
            case "GET" | "HEAD":
                return self._get(objects, key, request)
            case "PUT":
                self._judge(objects.get(key), request)
                source = request.head.get("x-goog-copy-source") or request.head.get("x-amz-copy-source")
                if source is None:
                    return self._put(objects, key, request.body, digest, request)
                bucket, _, name = source.lstrip("/").partition("/")
                copied = self._buckets.get(urllib.parse.unquote(bucket), {}).get(urllib.parse.unquote(name))
                if copied is None:
                    raise refuse(404, "NoSuchKey")
                response = self._put(objects, key, copied.data, copied.etag.strip('"'), request)
                response.body = f"<CopyObjectResult><ETag>{escape(copied.etag)}</ETag></CopyObjectResult>".encode()
                return response
            case "DELETE":
                self._judge(objects.get(key), request)
                if objects.pop(key, None) is None and not self._s3:
                    raise refuse(404, "NoSuchKey", "The specified key does not exist.")
                return Response(204)
        raise refuse(405, "MethodNotAllowed")

    @staticmethod
    def _judge(known: Object | None, request: Request) -> None:
        """The conditions of a request that writes."""
        wanted = request.head.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != (known.generation if known else 0):
            raise refuse(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
        if request.head.get("if-none-match") == "*" and known is not None:
            raise refuse(412, "PreconditionFailed")
        etag = request.head.get("if-match")
        if etag is not None:
            if known is None:
                raise refuse(404, "NoSuchKey")
            if etag.strip('"') != known.etag.strip('"'):
                raise refuse(412, "PreconditionFailed")

    def _put(self, objects: dict[str, Object], key: str, data: bytes, digest: str, request: Request) -> Response:
        kept = {name: value for name, value in request.head.fields if re.match("x-(goog|amz)-meta-|cache-control", name, re.I)}
        content_type = request.head.get("content-type") or "application/octet-stream"
        made = Object(data, next(self._generations), f'"{digest}"', content_type, time.time(), kept)
        objects[key] = made
        return Response(200, {"ETag": made.etag, "x-goog-generation": str(made.generation)})

    @staticmethod
    def _get(objects: dict[str, Object], key: str, request: Request) -> Response:
        known = objects.get(key)
        if known is None or request.query.get("generation", str(known.generation)) != str(known.generation):
            raise refuse(404, "NoSuchKey", "The specified key does not exist.")
        headers = known.headers()
        wanted = request.head.get("x-goog-if-generation-match")
        matching, other = request.head.get("if-match"), request.head.get("if-none-match")
        if wanted not in (None, str(known.generation)) or matching not in (None, "*", known.etag):
            raise refuse(412, "PreconditionFailed")
        if other in ("*", known.etag):
            return Response(304, headers)
        size = len(known.data)
        try:
            span = byte_range(request.head.get("range"), size)
        except ValueError as outside:
            response = error(416, "InvalidRange", "The requested range cannot be satisfied.")
            response.headers["Content-Range"] = str(outside)
            return response
        if span is None:
            return Response(200, headers, known.data)
        headers["Content-Range"] = f"bytes {span[0]}-{span[1] - 1}/{size}"
        return Response(206, headers, memoryview(known.data)[span[0] : span[1]])

    def _multipart(self, objects: dict[str, Object], key: str, request: Request, digest: str) -> Response:
        if request.method == "POST" and "uploads" in request.query:
            name = f"upload-{next(self._generations)}"
            self._uploads[name] = Upload(key, request)
            text = f"<Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
            return xml("InitiateMultipartUploadResult", text)
        name = request.query.get("uploadId", "")
        upload = self._uploads.get(name)
        if upload is None or upload.key != key:
            raise refuse(404, "NoSuchUpload")
        match request.method:
            case "PUT":
                upload.parts[int(request.query["partNumber"])] = (f'"{digest}"', request.body)
                return Response(200, {"ETag": f'"{digest}"'})
            case "DELETE":
                del self._uploads[name]
                return Response(204)
            case "POST":
                data = self._joined(upload, request.body.decode())
                self._judge(objects.get(key), request)
                del self._uploads[name]
                tag = hashlib.md5(data, usedforsecurity=False).hexdigest() + f"-{len(upload.parts)}"
                made = self._put(objects, key, data, tag, upload.request)
                text = f"<Key>{escape(key)}</Key><ETag>{escape(made.headers['ETag'])}</ETag>"
                response = xml("CompleteMultipartUploadResult", text)
                response.headers.update(made.headers)
                return response
        raise refuse(405, "MethodNotAllowed")

    @staticmethod
    def _joined(upload: Upload, said: str) -> bytes:
        pieces = []
        for part in re.findall(r"<Part>(.*?)</Part>", said, re.S):
            number = re.search(r"<PartNumber>(\d+)</PartNumber>", part)
            etag = re.search(r"<ETag>(.*?)</ETag>", part)
            known = upload.parts.get(int(number[1])) if number else None
            if known is None or etag is None or etag[1].replace("&quot;", '"').strip('"') != known[0].strip('"'):
                raise refuse(400, "InvalidPart")
            pieces.append(known[1])
        if not pieces:
            raise refuse(400, "MalformedXML", "no parts")
        return b"".join(pieces)

    @staticmethod
    def _delete(objects: dict[str, Object], said: str) -> Response:
        keys = re.findall(r"<Key>(.*?)</Key>", said, re.S)
        for key in keys:
            objects.pop(unescape(key, {"&quot;": '"', "&apos;": "'"}), None)
        return xml("DeleteResult", "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys))

    @staticmethod
    def _list(bucket: str, objects: dict[str, Object], request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise refuse(405, "MethodNotAllowed")
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        most = min(1000, int(query.get("max-keys") or 1000))
        shown: dict[str, Object | None] = {}  # None: a common prefix
        more = ""
        for key in sorted(objects):
            if not key.startswith(prefix):
                continue
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if cut < 0 else key[: cut + len(delimiter)]
            if name <= after or name in shown:
                continue
            if len(shown) == most:
                more = list(shown)[-1]
                break
            shown[name] = objects[key] if cut < 0 else None
        text = [f"<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(shown)}</KeyCount>"]
        text.append(f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>")
        if more:
            text.append(f"<NextContinuationToken>{escape(more)}</NextContinuationToken>")
        for name, known in shown.items():
            if known is None:
                text.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                continue
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(known.modified)) + f".{int(known.modified % 1 * 1000):03}Z"
            told = {"Key": escape(name), "Generation": known.generation, "LastModified": when, "ETag": escape(known.etag)}
            told["Size"] = len(known.data)
            text.append("<Contents>" + "".join(f"<{tag}>{value}</{tag}>" for tag, value in told.items()) + "</Contents>")
        return xml("ListBucketResult", "".join(text))


def xml(name: str, inside: str) -> Response:
    text = f"<?xml version='1.0' encoding='UTF-8'?><{name}>{inside}</{name}>"
    return Response(200, {"Content-Type": "application/xml"}, text.encode())


def start(bucket: str, *s3: str) -> dict[str, str]:
    return {"endpoint": serve(Buckets(bucket, s3=bool(s3))).endpoint, "bucket": bucket}


if __name__ == "__main__":
    print(json.dumps(start(*sys.argv[1:])), flush=True)
    sys.stdin.read()
