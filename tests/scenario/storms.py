#!/usr/bin/env python3
"""A gateway whose S3 service is behind a network that breaks everything it carries.

Through each kind of storm every request is answered in time, no byte is wrong, and a write that was
acknowledged is in the bucket afterwards."""

import random
import re
import socket
import struct
import threading
import time

import blocks
from harness import expect, main, wait_until

CLIENTS = 6
BATCH = 4
MEMORY = 64 << 20        # of bodies, as the gateway is told
RESIDENT = MEMORY + (192 << 20)
ANSWERED = 45            # seconds: its own 30 for the bucket, and some for a busy machine
SPACE = "storm"


def options(parser):
    parser.add_argument("--server", choices=("minio", "versitygw"), help="only this one")
    parser.add_argument("--seconds", type=float, default=6, help="of each kind of storm (default 6)")
    parser.add_argument("--stall", type=float, default=10, help="seconds that a stall takes (default 10)")


class Broken(Exception):
    """This connection ends here."""


class Weather:
    """A proxy that carries requests whole, one after the other, and does to them what `kind` says."""

    def __init__(self, run, upstream):
        self.run, self.upstream = run, int(upstream.rsplit(":", 1)[1])
        self.port = run.port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.kind, self.share, self.hits = "calm", 0.0, 0
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def set(self, kind, share=0.5):
        self.kind, self.share, self.hits = kind, share, 0
        if kind == "outage":  # also for who is connected already
            for sock in list(self.open):
                reset(sock)

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        rng = random.Random(self.run.rng.random())
        self.open.add(sock)
        upstream = None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.kind == "outage":
                raise Broken
            upstream = socket.create_connection(("127.0.0.1", self.upstream), timeout=60)
            while True:
                kind = self.kind
                request = message(sock, early=lambda: kind == "cut" and rng.random() < self.share)
                if kind != "calm" and rng.random() < self.share:
                    self.hits += 1
                    self.break_it(kind, sock, upstream, request)
                else:
                    upstream.sendall(request)
                    sock.sendall(message(upstream, head_only=request.startswith(b"HEAD ")))
        except (OSError, Broken):
            reset(sock)
        finally:
            self.open.discard(sock)
            if upstream is not None:
                upstream.close()

    def break_it(self, kind, sock, upstream, request):
        if kind in ("reset", "outage", "cut"):
            raise Broken
        if kind == "slow down":
            body = b"<Error><Code>SlowDown</Code><Message>storm</Message></Error>"
            sock.sendall(answer(b"503 Slow Down", body, request))
        elif kind == "empty errors":
            status = random.choice((b"500 Internal", b"503 Busy", b"412 Precondition Failed", b"409 Conflict"))
            sock.sendall(answer(status, b"", request))
        elif kind == "stalls":
            time.sleep(self.run.args.stall)
            raise Broken
        else:
            upstream.sendall(request)
            reply = message(upstream, head_only=request.startswith(b"HEAD "))
            head, body = split(reply)
            if kind == "half bodies":
                sock.sendall(head + body[:len(body) // 2])
            elif kind == "slow loris":
                for byte in reply[:60]:
                    sock.sendall(bytes([byte]))
                    time.sleep(self.run.args.stall / 60)
            elif kind == "too long":
                sock.sendall(lengthen(head, len(body) + 1000) + body)
            elif kind == "too short":
                sock.sendall(lengthen(head, len(body) // 2) + body[:len(body) // 2])
                return
            raise Broken  # "lost answers": done, and nobody hears of it


def reset(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    except OSError:
        pass


def split(text):
    at = text.index(b"\r\n\r\n") + 4
    return text[:at], text[at:]


def lengthen(head, size):
    return re.sub(rb"(?i)\r\ncontent-length: \d+", b"\r\nContent-Length: %d" % size, head)


def answer(status, body, request):
    if request.startswith(b"HEAD "):
        body = b""
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def message(sock, head_only=False, early=lambda: False):
    """One request or answer, whole, whichever way its length is told."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += receive(sock)
    head, _ = split(got)
    if early():
        raise Broken
    status = head.split(b" ", 2)[1] if head.startswith(b"HTTP/") else b""
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    if head_only or status in (b"204", b"304"):
        return head
    if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        while not got.endswith(b"0\r\n\r\n"):
            got += receive(sock)
        return got
    while length and len(got) < len(head) + int(length.group(1)):
        got += receive(sock)
    return got


def receive(sock):
    some = sock.recv(1 << 18)
    if not some:
        raise Broken
    return some


def body_of(key):
    rng = random.Random(key)
    return rng.randbytes(rng.choice((100, 20000, 150000)))


class Client(threading.Thread):
    """Puts blocks and reads those that were acknowledged, and remembers what it was told."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load, self.rng = load, random.Random(load.run.rng.random())
        self.client = load.run.client(load.gateway)
        self.client.timeout = ANSWERED * load.run.slow
        self.error = None

    def run(self):
        try:
            while not self.load.stopping.is_set():
                self.step()
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error
            self.load.stopping.set()

    def step(self):
        load, began = self.load, time.monotonic()
        reads = self.rng.sample(load.acked, min(BATCH, len(load.acked))) if self.rng.random() < 0.5 else []
        try:
            if reads:
                self.check(reads, self.client.batch_get(reads))
            else:
                keys = [blocks.key(self.rng.getrandbits(64), namespace=SPACE) for _ in range(BATCH)]
                load.tried.update(keys)
                done = self.client.batch_put([(key, body_of(key)) for key in keys])
                load.acked += [key for key, status in zip(keys, done) if status in ("OK", "EXISTS")]
                load.refused += sum(status not in ("OK", "EXISTS") for status in done)
        except RuntimeError:  # the whole batch was refused, in so many words
            load.refused += BATCH
            time.sleep(0.05)
        load.slowest = max(load.slowest, time.monotonic() - began)

    def check(self, keys, answers):
        for key, (status, _, body) in zip(keys, answers):
            self.load.reads[status] = self.load.reads.get(status, 0) + 1
            if status == "OK":
                expect(body == body_of(key), f"{key}: {len(body)} wrong bytes")


class Load:
    def __init__(self, run, gateway):
        self.run, self.gateway = run, gateway
        self.acked, self.tried, self.refused, self.reads, self.slowest = [], set(), 0, {}, 0.0
        self.stopping = threading.Event()
        self.clients = [Client(self, number) for number in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def stop(self):
        self.stopping.set()
        for client in self.clients:
            client.join(ANSWERED * 2 * self.run.slow)
            expect(not client.is_alive(), "a request is not answered at all")
            if client.error is not None:
                raise client.error


def resident(process):
    with open(f"/proc/{process.child.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) << 10


def healthy(gateway):
    return gateway.is_ready()


KINDS = (("reset", 0.5), ("cut", 0.5), ("lost answers", 0.4), ("half bodies", 0.5), ("slow down", 0.8),
         ("empty errors", 0.5), ("too long", 0.4), ("too short", 0.4), ("stalls", 0.1), ("slow loris", 0.1))


def storm(run, server):
    name = server.name
    direct = run.client(server)
    direct.create_bucket()
    weather = Weather(run, server.url)
    gateway = run.gateway(run.world, f"{name}-gw", weather, hot_capacity=0, memory_max=MEMORY).start(seconds=60)
    acked, tried = [], set()
    for kind, share in KINDS:
        with run.case(f"{name}: {kind}: answered in time, and no byte is wrong"):
            wait_until(lambda: healthy(gateway), 40 * run.slow, "it has come back from the last storm")
            load = Load(run, gateway)
            time.sleep(0.3)
            weather.set(kind, share)
            load.stopping.wait(run.args.seconds)
            wait_until(lambda: None if weather.hits or load.stopping.is_set() else "calm", 30, "the storm hits")
            hits = weather.hits
            weather.set("calm")
            load.stop()
            acked += load.acked
            tried |= load.tried
            run.note(f"{name}: {kind}: {hits} hits, {len(load.acked)} acknowledged, {load.refused} refused, "
                     f"read {load.reads}, slowest {load.slowest:.1f} s")
            expect(gateway.alive(), "it is gone")
            expect(hits > 0 and load.acked, "nothing was tried")
            expect(load.slowest < ANSWERED * run.slow, f"an answer took {load.slowest:.0f} s")
    with run.case(f"{name}: without its bucket it refuses at once, and comes back by itself"):
        wait_until(lambda: healthy(gateway), 40 * run.slow, "it has come back from the last storm")
        weather.set("outage", 1.0)
        client = run.client(gateway)
        wait_until(lambda: "still ready" if healthy(gateway) is None else None, 30 * run.slow, "it has noticed")
        for _ in range(20):
            key = blocks.key(run.rng.getrandbits(64), namespace=SPACE)
            began = time.monotonic()
            try:
                status = client.batch_put([(key, body_of(key))])[0]
            except RuntimeError:
                status = "refused"
            expect(status not in ("OK", "EXISTS"), "acknowledged without a bucket")
            expect(time.monotonic() - began < 3 * run.slow, f"refused after {time.monotonic() - began:.1f} s")
        weather.set("calm")
        wait_until(lambda: healthy(gateway), 30 * run.slow, "it has come back")
    with run.case(f"{name}: what was acknowledged is in the bucket, and what is there is right"):
        there = {key for key, _ in direct.list(f"{SPACE}/")}
        lost = [key for key in acked if key not in there]
        expect(not lost, f"{len(lost)} of {len(acked)} are lost, such as {lost[:3]}")
        for key in there & tried:
            found = direct.get(key).body
            expect(found == body_of(key), f"{key}: {len(found)} bytes in the bucket, of {len(body_of(key))}")
    with run.case(f"{name}: through the gateway, too, once it is calm"):
        client = run.client(gateway)

        def missing():
            bad = []
            for at in range(0, len(acked), 50):
                keys = acked[at:at + 50]
                for key, (status, _, body) in zip(keys, client.batch_get(keys)):
                    expect(status != "OK" or body == body_of(key), f"{key}: wrong bytes")
                    if status != "OK":
                        bad.append((key, status))
            return f"{len(bad)} of {len(acked)}, such as {bad[:3]}" if bad else None

        wait_until(missing, 30 * run.slow, "all is read", every=1)
    with run.case(f"{name}: memory stayed bounded"):
        if run.sanitized:
            run.note("not measured: a sanitizer keeps what was freed")
        else:
            expect(resident(gateway) < RESIDENT, f"{resident(gateway) >> 20} MiB")
            run.note(f"{name}: {resident(gateway) >> 20} MiB at most")
    gateway.stop()
    server.kill()


def scenario(run):
    run.world = run.nats().start()
    for name in ("minio", "versitygw"):
        if run.args.server in (None, name):
            storm(run, getattr(run, name)().start(seconds=60))


if __name__ == "__main__":
    main(scenario, options)
