#!/usr/bin/env python3
"""kill -9 (or a power loss) under load: whatever `leasefs serve` answered with success is there afterwards.

Usage: kill.py LEASEFS DIRECTORY [--rounds N] [--power] [--seed N]

Writers run put, stage, commit, append, metadata, lease and delete requests, each on names of its own, and note what was
acknowledged. The server is killed at a random moment and started again; then every name must be as acknowledged, or as
the one request made it that was under way. `--power` (root only) keeps the store on a file system image and goes on with a
copy of that image taken at the kill: what the server had not synced is gone then, as after a power loss.
"""

import argparse
import base64
import copy
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

WRITERS = 6
NAMES = 5
IMAGE_MIB = 768


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`leasefs serve` on a folder; can be killed and started again."""

    def __init__(self, program, data, port):
        self.program, self.data, self.port, self.process = program, data, port, None

    def start(self):
        log = open(f"{os.path.dirname(self.data)}/serve.log", "ab")
        self.process = subprocess.Popen([self.program, "serve", "--data", self.data, "--blob-addr", f"127.0.0.1:{self.port}"],
                                        stdout=log, stderr=log)
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"FAILED: serve ended with {self.process.returncode}; see {log.name}")
                if time.monotonic() > end:
                    sys.exit("FAILED: serve does not answer after 60 s")
                time.sleep(0.02)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class State:
    """What a blob is, as far as a client can see."""

    def __init__(self):
        self.kind = None  # block, append, or None: there is none
        self.body, self.colour, self.leased = b"", None, False
        self.staged = {}

    def seen(self):
        return self.kind, self.body, self.colour, self.leased, tuple(sorted(self.staged.items()))


class Name:
    """One blob of one writer: its acknowledged state, and the state a request under way would make."""

    def __init__(self, container, name, writer):
        self.name, self.writer, self.number = name, writer, 0
        self.path = rig.path_of(container, name)
        self.acknowledged, self.pending = State(), None

    def request(self, call, change, method, query=None, headers=None, body=b"", *, ok=(200, 201, 202)):
        """Sends one request; `change` makes the next state of the current one."""
        following = copy.deepcopy(self.acknowledged)
        change(following)
        self.pending = following
        if self.acknowledged.leased and query != {"comp": "lease"}:
            headers = {"x-ms-lease-id": rig.A} | (headers or {})
        answer = call(method, self.path, query, headers, body)
        if answer.status not in ok:
            raise AssertionError(f"{method} {self.path} {query}: {answer}")
        self.acknowledged, self.pending = following, None

    def observe(self):
        """The state the server shows now."""
        found = State()
        answer = rig.call("GET", self.path)
        if answer.status == 200:
            found.kind = {"BlockBlob": "block", "AppendBlob": "append"}[answer.headers["x-ms-blob-type"]]
            found.body, found.colour = answer.body, answer.headers.get("x-ms-meta-colour")
            found.leased = answer.headers["x-ms-lease-state"] == "leased"
        elif answer.status != 404:
            raise AssertionError(f"GET {self.path}: {answer}")
        if found.kind != "append":
            blocks = rig.call("GET", self.path, {"comp": "blocklist", "blocklisttype": "uncommitted"})
            if blocks.status == 200:
                found.staged = {base64.b64decode(block.findtext("Name")): int(block.findtext("Size"))
                                for block in blocks.xml().iter("Block")}
        return found

    def verify(self):
        """Compares with what was acknowledged; the answer of a request under way was lost, so both are right."""
        found = self.observe()
        allowed = [self.acknowledged] + ([self.pending] if self.pending else [])
        if found.seen() not in [state.seen() for state in allowed]:
            wanted = "\n   or ".join(repr(state.seen())[:300] for state in allowed)
            raise AssertionError(f"{self.path}:\n found {found.seen()!r:.300}\nwanted {wanted}")
        self.acknowledged, self.pending = found, None
        return found.kind is not None


# --- what writers do -------------------------------------------------------------------------------------------------


def put(name, call, dice):
    body = f"{name.name} {name.number} ".encode() * dice.choice([1, 10, 4000])
    colour = f"c{name.number}"

    def change(state):
        state.kind, state.body, state.colour, state.staged = "block", body, colour, {}

    name.request(call, change, "PUT", None, {"x-ms-blob-type": "BlockBlob", "x-ms-meta-colour": colour}, body)


def stage(name, call, dice):
    block = f"{name.number:08}".encode()
    body = os.urandom(dice.choice([100, 70_000]))
    name.contents[block] = body

    def change(state):
        state.staged[block] = len(body)

    name.request(call, change, "PUT", {"comp": "block", "blockid": base64.b64encode(block).decode()}, {}, body)


def commit(name, call, dice):
    blocks = sorted(name.acknowledged.staged)
    body = b"".join(name.contents[block] for block in blocks)
    listed = "".join(f"<Uncommitted>{base64.b64encode(block).decode()}</Uncommitted>" for block in blocks)

    def change(state):
        state.kind, state.body, state.colour, state.staged = "block", body, None, {}

    name.request(call, change, "PUT", {"comp": "blocklist"}, {}, f"<BlockList>{listed}</BlockList>".encode())


def metadata(name, call, dice):
    colour = f"m{name.number}"

    def change(state):
        state.colour = colour

    name.request(call, change, "PUT", {"comp": "metadata"}, {"x-ms-meta-colour": colour})


def delete(name, call, dice):
    def change(state):
        state.__init__()

    name.request(call, change, "DELETE")


def acquire(name, call, dice):
    def change(state):
        state.leased = True

    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1", "x-ms-proposed-lease-id": rig.A}
    name.request(call, change, "PUT", {"comp": "lease"}, headers)


def release(name, call, dice):
    def change(state):
        state.leased = False

    name.request(call, change, "PUT", {"comp": "lease"}, {"x-ms-lease-action": "release", "x-ms-lease-id": rig.A})


def create_log(name, call, dice):
    def change(state):
        state.kind, state.body, state.colour, state.staged = "append", b"", None, {}

    name.request(call, change, "PUT", None, {"x-ms-blob-type": "AppendBlob"})


def append(name, call, dice):
    body = f"line {name.number}\n".encode()

    def change(state):
        state.body += body

    name.request(call, change, "PUT", {"comp": "appendblock"}, {}, body)


def choose(name, dice):
    """An action that fits the state the blob is in."""
    state = name.acknowledged
    if name.is_log:
        return create_log if state.kind is None else dice.choice([append] * 8 + [delete])
    fitting = [put, put, stage]
    if state.staged:
        fitting += [commit, commit]
    if state.kind:
        fitting += [metadata, release if state.leased else acquire]
        # What becomes of staged blocks when their blob goes is another question.
        fitting += [] if state.staged else [delete]
    return dice.choice(fitting)


class Writer(threading.Thread):
    """Works on its names until the server is gone."""

    def __init__(self, names, seed):
        super().__init__(daemon=True)
        self.names, self.dice, self.acknowledged, self.error = names, random.Random(seed), 0, None

    def run(self):
        try:
            while True:
                name = self.dice.choice(self.names)
                name.number += 1
                choose(name, self.dice)(name, rig.call, self.dice)
                self.acknowledged += 1
        except (OSError, http.client.HTTPException):
            pass  # Killed: what was under way is known to be uncertain.
        except BaseException as error:
            self.error = error


# --- power loss ------------------------------------------------------------------------------------------------------


class Image:
    """A file system in a file. Only what reached the file survives `swap`."""

    def __init__(self, base):
        self.base, self.number = base, 0
        self.mount = f"{base}/disk"
        os.makedirs(self.mount)
        with open(self.file(), "wb") as file:
            file.truncate(IMAGE_MIB << 20)
        run("mkfs.ext4", "-q", "-F", self.file())
        self.attach()

    def file(self):
        return f"{self.base}/image-{self.number}"

    def attach(self):
        # The file system must not write by itself while the copy is made.
        run("mount", "-o", "loop,commit=600", self.file(), self.mount)

    def swap(self):
        """Goes on with a copy of what the disk held at this moment."""
        old = self.file()
        self.number += 1
        run("cp", "--sparse=always", old, self.file())
        run("umount", self.mount)
        os.remove(old)
        self.attach()

    def detach(self):
        run("umount", self.mount)


def run(*command):
    subprocess.run(command, check=True, timeout=120)


# --- rounds ----------------------------------------------------------------------------------------------------------


def check(program, data):
    done = subprocess.run([program, "check", "--data", data], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"check: {done.stdout}{done.stderr}")


def one_round(server, names, image, seed):
    dice = random.Random(seed)
    writers = [Writer(names[number::WRITERS], f"{seed}-{number}") for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    time.sleep(dice.uniform(0.1, 1.2))
    server.kill()
    if image:
        image.swap()
    for writer in writers:
        writer.join(60)
        if writer.error:
            raise writer.error
    check(server.program, server.data)
    server.start()
    there = sum(name.verify() for name in names)
    return sum(writer.acknowledged for writer in writers), there


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--seed", default=str(time.time_ns()))
    options = parser.parse_args()

    base = f"{options.directory}/{'power' if options.power else 'kill'}"
    os.makedirs(base)
    image = Image(base) if options.power else None
    server = Server(options.program, f"{image.mount if image else base}/data", rig.PORT)
    server.start()
    try:
        assert rig.call("PUT", rig.path_of("load"), {"restype": "container"}).status == 201
        names = [Name("load", f"n{number}", number % WRITERS) for number in range(WRITERS * NAMES)]
        for number, name in enumerate(names):
            name.contents, name.is_log = {}, number % NAMES == 0
        total = 0
        for number in range(options.rounds):
            try:
                acknowledged, there = one_round(server, names, image, f"{options.seed}-{number}")
            except AssertionError as error:
                sys.exit(f"FAILED in round {number} of seed {options.seed}: {error}")
            total += acknowledged
            print(f"round {number}: {acknowledged} acknowledged, {there} blobs there", flush=True)
        if total < 5 * options.rounds:
            sys.exit(f"FAILED: only {total} requests were acknowledged; the run shows nothing")
        print(f"{options.rounds} {'power losses' if image else 'kills'}, {total} acknowledged requests, nothing lost")
    finally:
        server.kill()
        if image:
            image.detach()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    os.environ["BLOB_ADDRESS"] = f"127.0.0.1:{free_port()}"
    import rig
    main()
