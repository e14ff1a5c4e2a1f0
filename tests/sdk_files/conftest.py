"""Fixtures: a share per test, and the share that is mounted beside the service."""

import pathlib

import pytest

import rig


@pytest.fixture(scope="session")
def service():
    return rig.service()


@pytest.fixture
def share(service):
    """An SDK client of a fresh share, removed afterwards with its snapshots."""
    client = service.create_share(rig.unique("s"))
    yield client
    headers = {"x-ms-delete-snapshots": "include"}
    rig.call("DELETE", rig.path_of(client.share_name), {"restype": "share"}, headers)


@pytest.fixture
def mounted(service):
    """A fresh folder of the mounted share: an SDK directory client and the same folder as a path of this machine."""
    if rig.MOUNT is None:
        pytest.skip("nothing is mounted beside this service")
    folder = pathlib.Path(rig.MOUNT) / rig.unique("d")
    folder.mkdir()
    return service.get_share_client(rig.MOUNTED_SHARE).get_directory_client(folder.name), folder


def pytest_collection_modifyitems(items):
    if rig.MOUNT is None:
        items[:] = [item for item in items if "mounted" not in getattr(item, "fixturenames", ())]
