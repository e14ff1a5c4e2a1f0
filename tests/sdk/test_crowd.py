"""A thousand clients at once on one blob: exactly one wins each round."""

import asyncio

import rig
from rig import call, path_of

CLIENTS = 1000 if rig.SERVER == "leasefs" else 100
ROUNDS = 4


def message(path, query, headers, body):
    """A signed request as bytes, made before the race starts."""
    sent = {"x-ms-date": rig.now(), "x-ms-version": rig.VERSION, "Content-Length": str(len(body))} | headers
    sent["Authorization"] = \
        f"SharedKey {rig.ACCOUNT}:{rig.signature(rig.string_to_sign('PUT', path, list(query.items()), sent))}"
    target = path + ("?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else "")
    lines = [f"PUT {target} HTTP/1.1", f"Host: {rig.HOST}:{rig.PORT}", *(f"{name}: {value}" for name, value in sent.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def read_answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = int(head.split()[1])
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])}
    if "chunked" in headers.get("transfer-encoding", ""):
        while int(await reader.readline(), 16):
            await reader.readuntil(b"\r\n")
        await reader.readline()
    else:
        await reader.readexactly(int(headers.get("content-length", 0)))
    return status, headers


async def connect():
    for attempt in range(20):
        try:
            return await asyncio.open_connection(rig.HOST, rig.PORT)
        except OSError:
            await asyncio.sleep(0.1 * (attempt + 1))
    raise AssertionError("cannot connect")


async def race(lines, messages):
    """Sends every request on its own connection at the same moment; returns the answers in order."""
    for (_, writer), data in zip(lines, messages, strict=True):
        writer.write(data)
    return await asyncio.wait_for(asyncio.gather(*(read_answer(reader) for reader, _ in lines)), rig.TIMEOUT)


async def rounds(play):
    lines = await asyncio.gather(*(connect() for _ in range(CLIENTS)))
    try:
        for number in range(ROUNDS):
            await play(lines, number)
    finally:
        for _, writer in lines:
            writer.close()


def only_winner(answers, won, lost):
    """The number of the one that won; all others must have lost, in the same way."""
    winners = [number for number, (status, _) in enumerate(answers) if status == won]
    assert len(winners) == 1, f"{len(winners)} winners"
    others = {(status, headers.get("x-ms-error-code")) for status, headers in answers if status != won}
    assert others == {lost}, others
    return winners[0]


def test_one_if_match_wins_each_round(container):
    path = path_of(container.container_name, "b")
    rig.put_blob(container.container_name, "b", b"start")

    async def play(lines, number):
        etag = call("HEAD", path).etag
        messages = [message(path, {}, {"x-ms-blob-type": "BlockBlob", "If-Match": etag}, f"{number}-{client}".encode())
                    for client in range(CLIENTS)]
        winner = only_winner(await race(lines, messages), 201, (412, "ConditionNotMet"))
        assert call("GET", path).body == f"{number}-{winner}".encode()

    asyncio.run(rounds(play))


def test_one_lease_wins_each_round(container):
    path = path_of(container.container_name, "b")
    rig.put_blob(container.container_name, "b", b"start")

    async def play(lines, number):
        messages = [message(path, {"comp": "lease"}, {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "60"}, b"")] * CLIENTS
        answers = await race(lines, messages)
        winner = only_winner(answers, 201, (409, "LeaseAlreadyPresent"))
        assert rig.lease(path, "release", id=answers[winner][1]["x-ms-lease-id"]).status == 200

    asyncio.run(rounds(play))


def test_one_create_wins_each_round(container):
    async def play(lines, number):
        path = path_of(container.container_name, f"new-{number}")
        messages = [message(path, {}, {"x-ms-blob-type": "BlockBlob", "If-None-Match": "*"}, f"{client}".encode())
                    for client in range(CLIENTS)]
        winner = only_winner(await race(lines, messages), 201, (409, "BlobAlreadyExists"))
        assert call("GET", path).body == f"{winner}".encode()

    asyncio.run(rounds(play))


def test_every_append_is_there_once(container):
    path = path_of(container.container_name, "log")
    rig.put_blob(container.container_name, "log", kind="AppendBlob")

    async def play(lines, number):
        messages = [message(path, {"comp": "appendblock"}, {}, f"{number:02}-{client:06}\n".encode())
                    for client in range(CLIENTS)]
        answers = await race(lines, messages)
        assert {status for status, _ in answers} == {201}
        assert len({headers["x-ms-blob-append-offset"] for _, headers in answers}) == CLIENTS

    asyncio.run(rounds(play))
    found = call("GET", path).body.decode().splitlines()
    assert sorted(found) == [f"{number:02}-{client:06}" for number in range(ROUNDS) for client in range(CLIENTS)]
