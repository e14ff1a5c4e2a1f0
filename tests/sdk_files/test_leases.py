"""Leases on files: infinite only, three states; which operation needs the id. Tables of the reference, §7.3."""

import pytest
from azure.storage.fileshare import ShareLeaseClient

import rig

MISSING, MISMATCH, NONE = "412 LeaseIdMissing", "412 LeaseIdMismatchWithFileOperation", "412 LeaseNotPresentWithFileOperation"


def bring_to(share, state):
    """A file whose lease A is in this state."""
    assert rig.make(share, "a", 10).status == 201
    if state == "available":
        return
    assert rig.lease(share, "a", "acquire", proposed=rig.A, duration=-1).status == 201
    if state == "broken":
        assert rig.lease(share, "a", "break").status == 202


def test_the_sdk_drives_a_lease(share):
    file = share.get_file_client("a")
    file.create_file(10)
    lease = file.acquire_lease(lease_id=rig.A)
    assert file.get_file_properties().lease.state == "leased" and file.get_file_properties().lease.duration == "infinite"
    rig.refused(MISSING, file.upload_range, b"x", 0, 1)
    file.upload_range(b"x", 0, 1, lease=lease)
    lease.change(proposed_lease_id=rig.B)
    rig.refused(MISMATCH, file.upload_range, b"x", 0, 1, lease=rig.A)
    assert ShareLeaseClient(file, rig.B).break_lease() == 0
    assert file.get_file_properties().lease.state == "broken"
    file.upload_range(b"x", 0, 1)
    lease = file.acquire_lease(lease_id=rig.C)
    lease.release()
    assert file.get_file_properties().lease.state == "available"


ACTIONS = {
    # action: (values, answers in the states available, leased by A, broken)
    "acquire without id": (("acquire", {"duration": -1}), ("201", "409 LeaseAlreadyPresent", "201")),
    "acquire A": (("acquire", {"proposed": rig.A, "duration": -1}), ("201", "201", "201")),
    "acquire B": (("acquire", {"proposed": rig.B, "duration": -1}), ("201", "409 LeaseAlreadyPresent", "201")),
    "break": (("break", {}), ("409 LeaseNotPresentWithLeaseOperation", "202", "202")),
    "change A to B": (("change", {"id": rig.A, "proposed": rig.B}), ("409 LeaseNotPresentWithLeaseOperation", "200", "409")),
    "change B to A": (("change", {"id": rig.B, "proposed": rig.A}), ("409 LeaseNotPresentWithLeaseOperation", "200", "409")),
    "change B to C": (("change", {"id": rig.B, "proposed": rig.C}),
                      ("409 LeaseNotPresentWithLeaseOperation", "409 LeaseIdMismatchWithLeaseOperation", "409")),
    "release A": (("release", {"id": rig.A}), ("409", "200", "200")),
    "release B": (("release", {"id": rig.B}), ("409", "409 LeaseIdMismatchWithLeaseOperation", "409")),
}


@pytest.mark.parametrize("state", ["available", "leased", "broken"])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_in_every_state(share, action, state):
    (verb, values), answers = ACTIONS[action]
    bring_to(share.share_name, state)
    before = rig.call("HEAD", rig.path_of(share.share_name, "a"))
    expected = answers[("available", "leased", "broken").index(state)]
    answer = rig.lease(share.share_name, "a", verb, **values)
    assert answer.verdict == expected or answer.verdict.startswith(f"{expected} "), answer
    assert rig.call("HEAD", rig.path_of(share.share_name, "a")).etag == before.etag


@pytest.mark.parametrize("duration", ["15", "60", "0", "-2", "x"])
def test_only_infinite_leases(share, duration):
    rig.make(share.share_name, "a")
    answer = rig.lease(share.share_name, "a", "acquire", proposed=rig.A, duration=duration)
    assert answer.verdict == "400 InvalidHeaderValue", answer


def test_there_is_no_renew(share):
    bring_to(share.share_name, "leased")
    assert rig.lease(share.share_name, "a", "renew", id=rig.A).status == 400


def headers_for(operation, share):
    url = f"{rig.URL}/{share}"
    return {
        "create": ("PUT", "a", {}, {"x-ms-type": "file", "x-ms-content-length": 10}, b""),
        "metadata": ("PUT", "a", {"comp": "metadata"}, {"x-ms-meta-k": "v"}, b""),
        "properties": ("PUT", "a", {"comp": "properties"}, {"x-ms-content-type": "text/plain"}, b""),
        "put range": ("PUT", "a", {"comp": "range"}, {"x-ms-write": "update", "x-ms-range": "bytes=0-0"}, b"x"),
        "clear": ("PUT", "a", {"comp": "range"}, {"x-ms-write": "clear", "x-ms-range": "bytes=0-5"}, b""),
        "copy onto": ("PUT", "a", {}, {"x-ms-copy-source": f"{url}/source"}, b""),
        "delete": ("DELETE", "a", {}, {}, b""),
        "get": ("GET", "a", {}, {}, b""),
        "head": ("HEAD", "a", {}, {}, b""),
        "ranges": ("GET", "a", {"comp": "rangelist"}, {}, b""),
    }[operation]


WRITES = ["create", "metadata", "properties", "put range", "clear", "copy onto", "delete"]
READS = ["get", "head", "ranges"]


@pytest.mark.parametrize("state", ["available", "leased", "broken"])
@pytest.mark.parametrize("given", ["none", "right", "wrong"])
@pytest.mark.parametrize("operation", WRITES + READS)
def test_every_operation_in_every_state(share, operation, given, state):
    name = share.share_name
    bring_to(name, state)
    rig.make(name, "source", 10)
    method, path, query, headers, body = headers_for(operation, name)
    if given != "none":
        headers = headers | {"x-ms-lease-id": rig.A if given == "right" else rig.B}
    answer = rig.call(method, rig.path_of(name, path), query, headers, body)
    if given == "none":
        refused = operation in WRITES and state == "leased"
        code = "LeaseIdMissing"
    else:
        refused = state != "leased" or given == "wrong"
        code = "LeaseIdMismatchWithFileOperation" if state == "leased" else None
    if not refused:
        assert answer.status < 300, answer
    else:
        assert answer.status == 412 and (code is None or answer.code == code), answer


def test_a_lease_survives_create(share):
    bring_to(share.share_name, "leased")
    assert rig.make(share.share_name, "a", 5, **{"x-ms-lease-id": rig.A}).status == 201
    assert rig.put_range(share.share_name, "a", b"x").verdict == MISSING


def test_a_share_with_leased_files_can_be_deleted(service):
    share = service.create_share(rig.unique("s"))
    bring_to(share.share_name, "leased")
    share.delete_share()
