"""The service itself: its settings, and the list of shares."""

import pytest
from azure.storage.fileshare import CorsRule, Metrics, RetentionPolicy

import rig


def test_settings_come_back(service):
    rule = CorsRule(["http://example.test"], ["GET", "PUT"], allowed_headers=["x-ms-*"], max_age_in_seconds=60)
    metrics = Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=5))
    service.set_service_properties(hour_metrics=metrics, cors=[rule])
    found = service.get_service_properties()
    assert found["hour_metrics"].enabled and found["hour_metrics"].retention_policy.days == 5
    assert [one.allowed_origins for one in found["cors"]] == ["http://example.test"]
    service.set_service_properties(hour_metrics=Metrics(enabled=False), cors=[])
    assert service.get_service_properties()["cors"] == []


def test_shares_are_listed_in_pages(service):
    stem = rig.unique("list")
    shares = [service.create_share(f"{stem}-{number}", metadata={"number": str(number)}) for number in range(5)]
    try:
        pages = list(service.list_shares(name_starts_with=stem, include_metadata=True, results_per_page=2).by_page())
        pages = [list(page) for page in pages]
        assert [len(page) for page in pages] == [2, 2, 1]
        found = [share for page in pages for share in page]
        assert rig.names(found) == [share.share_name for share in shares]
        assert [share["metadata"]["number"] for share in found] == ["0", "1", "2", "3", "4"]
        assert all(share["quota"] and share["etag"] and share["last_modified"] for share in found)
        assert "metadata" not in rig.call("GET", rig.path_of(""), {"comp": "list", "prefix": stem}).body.decode().lower()
    finally:
        for share in shares:
            share.delete_share()
    assert list(service.list_shares(name_starts_with=stem)) == []


@pytest.mark.parametrize("maximum, verdict", [("0", "400 OutOfRangeQueryParameterValue"), ("x", "400 InvalidQueryParameterValue")])
def test_pages_have_a_size(maximum, verdict):
    assert rig.call("GET", rig.path_of(""), {"comp": "list", "maxresults": maximum}).verdict == verdict


def test_snapshots_are_listed_with_their_shares(service, share):
    taken = share.create_snapshot()["snapshot"]
    found = list(service.list_shares(name_starts_with=share.share_name, include_snapshots=True))
    assert [one["snapshot"] for one in found] == [taken, None]
    assert [one["snapshot"] for one in service.list_shares(name_starts_with=share.share_name)] == [None]
