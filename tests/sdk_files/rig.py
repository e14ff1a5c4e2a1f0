"""What every test of the Files service uses: the server under test, SDK clients, raw signed requests, the mount beside it.

Raw requests are those of the Blob suite (tests/sdk/rig.py), which signs by itself from the documentation: both services
have the same rules. It must never share code with leasefs.
"""

import importlib.util
import os
import pathlib
import random

# Where the Files service listens, and the mounted share beside it: its name and its folder, if there is one.
ADDRESS = os.environ.get("FILES_ADDRESS", "127.0.0.1:10004")
MOUNT = os.environ.get("FILES_MOUNT")
MOUNTED_SHARE = os.environ.get("FILES_SHARE", "share")
LEASEFS = os.environ.get("LEASEFS", "leasefs")

os.environ["BLOB_ADDRESS"] = ADDRESS
_spec = importlib.util.spec_from_file_location("blob_rig", pathlib.Path(__file__).parent.parent / "sdk" / "rig.py")
_blob = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_blob)

from azure.storage.fileshare import ShareServiceClient  # noqa: E402  (after the address is known)

ACCOUNT, KEY, URL, TIMEOUT = _blob.ACCOUNT, _blob.KEY, _blob.URL, _blob.TIMEOUT
A, B, C = _blob.A, _blob.B, _blob.C
call, path_of, refused, unique, verdict_of, wait_for = (
    _blob.call, _blob.path_of, _blob.refused, _blob.unique, _blob.verdict_of, _blob.wait_for)

MIB = 1 << 20


def service(credential=KEY, **options):
    """An SDK client that never retries: a retry would hide what the server answered."""
    options.setdefault("retry_total", 0)
    options.setdefault("connection_timeout", TIMEOUT)
    options.setdefault("read_timeout", TIMEOUT)
    if credential == KEY:
        credential = {"account_name": ACCOUNT, "account_key": KEY}
    return ShareServiceClient(URL, credential=credential, **options)


def noise(size, seed=1):
    """Bytes that look like nothing else."""
    return random.Random(seed).randbytes(size)


def names(items):
    return [item["name"] for item in items]


def make(share, path, size=0, **headers):
    """Create File by a raw request: `make(share, "a/b", 512)`."""
    return call("PUT", path_of(share, path), None, {"x-ms-type": "file", "x-ms-content-length": size} | headers)


def put_range(share, path, body, start=0, **headers):
    """Put Range by a raw request."""
    sent = {"x-ms-write": "update", "x-ms-range": f"bytes={start}-{start + len(body) - 1}"}
    return call("PUT", path_of(share, path), {"comp": "range"}, sent | headers, body)


def lease(share, path, action, **values):
    """A lease request on a file. Values: id, proposed, duration."""
    given = {"id": "x-ms-lease-id", "proposed": "x-ms-proposed-lease-id", "duration": "x-ms-lease-duration"}
    headers = {"x-ms-lease-action": action} | {given[name]: value for name, value in values.items()}
    return call("PUT", path_of(share, path), {"comp": "lease"}, headers)


def moment(text):
    """Seven digits after the second, as the service writes times."""
    import re
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", text), text
    return text
