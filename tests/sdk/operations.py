"""The operations on one blob or container as data, for the tables that run every one of them in every situation."""

import base64
import dataclasses

import rig

BLOCK_ID = base64.b64encode(b"0001").decode()
BLOCK_LIST = b"<?xml version='1.0' encoding='utf-8'?><BlockList></BlockList>"
TAGS = b"<Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>"


@dataclasses.dataclass(frozen=True)
class Operation:
    """One request. `kind` is the kind of blob it needs, or `container`."""

    kind: str
    method: str
    query: dict
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""

    def run(self, path, **headers):
        """Headers of conditions are given as keywords: If_Match for If-Match."""
        extra = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        return rig.call(self.method, path, self.query, self.headers | extra, self.body)


def _block(method, query, headers=None, body=b""):
    return Operation("BlockBlob", method, query, headers or {}, body)


def _page(query, headers, body=b"", method="PUT"):
    return Operation("PageBlob", method, query, headers, body)


WRITES = {
    "put blob": _block("PUT", {}, {"x-ms-blob-type": "BlockBlob"}, b"new"),
    "put block": _block("PUT", {"comp": "block", "blockid": BLOCK_ID}, {}, b"block"),
    "put block list": _block("PUT", {"comp": "blocklist"}, {}, BLOCK_LIST),
    "set metadata": _block("PUT", {"comp": "metadata"}, {"x-ms-meta-a": "b"}),
    "set properties": _block("PUT", {"comp": "properties"}, {"x-ms-blob-content-type": "a/b"}),
    "set tags": _block("PUT", {"comp": "tags"}, {"Content-Type": "application/xml"}, TAGS),
    "set tier": _block("PUT", {"comp": "tier"}, {"x-ms-access-tier": "Cool"}),
    "delete": _block("DELETE", {}),
    "create append blob": Operation("AppendBlob", "PUT", {}, {"x-ms-blob-type": "AppendBlob"}),
    "append block": Operation("AppendBlob", "PUT", {"comp": "appendblock"}, {}, b"more"),
    "create page blob": _page({}, {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}),
    "put page": _page({"comp": "page"}, {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}, b"p" * 512),
    "clear page": _page({"comp": "page"}, {"x-ms-page-write": "clear", "x-ms-range": "bytes=0-511"}),
    "resize": _page({"comp": "properties"}, {"x-ms-blob-content-length": "2048"}),
    "set sequence number": _page({"comp": "properties"}, {"x-ms-sequence-number-action": "increment"}),
}
READS = {
    "get": _block("GET", {}),
    "head": _block("HEAD", {}),
    "get metadata": _block("GET", {"comp": "metadata"}),
    "get block list": _block("GET", {"comp": "blocklist", "blocklisttype": "all"}),
    "get tags": _block("GET", {"comp": "tags"}),
    "get page ranges": _page({"comp": "pagelist"}, {}, method="GET"),
    # It reads the blob, although it makes something new.
    "snapshot": _block("PUT", {"comp": "snapshot"}),
}
LEASES = {
    "acquire": _block("PUT", {"comp": "lease"}, {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1",
                                                 "x-ms-proposed-lease-id": rig.A}),
    "renew": _block("PUT", {"comp": "lease"}, {"x-ms-lease-action": "renew", "x-ms-lease-id": rig.A}),
    "change": _block("PUT", {"comp": "lease"}, {"x-ms-lease-action": "change", "x-ms-lease-id": rig.A,
                                                "x-ms-proposed-lease-id": rig.A}),
    "break": _block("PUT", {"comp": "lease"}, {"x-ms-lease-action": "break", "x-ms-lease-break-period": "60"}),
    "release": _block("PUT", {"comp": "lease"}, {"x-ms-lease-action": "release", "x-ms-lease-id": rig.A}),
}


def _container(method, comp=None, headers=None):
    return Operation("container", method, {"restype": "container"} | ({"comp": comp} if comp else {}), headers or {})


CONTAINERS = {
    "get properties": _container("HEAD"),
    "get metadata": _container("GET", "metadata"),
    "get acl": _container("GET", "acl"),
    "list blobs": _container("GET", "list"),
    "set metadata": _container("PUT", "metadata", {"x-ms-meta-a": "b"}),
    "set acl": _container("PUT", "acl"),
    "acquire": _container("PUT", "lease", LEASES["acquire"].headers),
    "renew": _container("PUT", "lease", LEASES["renew"].headers),
    "change": _container("PUT", "lease", LEASES["change"].headers),
    "break": _container("PUT", "lease", LEASES["break"].headers),
    "release": _container("PUT", "lease", LEASES["release"].headers),
    "delete": _container("DELETE"),
}
