"""Every lease action in every lease state, for blobs and for containers; then the rules about ids, times and ETags."""

import uuid

import pytest

import rig
from rig import A, B, C, call, lease, path_of, state_of

STATES = ["available", "leased", "infinite", "breaking", "broken", "expired"]

PRESENT = "409 LeaseAlreadyPresent"
MISMATCH = "409 LeaseIdMismatchWithLeaseOperation"
ABSENT = "409 LeaseNotPresentWithLeaseOperation"
NO_RENEW = "409 LeaseIsBrokenAndCannotBeRenewed"
NO_CHANGE = "409 LeaseIsBreakingAndCannotBeChanged"
NO_ACQUIRE = "409 LeaseIsBreakingAndCannotBeAcquired"

# action: request, then one verdict per state in the order of STATES, `answer → state afterwards` where it changes.
ACTIONS = {
    "acquire": (("acquire", {"duration": 30}),
                ["201 leased", PRESENT, PRESENT, PRESENT, "201 leased", "201 leased"]),
    "acquire A": (("acquire", {"duration": 30, "proposed": A}),
                  ["201 leased", "201 leased", "201 leased", NO_ACQUIRE, "201 leased", "201 leased"]),
    "acquire B": (("acquire", {"duration": 30, "proposed": B}),
                  ["201 leased", PRESENT, PRESENT, PRESENT, "201 leased", "201 leased"]),
    "renew A": (("renew", {"id": A}), [MISMATCH, "200 leased", "200 leased", NO_RENEW, NO_RENEW, "200 leased"]),
    "renew B": (("renew", {"id": B}), [MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH]),
    "change A to B": (("change", {"id": A, "proposed": B}),
                      [ABSENT, "200 leased", "200 leased", NO_CHANGE, ABSENT, ABSENT]),
    "change B to A": (("change", {"id": B, "proposed": A}),
                      [ABSENT, "200 leased", "200 leased", MISMATCH, ABSENT, ABSENT]),
    "change B to C": (("change", {"id": B, "proposed": C}), [ABSENT, MISMATCH, MISMATCH, MISMATCH, ABSENT, ABSENT]),
    "release A": (("release", {"id": A}),
                  [MISMATCH, "200 available", "200 available", "200 available", "200 available", "200 available"]),
    "release B": (("release", {"id": B}), [MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH]),
    "break 0": (("break", {"period": 0}),
                [ABSENT, "202 broken", "202 broken", "202 broken", "202 broken", "202 broken"]),
    "break 20": (("break", {"period": 20}),
                 [ABSENT, "202 breaking", "202 breaking", "202 breaking", "202 broken", "202 broken"]),
    "break": (("break", {}), [ABSENT, "202 breaking", "202 broken", "202 breaking", "202 broken", "202 broken"]),
}
CELLS = [pytest.param(kind, request, state, verdict, id=f"{kind}-{name}-{state}")
         for kind in ("blob", "container")
         for name, (request, verdicts) in ACTIONS.items()
         for state, verdict in zip(STATES, verdicts, strict=True)]


@pytest.mark.parametrize(("kind", "request_", "state", "expected"), CELLS)
def test_action(in_state, kind, request_, state, expected):
    is_container = kind == "container"
    path = in_state(state, "container" if is_container else "BlockBlob")
    query = {"restype": "container"} if is_container else None
    before = call("HEAD", path, query)
    action, values = request_
    answer = lease(path, action, container=is_container, **values)
    after = call("HEAD", path, query)
    status, _, next_state = expected.partition(" ")
    if status.startswith("2"):
        assert answer.status == int(status), answer
        assert after.headers["x-ms-lease-state"] == next_state
        assert answer.etag == before.etag, "the answer tells the ETag"
    else:
        assert answer.verdict == expected
        assert after.headers["x-ms-lease-state"] == before.headers["x-ms-lease-state"]
    assert (after.etag, after.headers["Last-Modified"]) == (before.etag, before.headers["Last-Modified"])
    locked = after.headers["x-ms-lease-state"] in ("leased", "breaking")
    assert after.headers["x-ms-lease-status"] == ("locked" if locked else "unlocked")
    assert ("x-ms-lease-duration" in after.headers) == (after.headers["x-ms-lease-state"] == "leased")


# --- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration", [None, "0", "14", "61", "-2", "x", "15.5"])
def test_bad_duration(in_state, duration):
    path = in_state("available")
    answer = lease(path, "acquire", **({} if duration is None else {"duration": duration}))
    assert answer.verdict == ("400 MissingRequiredHeader" if duration is None else "400 InvalidHeaderValue")
    assert state_of(path) == ("available", "unlocked")


@pytest.mark.parametrize("duration", [15, 60, -1])
def test_good_duration(in_state, duration):
    path = in_state("available")
    answer = lease(path, "acquire", duration=duration)
    assert answer.status == 201
    uuid.UUID(answer.headers["x-ms-lease-id"])
    assert call("HEAD", path).headers["x-ms-lease-duration"] == ("infinite" if duration == -1 else "fixed")


@pytest.mark.parametrize("state", ["leased", "infinite"])
@pytest.mark.parametrize("period", ["61", "-1", "x"])
def test_bad_break_period(in_state, state, period):
    path = in_state(state)
    assert lease(path, "break", period=period).verdict == "400 InvalidHeaderValue"
    assert state_of(path)[0] == "leased"


def test_break_tells_seconds_left(in_state):
    path = in_state("leased")
    left = int(lease(path, "break", period=40).headers["x-ms-lease-time"])
    assert 0 < left <= 40
    longer = int(lease(path, "break", period=60).headers["x-ms-lease-time"])
    assert longer <= left, "a second break may only shorten"
    shorter = int(lease(path, "break", period=10).headers["x-ms-lease-time"])
    assert shorter <= 10
    assert lease(path, "break", period=0).headers["x-ms-lease-time"] == "0"
    assert state_of(path) == ("broken", "unlocked")


def test_break_is_no_longer_than_the_lease(in_state):
    path = in_state("available")
    lease(path, "acquire", duration=15)
    assert int(lease(path, "break", period=60).headers["x-ms-lease-time"]) <= 15


def test_acquire_again_changes_the_duration(in_state):
    path = in_state("leased")
    assert lease(path, "acquire", proposed=A, duration=-1).status == 201
    assert call("HEAD", path).headers["x-ms-lease-duration"] == "infinite"
    assert lease(path, "acquire", proposed=A, duration=15).status == 201
    assert call("HEAD", path).headers["x-ms-lease-duration"] == "fixed"


# --- ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["nonsense", "123", "{11111111-aaaa-4aaa-8aaa}"])
def test_proposed_id_must_be_a_guid(in_state, bad):
    path = in_state("available")
    assert lease(path, "acquire", duration=30, proposed=bad).verdict == "400 InvalidHeaderValue"
    assert state_of(path)[0] == "available"


@pytest.mark.parametrize("form", [A.replace("-", ""), f"{{{A}}}", f"({A})"])
def test_proposed_id_in_any_guid_form(in_state, form):
    path = in_state("available")
    assert lease(path, "acquire", duration=30, proposed=form).status == 201
    assert lease(path, "renew", id=A).status == 200


def test_ids_ignore_case(in_state):
    path = in_state("leased")
    assert lease(path, "renew", id=A.upper()).status == 200
    assert call("PUT", path, {"comp": "metadata"}, {"x-ms-lease-id": A.upper()}).status == 200
    assert lease(path, "change", id=A.upper(), proposed=B.upper()).status == 200
    assert lease(path, "release", id=B).status == 200


@pytest.mark.parametrize(("action", "values"), [("renew", {}), ("release", {}), ("change", {"proposed": B}),
                                                ("change", {"id": A})])
def test_missing_id(in_state, action, values):
    path = in_state("leased")
    assert lease(path, action, **values).verdict == "400 MissingRequiredHeader"


def test_unknown_action(in_state):
    assert lease(in_state("available"), "steal").verdict == "400 InvalidHeaderValue"


def test_acquire_is_repeatable_with_an_own_id(in_state):
    path = in_state("available")
    for _ in range(3):
        answer = lease(path, "acquire", duration=30, proposed=B)
        assert (answer.status, answer.headers["x-ms-lease-id"]) == (201, B)


# --- what can be leased ----------------------------------------------------------------------------------------------


def test_missing_things_cannot_be_leased(container):
    name = container.container_name
    assert lease(path_of(name, "nothing"), "acquire", duration=30).verdict == "404 BlobNotFound"
    missing = rig.unique()
    assert lease(path_of(missing, "blob"), "acquire", duration=30).verdict == "404 ContainerNotFound"
    assert lease(path_of(missing), "acquire", container=True, duration=30).verdict == "404 ContainerNotFound"


def test_snapshot_cannot_be_leased(in_state):
    path = in_state("available")
    snapshot = call("PUT", path, {"comp": "snapshot"}).headers["x-ms-snapshot"]
    answer = call("PUT", path, {"comp": "lease", "snapshot": snapshot},
                  {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "30"})
    assert answer.status == 400, answer


def test_uncommitted_blob_can_be_leased(container):
    path = path_of(container.container_name, "reserved")
    assert call("PUT", path, {"comp": "block", "blockid": "YQ=="}, body=b"x").status == 201
    assert lease(path, "acquire", duration=30, proposed=A).status == 201
    body = b"<BlockList><Latest>YQ==</Latest></BlockList>"
    assert call("PUT", path, {"comp": "blocklist"}, body=body).verdict == "412 LeaseIdMissing"
    assert call("PUT", path, {"comp": "blocklist"}, {"x-ms-lease-id": A}, body).status == 201


# --- what an expired or broken lease remembers ----------------------------------------------------------------------


WRITES = {
    "put blob": (None, {"x-ms-blob-type": "BlockBlob"}),
    "metadata": ({"comp": "metadata"}, {"x-ms-meta-a": "b"}),
    "put block": ({"comp": "block", "blockid": "YQ=="}, {}),
}


@pytest.mark.parametrize("write", WRITES)
def test_renew_of_an_expired_lease_proves_that_nobody_wrote(in_state, write):
    path = in_state("expired")
    query, headers = WRITES[write]
    assert call("PUT", path, query, headers, b"x" if write != "metadata" else b"").status in (200, 201)
    assert lease(path, "renew", id=A).verdict == MISMATCH


def test_foreign_write_after_expired_or_broken_makes_it_available(in_state):
    for state in ("broken", "expired"):
        path = in_state(state)
        assert call("PUT", path, {"comp": "metadata"}, {"x-ms-meta-a": "b"}).status == 200
        assert state_of(path) == ("available", "unlocked")


def test_expired_container_lease_survives_a_change(in_state):
    path = in_state("expired", "container")
    assert call("PUT", path, {"restype": "container", "comp": "metadata"}, {"x-ms-meta-a": "b"}).status == 200
    assert lease(path, "renew", container=True, id=A).status == 200


def test_replacing_a_leased_blob_keeps_the_lease(in_state):
    path = in_state("infinite")
    answer = call("PUT", path, None, {"x-ms-blob-type": "BlockBlob", "x-ms-lease-id": A}, b"new")
    assert answer.status == 201
    assert state_of(path) == ("leased", "locked")
    assert lease(path, "renew", id=A).status == 200


def test_sdk_lease_client(container):
    blob = container.get_blob_client("b")
    blob.upload_blob(b"x")
    held = blob.acquire_lease(lease_duration=15)
    assert blob.get_blob_properties().lease.state == "leased"
    held.renew()
    held.change(B)
    assert held.id == B
    blob.set_blob_metadata({"a": "1"}, lease=held)
    rig.refused("412 LeaseIdMissing", blob.delete_blob)
    held.release()
    held = container.acquire_lease(-1)
    rig.refused("412 LeaseIdMissing", container.delete_container)
    assert held.break_lease(0) == 0
    assert container.get_container_properties().lease.state == "broken"
