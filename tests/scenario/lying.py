#!/usr/bin/env python3
"""A gateway whose bucket lies: no wrong byte is served, no PUT acknowledged that was not, it lives and stays small."""

import contextlib
import http.client
import socket
import threading
import time
import urllib.parse

import blocks
from harness import expect, main, wait_until

SIZE = 48 * 1024
BLOCKS = 40
CLIENTS = 4
GROWTH_MAX = 384 << 20
BROKEN = (OSError, http.client.HTTPException, RuntimeError, ValueError)


def options(parser):
    parser.add_argument("--seconds", type=float, default=8, help="how long it lies")


class Answer:
    """An answer of the store before it is passed on."""

    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        self.status, *self.headers = head.split(b"\r\n")

    def drop(self, name):
        self.headers = [line for line in self.headers if not line.lower().startswith(name + b":")]

    def length(self, size):
        self.drop(b"content-length")
        self.headers.append(b"Content-Length: %d" % size)

    def raw(self):
        return b"\r\n".join([self.status, *self.headers]) + b"\r\n\r\n" + self.body


def longer(answer, rng):
    answer.body += b"x" * rng.randrange(1, 100000)
    if rng.random() < 0.5:
        answer.length(len(answer.body))


def shorter(answer, rng):
    answer.body = answer.body[:rng.randrange(len(answer.body) + 1)]
    if rng.random() < 0.5:
        answer.length(len(answer.body))


def chunked(answer, rng):
    """Beyond its Content-Length, or without one."""
    more = answer.body + b"y" * rng.randrange(200000)
    answer.length(rng.randrange(1, 2000))
    if rng.random() < 0.3:
        answer.drop(b"content-length")
    answer.headers.append(b"Transfer-Encoding: chunked")
    answer.body = b"%x\r\n%s\r\n0\r\nETag: \"trailer\"\r\n\r\n" % (len(more), more)


def flipped(answer, rng):
    if answer.body:
        at = rng.randrange(len(answer.body))
        answer.body = answer.body[:at] + bytes([answer.body[at] ^ 0x20]) + answer.body[at + 1:]


def ranges(answer, rng):
    answer.drop(b"content-range")
    answer.status = b"HTTP/1.1 206 Partial Content"
    answer.headers.append(b"Content-Range: bytes %d-%d/%d" % tuple(rng.randrange(100000) for _ in range(3)))


def headers(answer, rng):
    answer.headers += [b"x-amz-meta-n%d: %s" % (n, b"v" * rng.randrange(200)) for n in range(rng.randrange(2000))]


def interim(answer, rng):
    answer.status = b"HTTP/1.1 100 Continue\r\nETag: \"early\"\r\n\r\n" * rng.randrange(1, 5000) + answer.status


def redirected(answer, _rng):
    answer.status = b"HTTP/1.1 307 Temporary Redirect"
    answer.headers.append(b"Location: http://127.0.0.1:1/elsewhere")


def statuses(answer, rng):
    answer.status = b"HTTP/1.1 %d Odd" % rng.choice((202, 204, 206, 299, 302, 400, 404, 412, 500, 503, 999))


def untagged(answer, _rng):
    answer.drop(b"etag")


def encoded(answer, rng):
    answer.headers.append(rng.choice((b"Content-Encoding: gzip", b"Transfer-Encoding: gzip")))


def repeated(answer, _rng):
    """A listing that never ends."""
    answer.body = answer.body.replace(b"<IsTruncated>false</IsTruncated>",
                                      b"<IsTruncated>true</IsTruncated>"
                                      b"<NextContinuationToken>again</NextContinuationToken>")
    answer.length(len(answer.body))


LIES = (longer, shorter, chunked, flipped, ranges, headers, interim, redirected, statuses, untagged, encoded, repeated)


class Door:
    """A way to the store that lies about a share of its answers, cuts others off and keeps some waiting."""

    def __init__(self, url, rng):
        parts = urllib.parse.urlsplit(url)
        self.server, self.rng = (parts.hostname, parts.port), rng
        self.share = self.told = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        with contextlib.suppress(OSError, ValueError), client, client.makefile("rb") as lines:
            head = b""
            while (line := lines.readline()) not in (b"\r\n", b""):
                head += line
            if line == b"":
                return
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                           if line.lower().startswith(b"content-length:")), 0)
            body = lines.read(length)
            lies = self.rng.random() < self.share
            # "Accepted", and nothing is stored.
            if lies and head.startswith(b"PUT") and self.rng.random() < 0.2:
                self.told += 1
                client.sendall(b"HTTP/1.1 202 Accepted\r\nETag: \"soon\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            client.sendall(self.lie(self.ask(head, body), head) if lies else self.ask(head, body))

    def ask(self, head, body):
        with socket.create_connection(self.server) as server:
            server.sendall(head + b"Connection: close\r\n\r\n" + body)
            with server.makefile("rb") as answer:
                return answer.read()

    def lie(self, raw, _head):
        self.told += 1
        answer = Answer(raw)
        self.rng.choice(LIES)(answer, self.rng)
        raw = answer.raw()
        if self.rng.random() < 0.15:
            time.sleep(self.rng.random())
            raw = raw[:self.rng.randrange(len(raw) + 1)]
        return raw


class Block:
    def __init__(self, rng):
        self.hash = rng.getrandbits(64)
        self.key = blocks.key(self.hash, namespace="lying/ns")
        self.body = (blocks.base58(self.hash).encode() * (SIZE // 8 + 1))[:SIZE]


class Readers:
    """Clients that read what is there and write more, whatever they are answered."""

    def __init__(self, run, gateway, stored):
        self.run, self.gateway, self.stored = run, gateway, stored
        self.lock = threading.Lock()
        self.wrong, self.read, self.refused, self.written = [], 0, 0, []
        self.over = False

    def work(self, seed):
        rng = type(self.run.rng)(seed)
        client = self.run.client(self.gateway)
        while not self.over:
            try:
                self.step(client, rng)
            except BROKEN:
                client.close()
        client.close()

    def step(self, client, rng):
        what = rng.random()
        if what < 0.2:
            block = Block(rng)
            if client.put(block.key, block.body).status == 200:
                with self.lock:
                    self.written.append(block)
        elif what < 0.3:
            client.list("lying/")
        elif what < 0.4:
            client.head(rng.choice(self.stored).key)
        else:
            self.read_one(client, rng.choice(self.stored), rng)

    def read_one(self, client, block, rng):
        if rng.random() < 0.3:
            status, _crc, body = client.batch_get([block.key])[0]
            served = status == "OK"
        else:
            answer = client.get(block.key)
            served, body = answer.status == 200, answer.body
        with self.lock:
            self.read += served
            self.refused += not served
            if served and body != block.body:
                self.wrong.append(block.key)


def peak(gateway):
    with open(f"/proc/{gateway.child.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def judge(run, nats, name, minio, door, **settings):
    gateway = run.gateway(nats, name, door, **settings).start()
    client = run.client(gateway)
    stored = [Block(run.rng) for _ in range(BLOCKS)]
    for block in stored:
        expect(client.put(block.key, block.body).status == 200, "cannot store")
    before = peak(gateway)
    readers = Readers(run, gateway, stored)
    threads = [threading.Thread(target=readers.work, args=(run.rng.getrandbits(32),)) for _ in range(CLIENTS)]
    with run.case(f"{name}: no wrong byte is served while the store lies"):
        door.share = 0.5
        for thread in threads:
            thread.start()
        time.sleep(run.args.seconds)
        door.share = 0
        readers.over = True
        for thread in threads:
            thread.join(60 * run.slow)
        expect(not any(thread.is_alive() for thread in threads), "a client waits for ever")
        expect(not readers.wrong, lambda: f"{len(readers.wrong)} answers, the first of {readers.wrong[0]}")
        expect(readers.read > 0 and door.told > 0, f"{readers.read} reads, {door.told} lies")
    run.note(f"{name}: {readers.read} reads served, {readers.refused} not, {len(readers.written)} PUTs, {door.told} lies")
    with run.case(f"{name}: it lives, and has not grown"):
        expect(gateway.child.poll() is None, f"it ended: {gateway.tail()}")
        grown = peak(gateway) - before
        expect(run.sanitized or grown < GROWTH_MAX, f"{grown >> 20} MiB more")
    with run.case(f"{name}: what was acknowledged is there, or known to be damaged"):
        client.close()
        bucket = run.client(minio)

        def missing():
            bad = {entry["key"] for entry in gateway.ask("/v1/quarantine?limit=2000")["entries"]}
            for block in stored + readers.written:
                answer = client.get(block.key)
                if answer.status == 200:
                    expect(answer.body == block.body, f"wrong bytes of {block.key}")
                elif block.key not in bad:
                    return f"{block.key}: {answer.status}, in the bucket {bucket.head(block.key).status}"
            return None

        wait_until(missing, 60 * run.slow, "acknowledged blocks")
    with run.case(f"{name}: it stops with exit 0"):
        client.close()
        expect(gateway.stop() == 0, gateway.tail())


def scenario(run):
    nats = run.nats().start()
    minio = run.minio().start()
    run.client(minio).create_bucket()
    judge(run, nats, "gwcold", minio, Door(minio.url, run.rng), hot_capacity=0, quarantine_max=2000)
    judge(run, nats, "gwhot", minio, Door(minio.url, run.rng), hot_capacity=1 << 20, quarantine_max=2000)


if __name__ == "__main__":
    main(scenario, options)
