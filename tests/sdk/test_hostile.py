"""Hostile requests over bare sockets: whatever is sent, nothing half is stored and everybody else is served.

Requests carry a SAS in their address, so that they reach the code behind authorization without signed headers.
"""

import re
import socket
import struct
import time

import pytest

import rig
from rig import call, path_of
from test_sas import account_sas

pytestmark = pytest.mark.skipif(rig.SERVER != "leasefs", reason="Azurite may hang up, or answer 500, and go on")

# The longest a server may take to notice that a client only pretends to send.
PATIENCE = 20
PUT = "x-ms-blob-type: BlockBlob"


class Line:
    """One bare connection."""

    def __init__(self):
        self.socket = socket.create_connection((rig.HOST, rig.PORT), timeout=PATIENCE)

    def send(self, data):
        try:
            self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The server has heard enough.

    def receive(self, answers=1):
        """Everything until the server closes, or is silent for a moment after this many answers."""
        received = b""
        try:
            while True:
                part = self.socket.recv(65536)
                if not part:
                    break
                received += part
                if len(statuses(received)) >= answers:
                    self.socket.settimeout(1)
        except (TimeoutError, ConnectionResetError):
            pass
        return received

    def abort(self):
        """Ends with a reset, as a killed client does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", received)]


def send(data, answers=1):
    line = Line()
    line.send(data)
    received = line.receive(answers)
    line.socket.close()
    return received


def request(method, path, *headers, query="", body=""):
    target = f"{path}?{query}{'&' if query else ''}{account_sas('rwdlacut')}"
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "x-ms-version: 2025-11-05", *headers]
    return "\r\n".join(lines) + "\r\n\r\n" + body


@pytest.fixture
def place(container):
    """A container with one blob in it, which must be the same afterwards, in a server that still works."""
    container.upload_blob("kept", b"kept")
    yield container
    assert container.download_blob("kept").readall() == b"kept"
    found = {(blob.name, blob.size) for blob in container.list_blobs(include=["uncommittedblobs", "snapshots"])}
    assert found == {("kept", 4)}, "nothing half is stored"
    container.upload_blob("after", b"x").delete_blob()


@pytest.fixture
def path(place):
    return path_of(place.container_name, "hostile")


def refused(received):
    """Answered with a refusal, or hung up; never a success, never a failure of the server itself."""
    found = statuses(received)
    assert all(400 <= status < 500 or status in (501, 505) for status in found), received[:400]
    return found


# --- framing ---------------------------------------------------------------------------------------------------------

SMUGGLED = "DELETE {kept} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("framing", [
    ["Content-Length: 4", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 4"],
    ["Content-Length: 4", "Content-Length: 40"],
    ["Content-Length: 4, 40"],
    ["Content-Length: -1"], ["Content-Length: +4"], ["Content-Length: 0x4"], ["Content-Length: 4 4"],
    ["Content-Length: four"], ["Content-Length: 99999999999999999999999"],
    ["Transfer-Encoding: xchunked"], ["Transfer-Encoding: chunked, identity"], ["Transfer-Encoding: gzip, chunked"],
    ["Transfer-Encoding : chunked"], ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
    ["Content-Length : 4"], ["Content-Length: 4", " folded: yes"],
])
def test_doubtful_length(place, path, framing):
    """Two ways to read where a request ends are one too many: the rest must not become a request."""
    hidden = request("DELETE", path_of(place.container_name, "kept"), "Content-Length: 0")
    received = send(request("PUT", path, PUT, *framing, body=f"0\r\n\r\n{hidden}"))
    found = statuses(received)
    assert 202 not in found, "the hidden request was carried out"
    if 201 in found:
        # A framing that has one meaning only (chunked wins, by the standard) may be accepted: then it was an empty body.
        assert found[0] == 201 and len(found) == 1, received
        call("DELETE", path)
    else:
        refused(received)


@pytest.mark.parametrize("body", [
    "zz\r\nabc\r\n0\r\n\r\n", "-1\r\nabc\r\n0\r\n\r\n", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n", "3\r\nabcdef\r\n0\r\n\r\n",
    "3\nabc\n0\n\n", "3;" + "x" * 70000 + "\r\nabc\r\n0\r\n\r\n",
])
def test_bad_chunks(place, path, body):
    found = statuses(send(request("PUT", path, PUT, "Transfer-Encoding: chunked", body=body)))
    if found == [201]:
        assert call("GET", path).body == b"abc", "read in one of the two possible ways, and completely"
        call("DELETE", path)
    else:
        assert 201 not in found


def test_length_is_needed(place, path):
    assert refused(send(request("PUT", path, PUT)))[:1] in ([411], [400])


def test_garbage(place):
    for data in (b"\x00" * 1000, b"\xff" * 1000, b"\r\n" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        refused(send(data))


@pytest.mark.parametrize("header", [b"x-ms-meta-a: a\x00b", b"x-ms-meta-a: a\rb", b"x ms: a", b": a", b"nocolon", b"a\x7f: b"])
def test_bad_header_bytes(place, path, header):
    head = request("PUT", path, PUT, "Content-Length: 1").encode()
    refused(send(head.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n\r\n", 1) + b"x"))


# --- too much --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [
    ["x-ms-meta-a: " + "v" * (1 << 20)], [f"x-ms-meta-m{number}: v" for number in range(2000)],
    ["x-ms-meta-" + "n" * 200_000 + ": v"],
])
def test_too_many_or_too_long_headers(place, path, headers):
    refused(send(request("PUT", path, PUT, "Content-Length: 1", *headers, body="x")))


def test_endless_header(place):
    line = Line()
    line.send("GET / HTTP/1.1\r\n")
    for _ in range(4000):
        line.send("x-filler: " + "v" * 1000 + "\r\n")
    refused(line.receive())
    line.socket.close()


def test_too_long_address(place, path):
    refused(send(f"GET {path}{'a' * (1 << 20)} HTTP/1.1\r\nHost: localhost\r\n\r\n"))


def test_huge_declared_length(place, path):
    line = Line()
    line.send(request("PUT", path, PUT, f"Content-Length: {1 << 50}", body="x" * 1000))
    refused(line.receive())
    line.abort()


@pytest.mark.parametrize("query", ["comp=blocklist", "comp=tags"])
def test_huge_documents(place, query):
    path = path_of(place.container_name, "kept")
    unit = b"<Latest>YQ==</Latest>" if "block" in query else b"<Tag><Key>k</Key><Value>v</Value></Tag>"
    body = b"<BlockList>" + unit * 1_000_000 + b"</BlockList>"
    line = Line()
    line.send(request("PUT", path, f"Content-Length: {len(body)}", query=query))
    line.send(body)
    refused(line.receive())
    line.socket.close()


# --- lies and silence ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("query", ["", "comp=block&blockid=YQ==", "comp=blocklist"])
def test_upload_that_stops(place, path, query, how):
    line = Line()
    headers = [] if query else [PUT]
    line.send(request("PUT", path, *headers, "Content-Length: 100000", query=query, body="x" * 5000))
    time.sleep(0.05)
    if how == "reset":
        line.abort()
    else:
        line.socket.shutdown(socket.SHUT_WR)
        assert 201 not in statuses(line.receive())
        line.socket.close()
    assert call("HEAD", path).status == 404


def test_stopped_append_and_page_leave_the_blob(place):
    for kind, query, headers in (("AppendBlob", "comp=appendblock", []),
                                 ("PageBlob", "comp=page", ["x-ms-page-write: update", "x-ms-range: bytes=0-1023"])):
        rig.put_blob(place.container_name, "other", kind=kind)
        path = path_of(place.container_name, "other")
        before = call("HEAD", path).etag
        line = Line()
        line.send(request("PUT", path, *headers, "Content-Length: 1024", query=query, body="x" * 600))
        line.socket.shutdown(socket.SHUT_WR)
        assert 201 not in statuses(line.receive())
        after = call("HEAD", path)
        assert after.etag == before and after.headers["Content-Length"] == ("0" if kind == "AppendBlob" else "1024")
        assert call("DELETE", path).status == 202


def test_body_that_goes_on(place, path):
    """What follows the declared length is the next request, and this one is none."""
    received = send(request("PUT", path, PUT, "Content-Length: 3", body="abcdefgh\r\n\r\n"))
    assert statuses(received)[0] == 201
    assert call("GET", path).body == b"abc"
    call("DELETE", path)


def test_silent_clients_hold_nobody_up(place, path):
    lines = [Line() for _ in range(200)]
    for number, line in enumerate(lines):
        line.send(["", "GET / HT", request("PUT", path, PUT, "Content-Length: 1000", body="x")][number % 3])
    started = time.monotonic()
    for _ in range(20):
        assert call("GET", path_of(place.container_name, "kept")).status == 200
    assert time.monotonic() - started < PATIENCE
    for line in lines:
        line.abort()
    assert call("HEAD", path).status == 404


def test_client_that_does_not_read(place):
    """A download nobody fetches must not cost the server the whole content in memory, nor a thread for ever."""
    place.upload_blob("big", b"x" * (16 << 20))
    lines = [Line() for _ in range(20)]
    for line in lines:
        line.send(request("GET", path_of(place.container_name, "big")))
    assert call("GET", path_of(place.container_name, "kept")).status == 200
    for line in lines:
        line.abort()
    assert call("DELETE", path_of(place.container_name, "big")).status == 202


def test_refused_before_the_body_is_sent(place, path):
    line = Line()
    line.send(f"PUT {path} HTTP/1.1\r\nHost: localhost\r\n{PUT}\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
    received = line.receive()
    assert 100 not in statuses(received), "an unauthorized body is not asked for"
    refused(received)
    line.socket.close()


def test_expect_continue(place, path):
    line = Line()
    line.send(request("PUT", path, PUT, "Content-Length: 3", "Expect: 100-continue"))
    first = line.socket.recv(65536)
    assert statuses(first) == [100]
    line.send("abc")
    assert statuses(line.receive()) == [201]
    line.socket.close()
    assert call("DELETE", path).status == 202


def test_requests_in_one_packet(place):
    """Answered in their order."""
    kept = path_of(place.container_name, "kept")
    missing = path_of(place.container_name, "missing")
    found = statuses(send(request("GET", kept) + request("HEAD", missing) + request("GET", kept), answers=3))
    assert found == [200, 404, 200]


# --- documents -------------------------------------------------------------------------------------------------------

BOMB = ('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "' + "x" * 100 + '">'
        + "".join(f'<!ENTITY a{n + 1} "{("&a%s;" % (n or "")) * 10}">' for n in range(9)) + "]>")
DOCUMENTS = {
    "bomb": BOMB + "<BlockList><Latest>&a9;</Latest></BlockList>",
    "external entity": '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><BlockList><Latest>&e;</Latest></BlockList>',
    "deep": "<BlockList>" + "<a>" * 100_000,
    "closed wrongly": "<BlockList><Latest>YQ==</BlockList></Latest>",
    "bytes": "\xff\xfe\x00<BlockList/>",
    "many attributes": "<BlockList " + " ".join(f'a{n}="1"' for n in range(20_000)) + "/>x",
    "two roots": "<BlockList/><BlockList/>",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(place, path, name):
    body = DOCUMENTS[name].encode("latin-1")
    started = time.monotonic()
    answers = [call("PUT", path, {"comp": "blocklist"}, {}, body),
               call("PUT", path_of(place.container_name), {"restype": "container", "comp": "acl"}, {}, body),
               call("PUT", path_of(), {"restype": "service", "comp": "properties"}, {}, body)]
    assert time.monotonic() - started < PATIENCE
    for answer in answers:
        assert 400 <= answer.status < 500, answer
        assert b"root:" not in answer.body


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/devstoreaccount1/..%2f..%2fetc/passwd", "/devstoreaccount1/%00/%00",
    "//devstoreaccount1//x", "/devstoreaccount1/%ff%fe/x", "/devstoreaccount1/abc/%ff%fe", "*", "http://example.test/x",
    "/devstoreaccount1/%", "/devstoreaccount1/abc/%zz", "/?comp=list&comp=list", "/devstoreaccount1?restype=&comp=&&=&",
])
def test_strange_addresses(place, target):
    joined = target + ("&" if "?" in target else "?") + account_sas("rwdlacut")
    for method in ("GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"):
        received = send(f"{method} {joined} HTTP/1.1\r\nHost: localhost\r\n{PUT}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert all(status < 500 or status in (501, 505) for status in statuses(received)), (method, received[:300])
        assert b"root:" not in received


def test_dots_in_names_are_names(place):
    """A path inside a container is a name, not a place on a disk."""
    path = f"{path_of(place.container_name)}/a/%2e%2e/%2e%2e/b"
    answer = call("PUT", path, None, {"x-ms-blob-type": "BlockBlob"}, b"x")
    assert answer.status in (201, 400), answer
    if answer.status == 201:
        names = {blob.name for blob in place.list_blobs()}
        for name in names - {"kept"}:
            place.delete_blob(name)
