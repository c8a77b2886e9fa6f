"""S3: moto, with its check of a condition and the write that follows made one step, as the service promises.

Run as `python -m servers.s3 BUCKET`, it is a process of its own, since moto is busy in Python.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

# What a client has to be told. Moto takes any keys.
KEYS = {"access_key": "testing", "secret_key": "testing", "region": "us-east-1"}
IN_MEMORY = 64 << 20

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def one_write_at_a_time(application: Application) -> Application:
    """Moto looks whether the object exists and writes it afterwards; two threads may both find nothing there."""
    lock = threading.Lock()

    def locked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return application(environ, start_response)
        # Taken before the lock: a client that is slow, or hangs, must not stop the others.
        body = tempfile.SpooledTemporaryFile(IN_MEMORY)
        left = int(environ.get("CONTENT_LENGTH") or 0)
        if environ.get("wsgi.input_terminated"):
            left = sys.maxsize
        while left and (piece := environ["wsgi.input"].read(min(left, 1 << 20))):
            body.write(piece)
            left -= len(piece)
        if left and not environ.get("wsgi.input_terminated"):
            raise ConnectionError("the request broke off")  # S3 keeps nothing of it
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ.update({"CONTENT_LENGTH": str(body.tell()), "wsgi.input": body, "wsgi.input_terminated": False})
        body.seek(0)
        with body, lock:
            return list(application(environ, start_response))

    return locked


def main(bucket: str) -> None:
    """Prints where, and serves until standard input closes."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    application = one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.port}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")).close()
    print(json.dumps({"endpoint": endpoint, "bucket": bucket}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
