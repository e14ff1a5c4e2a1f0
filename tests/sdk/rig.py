"""What every test of the Blob service uses: the server under test, SDK clients, a raw signed request, lease states.

The raw client signs by itself, from the documentation, so that it is a second opinion beside the SDK. It must never
share code with leasefs.
"""

import base64
import collections
import email.utils
import hashlib
import hmac
import http.client
import os
import threading
import time
import urllib.parse
import uuid
import xml.etree.ElementTree as ElementTree

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

# The account every emulator knows; its key is public.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2025-11-05"

# Which program is judged (leasefs or azurite), and where it listens.
SERVER = os.environ.get("BLOB_SERVER", "leasefs")
HOST, PORT = os.environ.get("BLOB_ADDRESS", "127.0.0.1:10000").rsplit(":", 1)
PORT = int(PORT)
URL = f"http://{HOST}:{PORT}/{ACCOUNT}"

# Lease ids with a fixed meaning in tables: A holds the lease, B and C are strangers.
A = "11111111-aaaa-4aaa-8aaa-111111111111"
B = "22222222-bbbb-4bbb-8bbb-222222222222"
C = "33333333-cccc-4ccc-8ccc-333333333333"

# The answer to a bad signature. Azurite has one code for it, everywhere; test_code_of_a_wrong_signature holds the real one.
NOT_AUTHENTICATED = "403 AuthenticationFailed" if SERVER != "azurite" else "403 AuthorizationFailure"

# No answer may take longer.
TIMEOUT = 60


class Answer:
    """One HTTP answer: status, error code, headers (names in any case), body."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def code(self):
        return self.headers.get("x-ms-error-code") or (self.xml().findtext("Code") if self.body[:1] == b"<" or
                                                       self.body[:3] == b"\xef\xbb\xbf" else None)

    @property
    def etag(self):
        return self.headers.get("ETag")

    def xml(self):
        return ElementTree.fromstring(self.body.decode("utf-8-sig"))

    @property
    def verdict(self):
        """`201`, or `409 BlobAlreadyExists`: what tables compare."""
        return str(self.status) if self.status < 300 else f"{self.status} {self.code}"

    def __repr__(self):
        return f"<{self.verdict} {dict(self.headers)} {self.body[:300]!r}>"


def string_to_sign(method, path, query, headers):
    """The SharedKey string, by the documentation of "Authorize with Shared Key"."""
    lower = {name.lower(): " ".join(str(value).split()) for name, value in headers.items()}
    length = lower.get("content-length", "")
    plain = [method, lower.get("content-encoding", ""), lower.get("content-language", ""), "" if length == "0" else length]
    plain += [lower.get(name, "") for name in ("content-md5", "content-type")]
    plain += ["" if "x-ms-date" in lower else lower.get("date", "")]
    plain += [lower.get(name, "") for name in
              ("if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range")]
    extra = [f"{name}:{value}" for name, value in sorted(lower.items()) if name.startswith("x-ms-")]
    grouped = collections.defaultdict(list)
    for name, value in query:
        grouped[name.lower()].append(value)
    resource = [f"/{ACCOUNT}{path}"]
    resource += [f"{name}:{','.join(sorted(values))}" for name, values in sorted(grouped.items())]
    return "\n".join(plain + extra + resource)


def signature(text, key=KEY):
    return base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()


def now():
    return email.utils.formatdate(usegmt=True)


def path_of(*names):
    """The path of a container or blob on the wire: every name percent-encoded, slashes kept."""
    return "/" + "/".join([ACCOUNT, *(urllib.parse.quote(name, safe="/~") for name in names)])


_connections = threading.local()


def exchange(method, target, headers, body=b""):
    """One request over this thread's kept connection; a connection the server has closed is opened again once."""
    for attempt in (1, 2):
        connection = getattr(_connections, "value", None)
        fresh = connection is None
        if fresh:
            connection = _connections.value = http.client.HTTPConnection(HOST, PORT, timeout=TIMEOUT)
        try:
            connection.request(method, target, body=body, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        except (http.client.RemoteDisconnected, ConnectionError, http.client.CannotSendRequest):
            connection.close()
            _connections.value = None
            if fresh or attempt == 2:
                raise


def call(method, path, query=None, headers=None, body=b"", *, sign=True, key=KEY, version=VERSION, date=None):
    """A raw request, signed with SharedKey unless told otherwise. `query` is a dict or the text of a SAS."""
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True) if isinstance(query, str) else list((query or {}).items())
    sent = {name: str(value) for name, value in (headers or {}).items() if value is not None}
    sent.setdefault("x-ms-date", date or now())
    if version:
        sent.setdefault("x-ms-version", version)
    if body or method in ("PUT", "POST"):
        sent.setdefault("Content-Length", str(len(body)))
    if sign:
        sent["Authorization"] = f"SharedKey {ACCOUNT}:{signature(string_to_sign(method, path, pairs, sent), key)}"
    target = path
    if pairs:
        target += "?" + urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote)
    return exchange(method, target, sent, body)


# --- SDK -------------------------------------------------------------------------------------------------------------


def service(credential=KEY, **options):
    """An SDK client that never retries: a retry would hide what the server answered."""
    options.setdefault("retry_total", 0)
    options.setdefault("connection_timeout", TIMEOUT)
    options.setdefault("read_timeout", TIMEOUT)
    if credential == KEY:
        credential = {"account_name": ACCOUNT, "account_key": KEY}
    return BlobServiceClient(URL, credential=credential, **options)


def verdict_of(error):
    """The `Answer.verdict` of an SDK error."""
    code = error.error_code or (error.response.headers.get("x-ms-error-code") if error.response is not None else None)
    return f"{error.status_code} {getattr(code, 'value', code)}"


def refused(expected, action, *arguments, **options):
    """Runs an SDK call that must be refused with this `status code`; returns the error."""
    try:
        result = action(*arguments, **options)
        # Listings and downloads ask only when they are read.
        if hasattr(result, "by_page"):
            list(result)
    except HttpResponseError as error:
        assert verdict_of(error) == expected, f"{verdict_of(error)}, expected {expected}: {error.message}"
        return error
    raise AssertionError(f"succeeded, expected {expected}")


def unique(stem="c"):
    return f"{stem}-{uuid.uuid4().hex[:16]}"


# --- blobs in a state ------------------------------------------------------------------------------------------------


def put_blob(container, name, body=b"content", kind="BlockBlob", **headers):
    sent = {"x-ms-blob-type": kind}
    if kind == "PageBlob":
        sent["x-ms-blob-content-length"] = 1024
    answer = call("PUT", path_of(container, name), None, sent | headers, body if kind == "BlockBlob" else b"")
    assert answer.status == 201, answer
    return answer


def lease(path, action, *, container=False, **values):
    """A lease request. Values: id, proposed, duration, period; anything else is a header by its own name."""
    names = {"id": "x-ms-lease-id", "proposed": "x-ms-proposed-lease-id", "duration": "x-ms-lease-duration",
             "period": "x-ms-lease-break-period"}
    headers = {"x-ms-lease-action": action}
    headers |= {names.get(name, name): value for name, value in values.items()}
    query = {"restype": "container", "comp": "lease"} if container else {"comp": "lease"}
    return call("PUT", path, query, headers)


def state_of(path, *, container=False):
    """(state, status) of the lease as Get Properties tells them."""
    answer = call("HEAD", path, {"restype": "container"} if container else None)
    return answer.headers.get("x-ms-lease-state"), answer.headers.get("x-ms-lease-status")


def bring_to(path, state, *, container=False):
    """Brings a fresh blob or container to a lease state in which A is (or was) the holder."""
    def must(status, action, **values):
        answer = lease(path, action, container=container, **values)
        assert answer.status == status, answer

    if state == "available":
        return
    must(201, "acquire", proposed=A, duration={"infinite": -1, "expired": 15}.get(state, 60))
    if state == "breaking":
        must(202, "break", period=60)
    elif state == "broken":
        must(202, "break", period=0)
    elif state == "expired":
        wait_for(lambda: state_of(path, container=container)[0] == "expired", "the lease expires")


def wait_for(condition, what, limit=60):
    """Polls for a condition; fails clearly when it does not come true in time."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"waited {limit} s in vain: {what}"
        time.sleep(0.1)


def readable(container, name, **options):
    """The URL of a blob with a SAS that lets anybody read it for an hour."""
    from datetime import datetime, timedelta, timezone

    from azure.storage.blob import BlobSasPermissions, generate_blob_sas
    expiry = datetime.now(timezone.utc) + timedelta(hours=1)
    sas = generate_blob_sas(ACCOUNT, container, name, account_key=KEY, expiry=expiry,
                            permission=BlobSasPermissions(read=True), **options)
    return f"http://{HOST}:{PORT}{path_of(container, name)}?{sas}"


def settings(kind):
    from azure.storage.blob import ContentSettings
    return ContentSettings(content_type=kind)
