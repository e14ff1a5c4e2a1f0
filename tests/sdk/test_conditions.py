"""Conditional headers: which operation returns an ETag, which accepts which conditions, what unmet ones answer."""

import itertools

import pytest

import rig
from operations import CONTAINERS, LEASES, READS, WRITES, Operation
from rig import call, path_of

OTHER = '"0x1234567890ABCDE"'
OLD = "Sat, 01 Jan 2000 00:00:00 GMT"

# operation: does the answer hold the ETag, which conditions does it accept (m If-Match, n If-None-Match, s If-Modified-
# Since, u If-Unmodified-Since, t x-ms-if-tags); by the two tables of the article and the newer lists of the reference.
BLOB_TABLE = {
    "put blob": (True, "mnsut"), "put block": (False, ""), "put block list": (True, "mnsut"),
    "set metadata": (True, "mnsut"), "set properties": (True, "mnsut"), "set tags": (False, "t"),
    "set tier": (False, "t"), "delete": (False, "mnsut"), "create append blob": (True, "mnsut"),
    "append block": (True, "mnsut"), "create page blob": (True, "mnsut"), "put page": (True, "mnsut"),
    "clear page": (True, "mnsut"), "resize": (True, "mnsut"), "set sequence number": (True, "mnsut"),
    "get": (True, "mnsut"), "head": (True, "mnsut"), "get metadata": (True, "mnsut"), "get block list": (True, "t"),
    "get tags": (False, "t"), "get page ranges": (True, "mnsut"), "snapshot": (True, "mnsut"),
    "acquire": (True, "mnsut"), "renew": (True, "mnsut"), "change": (True, "mnsut"), "break": (True, "mnsut"),
    "release": (True, "mnsut"),
}
CONTAINER_TABLE = {
    "get properties": (True, ""), "get metadata": (True, ""), "get acl": (True, ""), "list blobs": (False, ""),
    "set metadata": (True, "s"), "set acl": (True, "su"), "acquire": (True, "su"), "renew": (True, "su"),
    "change": (True, "su"), "break": (True, "su"), "release": (True, "su"), "delete": (False, "su"),
}
BLOB = WRITES | READS | LEASES
HEADERS = {"m": "If_Match", "n": "If_None_Match", "s": "If_Modified_Since", "u": "If_Unmodified_Since", "t": "x_ms_if_tags"}


def value(letter, met, etag, modified):
    """A header that is met, or one that is not, for a thing with this ETag and date. Nothing here waits for a clock."""
    return {
        "m": etag if met else OTHER,
        "n": OTHER if met else etag,
        "s": OLD if met else modified,
        "u": modified if met else OLD,
        "t": "\"colour\" = 'red'" if met else "\"colour\" = 'blue'",
    }[letter]


def make(container, name):
    """A blob of the kind the operation needs, tagged colour=red, leased by A where the action needs that."""
    operation = BLOB[name]
    headers = {"x-ms-tags": "colour=red"}
    rig.put_blob(container.container_name, "b", kind=operation.kind, **headers)
    path = path_of(container.container_name, "b")
    if name in ("renew", "change", "break", "release"):
        rig.bring_to(path, "infinite")
    return operation, path


def unmet(operation, letter):
    """What an unmet condition answers."""
    is_read = operation.method in ("GET", "HEAD")
    return 304 if is_read and letter in "ns" else 412


CELLS = [(name, letter) for name, (_, letters) in BLOB_TABLE.items() for letter in letters]


@pytest.mark.parametrize(("name", "letter"), CELLS)
def test_blob_condition(container, name, letter):
    operation, path = make(container, name)
    before = call("HEAD", path)
    facts = before.etag, before.headers["Last-Modified"]
    answer = operation.run(path, **{HEADERS[letter]: value(letter, False, *facts)})
    assert answer.status == unmet(operation, letter), answer
    if answer.status == 412:
        assert answer.headers["x-ms-error-code"] == "ConditionNotMet"
    else:
        assert answer.body == b""
    untouched = call("HEAD", path)
    assert (untouched.etag, untouched.headers["x-ms-lease-state"]) == (before.etag, before.headers["x-ms-lease-state"])
    answer = operation.run(path, **{HEADERS[letter]: value(letter, True, *facts)})
    assert answer.status < 300, answer


@pytest.mark.parametrize("name", BLOB_TABLE)
def test_blob_etag_in_answer(container, name):
    operation, path = make(container, name)
    before = call("HEAD", path).etag
    answer = operation.run(path)
    assert answer.status < 300, answer
    if name == "delete":
        assert answer.etag is None
        return
    after = call("HEAD", path).etag
    if BLOB_TABLE[name][0]:
        assert answer.etag == after, "the ETag of the blob as it is now"
        assert answer.etag.startswith('"') and answer.etag.endswith('"')
        assert answer.headers["Last-Modified"]
    else:
        assert answer.etag is None
    changes = name in WRITES and name not in ("put block", "set tags", "set tier")
    if name != "set tier":
        assert (after != before) == changes


@pytest.mark.parametrize("name", [name for name, (_, letters) in BLOB_TABLE.items() if "m" not in letters])
def test_blob_operation_without_etag_conditions(container, name):
    """The condition must not decide: it is ignored, or refused as not supported."""
    if name in ("get tags", "set tags", "set tier"):
        pytest.skip("newer versions of the service may accept them")
    operation, path = make(container, name)
    answer = operation.run(path, If_Match=OTHER)
    assert answer.status < 300 or answer.verdict == "400 ConditionHeadersNotSupported", answer


# The article lets Set Metadata have conditions, the newer lists know If-Modified-Since only: the other one is left open.
CONTAINER_CELLS = [(name, letter) for name in CONTAINER_TABLE for letter in "su" if (name, letter) != ("set metadata", "u")]


@pytest.mark.parametrize(("name", "letter"), CONTAINER_CELLS)
def test_container_condition(container, name, letter):
    operation = CONTAINERS[name]
    path = path_of(container.container_name)
    if name in ("renew", "change", "break", "release"):
        rig.bring_to(path, "infinite", container=True)
    before = call("HEAD", path, {"restype": "container"})
    facts = before.etag, before.headers["Last-Modified"]
    answer = operation.run(path, **{HEADERS[letter]: value(letter, False, *facts)})
    if letter in CONTAINER_TABLE[name][1]:
        assert answer.verdict == "412 ConditionNotMet"
        assert call("HEAD", path, {"restype": "container"}).etag == before.etag
        assert operation.run(path, **{HEADERS[letter]: value(letter, True, *facts)}).status < 300
    else:
        assert answer.status < 300 or answer.verdict == "400 ConditionHeadersNotSupported", answer


@pytest.mark.parametrize("name", CONTAINER_TABLE)
def test_container_etag_in_answer(container, name):
    path = path_of(container.container_name)
    if name in ("renew", "change", "break", "release"):
        rig.bring_to(path, "infinite", container=True)
    before = call("HEAD", path, {"restype": "container"}).etag
    answer = CONTAINERS[name].run(path)
    assert answer.status < 300, answer
    if not CONTAINER_TABLE[name][0]:
        assert answer.etag is None
        return
    after = call("HEAD", path, {"restype": "container"}).etag
    assert answer.etag == after
    assert (after != before) == name.startswith("set")


def test_create_container_returns_an_etag():
    name = rig.unique()
    answer = call("PUT", path_of(name), {"restype": "container"})
    assert answer.status == 201 and answer.etag and answer.headers["Last-Modified"]
    assert call("DELETE", path_of(name), {"restype": "container"}).status == 202


# --- combinations ----------------------------------------------------------------------------------------------------


def combinations():
    """Each of the four headers absent, met or unmet: 81 requests."""
    return [dict(zip("mnsu", choice, strict=True)) for choice in itertools.product([None, True, False], repeat=4)]


def read_verdict(given):
    """Reads take any combination: If-Match and If-Unmodified-Since and (If-None-Match or If-Modified-Since)."""
    if given["m"] is False or given["u"] is False:
        return 412
    freshness = [given[letter] for letter in "ns" if given[letter] is not None]
    return 304 if freshness and not any(freshness) else 200


def write_verdict(given):
    """Writes take one header, or a pair of which the date is ignored."""
    letters = "".join(letter for letter in "mnsu" if given[letter] is not None)
    if letters not in ("", "m", "n", "s", "u", "ns", "mu"):
        return 400
    deciding = letters[:1]
    return 200 if not deciding or given[deciding] else 412


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_combinations_on_reads(container, method):
    rig.put_blob(container.container_name, "b")
    path = path_of(container.container_name, "b")
    before = call("HEAD", path)
    facts = before.etag, before.headers["Last-Modified"]
    wrong = []
    for given in combinations():
        headers = {HEADERS[letter]: value(letter, met, *facts) for letter, met in given.items() if met is not None}
        answer = Operation("BlockBlob", method, {}).run(path, **headers)
        if answer.status != read_verdict(given):
            wrong.append(f"{given}: {answer.status}, expected {read_verdict(given)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["set metadata", "put blob", "acquire"])
def test_combinations_on_writes(container, name):
    operation, path = make(container, name)
    wrong = []
    for given in combinations():
        before = call("HEAD", path)
        facts = before.etag, before.headers["Last-Modified"]
        headers = {HEADERS[letter]: value(letter, met, *facts) for letter, met in given.items() if met is not None}
        answer = operation.run(path, **headers)
        got = 200 if answer.status < 300 else answer.status
        if got != write_verdict(given):
            wrong.append(f"{given}: {answer.verdict}, expected {write_verdict(given)}")
        elif got == 400 and answer.code != "MultipleConditionHeadersNotSupported":
            wrong.append(f"{given}: {answer.code}")
    assert not wrong, "\n".join(wrong)


def test_etag_lists(container):
    rig.put_blob(container.container_name, "b")
    path = path_of(container.container_name, "b")
    etag = call("HEAD", path).etag
    get, put = READS["get"], WRITES["set metadata"]
    assert get.run(path, If_Match=f"{OTHER}, {etag}").status == 200
    assert get.run(path, If_None_Match=f"{OTHER}, {etag}").status == 304
    assert get.run(path, If_None_Match=f'{OTHER}, "0x1"').status == 200
    assert put.run(path, If_Match=f"{OTHER}, {etag}").verdict == "400 MultipleConditionHeadersNotSupported"


def test_bare_etag_is_understood(container):
    rig.put_blob(container.container_name, "b")
    path = path_of(container.container_name, "b")
    assert READS["get"].run(path, If_Match=call("HEAD", path).etag.strip('"')).status == 200


@pytest.mark.parametrize("name", ["get", "set metadata"])
def test_bad_date(container, name):
    operation, path = make(container, name)
    assert operation.run(path, If_Modified_Since="yesterday").verdict == "400 InvalidHeaderValue"


@pytest.mark.parametrize("expression", ["colour", "colour = ", "= 'x'", "\"colour\" = red"])
def test_bad_tag_condition(container, expression):
    operation, path = make(container, "get")
    assert operation.run(path, x_ms_if_tags=expression).status == 400


@pytest.mark.parametrize(("expression", "met"), [
    ("\"colour\" = 'red'", True), ("colour = 'red'", True), ("\"colour\" <> 'red'", False),
    ("\"colour\" >= 'r' AND \"colour\" < 's'", True), ("\"colour\" = 'blue' OR \"colour\" = 'red'", True),
    ("\"none\" = 'x'", False), ("\"colour\" > 'red'", False),
])
def test_tag_conditions(container, expression, met):
    operation, path = make(container, "get")
    answer = operation.run(path, x_ms_if_tags=expression)
    assert answer.verdict == ("200" if met else "412 ConditionNotMet")


# --- the star, and things that are not there -------------------------------------------------------------------------

CREATES = ["put blob", "put block list", "create append blob", "create page blob"]


@pytest.mark.parametrize("name", CREATES)
def test_if_none_match_star_creates_only(container, name):
    operation = WRITES[name]
    path = path_of(container.container_name, "new")
    assert operation.run(path, If_None_Match="*").status == 201
    etag = call("HEAD", path).etag
    assert operation.run(path, If_None_Match="*").verdict == "409 BlobAlreadyExists"
    assert call("HEAD", path).etag == etag


@pytest.mark.parametrize("name", CREATES)
def test_if_match_star_replaces_only(container, name):
    operation = WRITES[name]
    path = path_of(container.container_name, "new")
    assert operation.run(path, If_Match="*").verdict == "412 ConditionNotMet"
    assert call("HEAD", path).status == 404
    assert operation.run(path).status == 201
    assert operation.run(path, If_Match="*").status == 201


@pytest.mark.parametrize("name", ["set metadata", "set properties"])
def test_if_none_match_star_has_no_effect_on_changes(container, name):
    operation, path = make(container, name)
    assert operation.run(path, If_None_Match="*").status == 200


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("name", ["get", "head"])
def test_if_none_match_star_on_reads(container, name, exists):
    operation, path = make(container, name)
    if not exists:
        path += "-missing"
    answer = operation.run(path, If_None_Match="*")
    assert (answer.status, answer.headers["x-ms-error-code"]) == (400, "UnsatisfiableCondition")


@pytest.mark.parametrize("name", ["get", "head"])
@pytest.mark.parametrize("etag", [OTHER, "*"])
def test_if_match_on_a_missing_blob(container, name, etag):
    answer = READS[name].run(path_of(container.container_name, "missing"), If_Match=etag)
    assert (answer.status, answer.headers["x-ms-error-code"]) == (404, "BlobNotFound")


def test_create_only_over_uncommitted_blocks(container):
    path = path_of(container.container_name, "reserved")
    assert WRITES["put block"].run(path).status == 201
    assert WRITES["put blob"].run(path, If_None_Match="*").status == 201


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", "mnsu")
@pytest.mark.parametrize("side", ["source", "destination"])
@pytest.mark.parametrize("mode", ["async", "sync"])
def test_copy_condition(container, mode, side, letter):
    name = container.container_name
    rig.put_blob(name, "source", b"one")
    rig.put_blob(name, "copy", b"two")
    judged = call("HEAD", path_of(name, "source" if side == "source" else "copy"))
    facts = judged.etag, judged.headers["Last-Modified"]
    header = HEADERS[letter].replace("_", "-")
    if side == "source":
        header = f"x-ms-source-{header}".lower()

    def copy(met):
        headers = {"x-ms-copy-source": source_url(container, "source"), header: value(letter, met, *facts)}
        if mode == "sync":
            headers["x-ms-requires-sync"] = "true"
        return call("PUT", path_of(name, "copy"), None, headers)

    refusal = copy(False)
    assert refusal.status == 412, refusal
    if mode == "async":
        assert refusal.code == ("SourceConditionNotMet" if side == "source" else "TargetConditionNotMet")
    assert call("GET", path_of(name, "copy")).body == b"two"
    assert copy(True).status == 202
    assert call("GET", path_of(name, "copy")).body == b"one"


def source_url(container, name):
    """A URL that anybody may read for a while."""
    return rig.readable(container.container_name, name)


def test_copy_creates_only(container):
    name = container.container_name
    rig.put_blob(name, "source")
    headers = {"x-ms-copy-source": source_url(container, "source"), "If-None-Match": "*"}
    assert call("PUT", path_of(name, "copy"), None, headers).status == 202
    assert call("PUT", path_of(name, "copy"), None, headers).verdict == "409 BlobAlreadyExists"


# --- the SDK's words for it ------------------------------------------------------------------------------------------


def test_sdk_optimistic_update(container):
    from azure.core import MatchConditions
    blob = container.get_blob_client("b")
    first = blob.upload_blob(b"one")["etag"]
    second = blob.upload_blob(b"two", overwrite=True, etag=first, match_condition=MatchConditions.IfNotModified)["etag"]
    assert second != first
    rig.refused("412 ConditionNotMet", blob.upload_blob, b"three", overwrite=True, etag=first,
                match_condition=MatchConditions.IfNotModified)
    rig.refused("409 BlobAlreadyExists", blob.upload_blob, b"three")
    assert blob.download_blob().readall() == b"two"
    rig.refused("412 ConditionNotMet", blob.download_blob, etag=first, match_condition=MatchConditions.IfNotModified)
    rig.refused("412 ConditionNotMet", blob.delete_blob, etag=first, match_condition=MatchConditions.IfNotModified)
    rig.refused("412 ConditionNotMet", blob.set_blob_metadata, {"a": "b"}, if_tags_match_condition="\"x\" = 'y'")
    blob.delete_blob(etag=second, match_condition=MatchConditions.IfNotModified)
    assert not blob.exists()
