#!/usr/bin/env python3
"""What the remote benchmark needs to know of a blob service, asked with Azure's SDK past every mount.

azure_store.py URL COMMAND CONTAINER ...
  fill CONTAINER PREFIX FILES BYTES PER_DIRECTORY   small blobs, several at a time
  big CONTAINER NAME MIB                            one blob of random bytes
  long CONTAINER NAME MIB                           one blob of the same random bytes again and again, sent in pieces
  tree CONTAINER PREFIX FOLDER                      the files of a local folder, with their times as both systems keep them
  wait CONTAINER PREFIX FILES BYTES GO              when the file GO is there, until so many blobs with so many bytes together are
                                                    there (300 s); prints when that was, in microseconds
  version CONTAINER NAME                            prints the ETag
  changed CONTAINER NAME ETAG                       until it has another (300 s); prints when that was, in microseconds
  same CONTAINER NAME FILE                          fails unless the blob has the bytes of the file
"""

import concurrent.futures
import os
import pathlib
import sys
import time

from azure.storage.blob import BlobBlock, ContainerClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
PATIENCE = 300
PIECE = 16 * 2**20


def each(work, items):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in pool.map(work, items):
            pass


def fill(container, prefix, files, size, per_directory):
    files, size, per_directory = int(files), int(size), int(per_directory)
    body = os.urandom(size)
    name = lambda number: f"{prefix}/d{number // per_directory}/f{number}"
    each(lambda number: container.upload_blob(name(number), body, overwrite=True), range(files))


def big(container, name, mib):
    body = os.urandom(2**20) * int(mib)
    container.upload_blob(name, body, overwrite=True, max_concurrency=4)


def long(container, name, mib):
    piece, blob = os.urandom(PIECE), container.get_blob_client(name)
    blocks = [BlobBlock(f"{number:08}") for number in range(int(mib) * 2**20 // PIECE)]
    each(lambda block: blob.stage_block(block.id, piece), blocks)
    blob.commit_block_list(blocks)


def times(path):
    """The time of a file as metadata: AzCopy's key, which leasefs reads, and rclone's."""
    nanoseconds = path.stat().st_mtime_ns
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9))
    return {"modtime": str(nanoseconds), "mtime": f"{moment}.{nanoseconds % 10**9:09}Z"}


def tree(container, prefix, folder):
    paths = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    put = lambda path: container.upload_blob(f"{prefix}/{path.relative_to(folder)}", path.read_bytes(), overwrite=True,
                                             metadata=times(path))
    each(put, paths)


def wait(container, prefix, files, size, go):
    wanted, start = (int(files), int(size)), time.monotonic()
    while time.monotonic() - start < PATIENCE:
        if not os.path.exists(go):
            time.sleep(0.005)
            continue
        sizes = [blob.size for blob in container.list_blobs(name_starts_with=prefix) if not (blob.metadata or {}).get("hdi_isfolder")
                 and not blob.name.endswith("/")]
        if (len([size for size in sizes if size > 0]), sum(sizes)) == wanted:
            print(time.time_ns() // 1000)
            return
        time.sleep(0.02)
    sys.exit(f"{prefix}: not {wanted} after {PATIENCE} s")


def version(container, name):
    print(container.get_blob_client(name).get_blob_properties().etag)


def changed(container, name, etag):
    start, blob = time.monotonic(), container.get_blob_client(name)
    while blob.get_blob_properties().etag == etag:
        if time.monotonic() - start >= PATIENCE:
            sys.exit(f"{name}: not changed after {PATIENCE} s")
        time.sleep(0.005)
    print(time.time_ns() // 1000)


def same(container, name, file):
    if container.download_blob(name).readall() != pathlib.Path(file).read_bytes():
        sys.exit(f"{name} is not what {file} is")


def main():
    url, command, container, *words = sys.argv[1:]
    client = ContainerClient(url, container, credential={"account_name": "devstoreaccount1", "account_key": KEY})
    if not client.exists():
        client.create_container()
    commands = {"fill": fill, "big": big, "long": long, "tree": tree, "wait": wait, "version": version, "changed": changed, "same": same}
    commands[command](client, *words)


if __name__ == "__main__":
    main()
