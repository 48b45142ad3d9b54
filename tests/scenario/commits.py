#!/usr/bin/env python3
"""Commit records (`.meta`) of a gateway that is killed between a block and its record, both ways.

At no instant the bucket has a record without all ranks; after the restart a block whose ranks are all
there has its record, and one whose removal began has neither."""

import http.client
import json
import re
import threading

import blocks
import storms
from harness import expect, main, wait_until

RANKS = 2
FINGERPRINT = 7


def options(parser):
    parser.add_argument("--server", choices=("minio", "versitygw"), help="only this one")
    parser.add_argument("--rounds", type=int, default=3, help="kills at each of the four places (default 3)")


class Gate(storms.Weather):
    """Carries all, and stops the gateway at a request for a record: before it is done, or after."""

    def __init__(self, run, upstream):
        super().__init__(run, upstream)
        self.reached, self.moment, self.method = threading.Event(), None, b""
        self.set("gate", 1.0)

    def shut(self, moment, method):
        self.reached.clear()
        self.method, self.moment = method, moment

    def leave_open(self):
        self.moment = None

    def break_it(self, kind, sock, upstream, request):
        wanted = self.moment is not None and re.match(rb"%s \S+\.meta[ ?]" % self.method, request) is not None
        if wanted and self.moment == "before":
            self.hold()
        upstream.sendall(request)
        reply = storms.message(upstream, head_only=request.startswith(b"HEAD "))
        if wanted:
            self.hold()
        sock.sendall(reply)

    def hold(self):
        """It is not answered; who asked is killed."""
        self.reached.set()
        raise storms.Broken


class Place:
    """A gateway behind a gate, and the bucket behind both."""

    def __init__(self, run, server):
        self.run, self.server = run, server
        self.bucket = run.client(server)
        self.bucket.create_bucket()
        self.gate = Gate(run, server.url)
        self.gateway = run.gateway(run.nats(f"{server.name}-nats").start(), f"{server.name}-gw", self.gate,
                                   commit_ranks=RANKS).start(seconds=60)

    def block(self):
        """Its keys, with their bodies, and the key of its record."""
        hash_, parent = self.run.rng.getrandbits(64), self.run.rng.getrandbits(64)
        items = [(blocks.key(hash_, 5, parent, rank=rank), self.run.rng.randbytes(3000 + rank)) for rank in range(RANKS)]
        return items, items[0][0].split("/")[1] + ".meta"

    def kill_at(self, moment, method, work):
        """Start `work` and kill the gateway when it reached the gate; then open that."""
        self.gate.shut(moment, method)

        def attempt():
            try:
                work()
            except (OSError, RuntimeError, http.client.HTTPException):
                pass  # it is killed meanwhile

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        expect(self.gate.reached.wait(30 * self.run.slow), "no record was asked for")
        self.gateway.kill()
        thread.join(30 * self.run.slow)
        self.gate.leave_open()

    def there(self):
        return {key for key, _size in self.bucket.list()}

    def check(self, items, record):
        """The record says what the ranks are."""
        text = json.loads(self.bucket.get(record).body)
        said = [(rank["length"], rank["crc32c"], int(rank["fingerprint"], 16)) for rank in text["ranks"]]
        is_ = [(len(body), f"{blocks.crc32c(body):08x}", FINGERPRINT) for _key, body in items]
        expect(said == is_ and text["version"] == 1, f"{text}, of {is_}")


def put(place, kind):
    items, record = place.block()
    client = place.run.client(place.gateway)
    for item in items[:-1]:
        expect(client.batch_put([item], FINGERPRINT) == ["OK"], "cannot store")
    expect(record not in place.there(), "a record of a block that is not whole")
    place.kill_at(kind, b"PUT", lambda: client.batch_put(items[-1:], FINGERPRINT))
    there = place.there()
    expect(there >= {key for key, _body in items}, "the ranks are not there")
    expect((record in there) == (kind == "after"), f"{kind} the record was written: {there}")
    place.gateway.start(seconds=60)
    wait_until(lambda: None if record in place.there() else "no record", 30 * place.run.slow, "the start mends it")
    place.check(items, record)
    return items, record


def remove(place, kind, items, record):
    client = place.run.client(place.gateway)
    place.kill_at(kind, b"DELETE", lambda: client.delete(items[0][0]))
    there = place.there()
    expect(items[0][0] in there, "a rank went before the record")
    expect((record in there) == (kind == "before"), f"{kind} the record was removed: {there}")
    place.gateway.start(seconds=60)
    client = place.run.client(place.gateway)
    for key, _body in items:  # the first was not acknowledged, and what is as young as this may stay
        expect(client.delete(key).status == 204, "cannot delete")
    expect(not place.there() & {record, *(key for key, _body in items)}, "a rank or the record is left")


def scenario(run):
    for name in ("minio", "versitygw"):
        if run.args.server not in (None, name):
            continue
        place = Place(run, getattr(run, name)().start(seconds=60))
        for kind in ("before", "after"):
            with run.case(f"{name}: killed {kind} the record is written, and {kind} it is removed"):
                for _ in range(run.args.rounds):
                    items, record = put(place, kind)
                    remove(place, kind, items, record)
        with run.case(f"{name}: a repeat of what is whole asks for nothing, and all ranks come together"):
            items, record = place.block()
            client = run.client(place.gateway)
            for _ in range(2):
                expect(client.batch_put(items, FINGERPRINT) == ["OK"] * RANKS, "cannot store")
            place.check(items, record)
        place.gateway.stop()
        place.server.kill()


if __name__ == "__main__":
    main(scenario, options)
