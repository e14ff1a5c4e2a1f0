"""Several accounts of one server, by the SDK: a server of its own with `--accounts`, because the others have one account."""

import base64
import datetime
import os
import subprocess

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobSasPermissions, BlobServiceClient, generate_blob_sas

import rig

pytestmark = pytest.mark.skipif(rig.SERVER != "leasefs", reason="the file with accounts is leasefs's own")


class Account:
    def __init__(self, name):
        self.name = name
        self.keys = [base64.b64encode(os.urandom(64)).decode() for _ in range(2)]
        self.address = None

    def client(self, key=0):
        return BlobServiceClient(f"http://{self.address}/{self.name}", credential={
            "account_name": self.name, "account_key": self.keys[key]})

    def sas(self, container, blob):
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return generate_blob_sas(self.name, container, blob, account_key=self.keys[0], expiry=soon,
                                 permission=BlobSasPermissions(read=True))


@pytest.fixture(scope="module")
def accounts(tmp_path_factory):
    """Two accounts, `alpha` and `beta`, each with the container `same` and a blob that says whose it is."""
    folder = tmp_path_factory.mktemp("accounts")
    both = Account("alpha"), Account("beta")
    file = folder / "accounts.txt"
    file.touch(mode=0o600)
    file.write_text("".join(f"{one.name} {' '.join(one.keys)}\n" for one in both))
    server = subprocess.Popen([os.environ["LEASEFS"], "serve", "--data", folder / "data", "--blob-addr", "127.0.0.1:0",
                               "--accounts", file], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split("http://")[1].split("/")[0]
        for one in both:
            one.address = address
            one.client().create_container("same").upload_blob("whose", one.name)
        yield both
    finally:
        server.terminate()
        assert server.wait(timeout=rig.TIMEOUT) == 0


def test_both_accounts_have_the_container_and_their_own_blob(accounts):
    for one in accounts:
        for key in range(2):
            client = one.client(key)
            assert [item.name for item in client.list_containers()] == ["same"]
            assert client.get_blob_client("same", "whose").download_blob().readall().decode() == one.name


def test_the_key_of_one_does_not_open_the_other(accounts):
    alpha, beta = accounts
    thief = BlobServiceClient(f"http://{beta.address}/beta", credential={
        "account_name": "beta", "account_key": alpha.keys[0]})
    with pytest.raises(HttpResponseError) as refused:
        thief.get_blob_client("same", "whose").download_blob()
    assert (refused.value.status_code, refused.value.error_code) == (403, "AuthenticationFailed")


def test_a_sas_of_one_is_refused_by_the_other(accounts):
    alpha, beta = accounts
    sas = alpha.sas("same", "whose")
    read = BlobServiceClient(f"http://{alpha.address}/alpha", credential=sas).get_blob_client("same", "whose")
    assert read.download_blob().readall() == b"alpha"
    with pytest.raises(HttpResponseError) as refused:
        BlobServiceClient(f"http://{beta.address}/beta", credential=sas).get_blob_client("same", "whose").download_blob()
    assert refused.value.status_code == 403


def test_a_copy_between_accounts_needs_a_sas(accounts):
    alpha, beta = accounts
    source = beta.client().get_blob_client("same", "whose").url
    target = alpha.client().get_blob_client("same", "copy")
    with pytest.raises(HttpResponseError) as refused:
        target.start_copy_from_url(source)
    assert refused.value.error_code == "CannotVerifyCopySource"
    target.start_copy_from_url(f"{source}?{beta.sas('same', 'whose')}")
    assert target.download_blob().readall() == b"beta"
