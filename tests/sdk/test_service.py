"""The account: properties, CORS, statistics, kinds of addresses, batches."""

import fcntl
import http.client

import pytest
from azure.storage.blob import BlobAnalyticsLogging, CorsRule, Metrics, RetentionPolicy

import rig
from rig import ACCOUNT, call, path_of


@pytest.fixture
def serial(tmp_path_factory):
    """Service properties are one for the whole server: tests that change them wait for each other, in all processes."""
    with open(tmp_path_factory.getbasetemp().parent / f"service-{rig.PORT}", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        rig.service().set_service_properties(cors=[])


def test_service_properties(service, serial):
    retention = RetentionPolicy(enabled=True, days=3)
    service.set_service_properties(
        analytics_logging=BlobAnalyticsLogging(read=True, write=True, delete=False, retention_policy=retention),
        hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=retention),
        minute_metrics=Metrics(enabled=False),
        target_version="2020-10-02")
    found = service.get_service_properties()
    assert (found["analytics_logging"].read, found["analytics_logging"].delete) == (True, False)
    assert found["hour_metrics"].enabled and found["hour_metrics"].retention_policy.days == 3
    assert not found["minute_metrics"].enabled
    assert found["target_version"] == "2020-10-02"
    service.set_service_properties(cors=[CorsRule(["https://a.test"], ["GET"])])
    found = service.get_service_properties()
    assert found["hour_metrics"].enabled, "what is not named stays"
    assert found["cors"][0].allowed_origins == ["https://a.test"] or found["cors"][0].allowed_origins == "https://a.test"


@pytest.mark.parametrize("body", [b"", b"<StorageServiceProperties>", b"nonsense"])
def test_bad_service_properties(serial, body):
    answer = call("PUT", path_of(), {"restype": "service", "comp": "properties"}, {}, body)
    assert answer.status == 400, answer


def test_account_information(service):
    information = service.get_account_information()
    assert information["sku_name"] and information["account_kind"]
    answer = call("HEAD", path_of(), {"restype": "account", "comp": "properties"})
    assert answer.status == 200 and answer.headers["x-ms-sku-name"]


def test_account_information_of_other_things(container):
    for path in (path_of(container.container_name), path_of(container.container_name, "b")):
        assert call("GET", path, {"restype": "account", "comp": "properties"}).status == 200


def test_statistics():
    answer = call("GET", f"/{ACCOUNT}-secondary/", {"restype": "service", "comp": "stats"})
    assert answer.status == 200, answer
    assert answer.xml().findtext("GeoReplication/Status") in ("live", "bootstrap", "unavailable")


# --- other addresses of the same account -----------------------------------------------------------------------------


def test_secondary_reads(container):
    container.upload_blob("b", b"x")
    path = path_of(container.container_name, "b").replace(ACCOUNT, f"{ACCOUNT}-secondary", 1)
    assert call("GET", path).body == b"x"


def test_secondary_does_not_write(container):
    path = path_of(container.container_name, "b").replace(ACCOUNT, f"{ACCOUNT}-secondary", 1)
    answer = call("PUT", path, None, {"x-ms-blob-type": "BlockBlob"}, b"x")
    assert answer.status in (400, 403, 405), answer
    assert call("HEAD", path_of(container.container_name, "b")).status == 404


def test_account_in_the_host_name(container):
    container.upload_blob("b", b"x")
    path = f"/{container.container_name}/b"
    headers = {"Host": f"{ACCOUNT}.blob.localhost:{rig.PORT}", "x-ms-date": rig.now(), "x-ms-version": rig.VERSION}
    text = rig.string_to_sign("GET", path, [], headers)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{rig.signature(text)}"
    assert rig.exchange("GET", path, headers).body == b"x"


# --- CORS ------------------------------------------------------------------------------------------------------------


def preflight(path, origin, method, headers=None):
    connection = http.client.HTTPConnection(rig.HOST, rig.PORT, timeout=rig.TIMEOUT)
    sent = {"Origin": origin, "Access-Control-Request-Method": method}
    if headers:
        sent["Access-Control-Request-Headers"] = headers
    connection.request("OPTIONS", path, headers=sent)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return rig.Answer(answer.status, answer.headers, body)


@pytest.fixture
def cors(service, serial):
    service.set_service_properties(cors=[
        CorsRule(["https://one.test", "https://two.test"], ["GET", "PUT"], allowed_headers=["x-ms-meta-*", "content-type"],
                 exposed_headers=["x-ms-meta-*"], max_age_in_seconds=77),
        CorsRule(["*"], ["HEAD"], max_age_in_seconds=5)])
    yield
    service.set_service_properties(cors=[])


def test_preflight(container, cors):
    path = path_of(container.container_name, "b")
    answer = preflight(path, "https://two.test", "PUT", "x-ms-meta-colour,content-type")
    assert answer.status == 200, answer
    assert answer.headers["Access-Control-Allow-Origin"] == "https://two.test"
    assert "PUT" in answer.headers["Access-Control-Allow-Methods"]
    assert answer.headers["Access-Control-Max-Age"] == "77"
    assert preflight(path, "https://anybody.test", "HEAD").headers["Access-Control-Allow-Origin"] in \
        ("*", "https://anybody.test")


@pytest.mark.parametrize(("origin", "method", "headers"), [
    ("https://three.test", "GET", None), ("https://one.test", "DELETE", None), ("https://one.test", "GET", "x-other"),
])
def test_refused_preflight(container, cors, origin, method, headers):
    answer = preflight(path_of(container.container_name, "b"), origin, method, headers)
    assert answer.verdict == "403 CorsPreflightFailure"


def test_cors_headers_of_answers(container, cors):
    rig.put_blob(container.container_name, "b", **{"x-ms-meta-colour": "red"})
    path = path_of(container.container_name, "b")
    answer = call("GET", path, None, {"Origin": "https://one.test"})
    assert answer.headers["Access-Control-Allow-Origin"] == "https://one.test"
    assert "x-ms-meta-colour" in answer.headers["Access-Control-Expose-Headers"]
    assert "origin" in answer.headers["Vary"].lower()
    answer = call("GET", path, None, {"Origin": "https://three.test"})
    assert answer.status == 200 and "Access-Control-Allow-Origin" not in answer.headers


def test_preflight_without_rules(container, serial):
    assert preflight(path_of(container.container_name, "b"), "https://one.test", "GET").verdict == "403 CorsPreflightFailure"


# --- batches ---------------------------------------------------------------------------------------------------------


def test_batch_delete(container):
    names = [f"b{number}" for number in range(20)]
    for name in names:
        container.upload_blob(name, b"x")
    answers = list(container.delete_blobs(*names[:10]))
    assert [answer.status_code for answer in answers] == [202] * 10
    assert [blob.name for blob in container.list_blobs()] == sorted(names[10:])


def test_batch_with_failures(container):
    container.upload_blob("there", b"x")
    leased = container.upload_blob("leased", b"x")
    leased.acquire_lease(-1)
    answers = list(container.delete_blobs("there", "missing", "leased", raise_on_any_failure=False))
    assert [answer.status_code for answer in answers] == [202, 404, 412]
    assert [blob.name for blob in container.list_blobs()] == ["leased"]


def test_batch_tiers(container):
    names = ["a", "b", "c"]
    for name in names:
        container.upload_blob(name, b"x")
    answers = list(container.set_standard_blob_tier_blobs("Cool", *names))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [blob.blob_tier for blob in container.list_blobs()] == ["Cool"] * 3


def test_batch_of_the_account(service, container):
    container.upload_blob("b", b"x")
    name = container.container_name
    body = ("--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n"
            f"{signed_part('DELETE', path_of(name, 'b'))}\r\n--batch_1--\r\n").encode()
    answer = call("POST", path_of(), {"comp": "batch"}, {"Content-Type": "multipart/mixed; boundary=batch_1"}, body)
    assert answer.status == 202, answer
    assert answer.headers["Content-Type"].startswith("multipart/mixed")
    assert b"HTTP/1.1 202" in answer.body and b"Content-ID: 0" in answer.body
    assert list(container.list_blobs()) == []


def signed_part(method, path, key=rig.KEY):
    headers = {"x-ms-date": rig.now(), "Content-Length": "0"}
    text = rig.string_to_sign(method, path, [], headers)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{rig.signature(text, key)}"
    return f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())


@pytest.mark.parametrize("body", [b"", b"--batch_1--\r\n", b"nonsense"])
def test_bad_batches(body):
    answer = call("POST", path_of(), {"comp": "batch"}, {"Content-Type": "multipart/mixed; boundary=batch_1"}, body)
    assert answer.status == 400, answer


def test_parts_of_a_batch_are_authorized_one_by_one(container):
    container.upload_blob("b", b"x")
    wrong = "A" * 84 + "AA=="
    part = signed_part("DELETE", path_of(container.container_name, "b"), wrong)
    body = f"--batch_1\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n{part}\r\n--batch_1--\r\n".encode()
    answer = call("POST", path_of(), {"comp": "batch"}, {"Content-Type": "multipart/mixed; boundary=batch_1"}, body)
    assert b"HTTP/1.1 403" in answer.body, answer
    assert [blob.name for blob in container.list_blobs()] == ["b"]
