"""Fixtures: a container per test, blobs whose leases have run out, and the lists of known differences."""

import fnmatch
import time

import pytest

import differences
import rig

# A lease of the shortest length has run out after this, by any clock.
EXPIRY = 16


@pytest.fixture(scope="session")
def service():
    return rig.service()


@pytest.fixture
def container(service):
    """An SDK client of a fresh container, removed afterwards."""
    client = service.create_container(rig.unique())
    yield client
    rig.call("PUT", rig.path_of(client.container_name), {"restype": "container", "comp": "lease"},
             {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"})
    rig.call("DELETE", rig.path_of(client.container_name), {"restype": "container"})


class Expired:
    """Blobs and containers leased for 15 s when the run starts, so that tests of expired leases wait once, together."""

    COUNT = {"BlockBlob": 90, "AppendBlob": 6, "PageBlob": 12, "container": 24}

    def __init__(self):
        self.container = rig.unique("expired")
        made = rig.call("PUT", rig.path_of(self.container), {"restype": "container"})
        assert made.status == 201, made
        self.stock = {kind: [self.make(kind, number) for number in range(count)] for kind, count in self.COUNT.items()}
        self.ready = time.monotonic() + EXPIRY

    def make(self, kind, number):
        name = f"{kind}-{number}"
        if kind == "container":
            path = rig.path_of(rig.unique("expired"))
            assert rig.call("PUT", path, {"restype": "container"}).status == 201
        else:
            rig.put_blob(self.container, name, kind=kind)
            path = rig.path_of(self.container, name)
        taken = rig.lease(path, "acquire", container=kind == "container", proposed=rig.A, duration=15)
        assert taken.status == 201, taken
        return path

    def take(self, kind="BlockBlob"):
        """The path of one whose lease A has expired."""
        time.sleep(max(0, self.ready - time.monotonic()))
        path = self.stock[kind].pop()
        rig.wait_for(lambda: rig.state_of(path, container=kind == "container")[0] == "expired", "the lease expires")
        return path


@pytest.fixture(scope="session")
def expired():
    return Expired()


@pytest.fixture
def in_state(container, expired):
    """Makes a blob (or container) in a lease state: `in_state("broken")`, `in_state("leased", kind="PageBlob")`."""
    def make(state, kind="BlockBlob"):
        if state == "expired":
            return expired.take(kind)
        if kind == "container":
            path = rig.path_of(container.container_name)
        else:
            name = rig.unique("blob")
            rig.put_blob(container.container_name, name, kind=kind)
            path = rig.path_of(container.container_name, name)
        rig.bring_to(path, state, container=kind == "container")
        return path

    return make


def pytest_collection_modifyitems(items):
    # What needs an expired lease comes last: by then it has expired.
    items.sort(key=lambda item: "expired" in item.name)
    unused = apply_differences(items, differences.AZURITE if rig.SERVER == "azurite" else differences.LEASEFS)
    if unused:
        raise pytest.UsageError(f"differences.py names tests that do not exist: {sorted(unused)}")


def apply_differences(items, table):
    """Marks known differences as failures that must happen: one that is gone fails the run, so the list stays true."""
    known = [(pattern, reason, pattern not in differences.SOMETIMES)
             for reason, patterns in table.items() for pattern in patterns]
    # A run of single files leaves the others out.
    files = {item.path.name for item in items}
    unused = {pattern for pattern, _, _ in known if pattern.split("::")[0] in files}
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for pattern, reason, strict in known:
            if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")):
                unused.discard(pattern)
                item.add_marker(pytest.mark.xfail(reason=reason, strict=strict))
    return unused
