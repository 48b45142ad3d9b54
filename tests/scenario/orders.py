#!/usr/bin/env python3
"""Orders to pin, unpin and warm, signed and sent over a real NATS, to a gateway in front of a MinIO.

What is where is read from the files of the hot volume and from the bucket itself."""

import time

import blocks
from harness import expect, expect_same, main, wait_until
from issuer import Issuer
from system import hot_keys

SPACE = "acme"
SIZE = 64 << 10
COUNT = 12
HOT = 16 * SIZE   # room for all of them
PINS = HOT // SIZE // 2
TOTAL = COUNT + 10  # with those that fill the hot volume up


class Rig:
    def __init__(self, run):
        self.run = run
        minio = run.minio().start(seconds=60)
        self.bucket = run.client(minio)
        self.bucket.create_bucket()
        nats = run.nats().start()
        self.gateway = run.gateway(nats, s3_server=minio, hot_capacity=HOT,
                                   **{"report.interval": "100ms"}).start(seconds=60)
        self.issuer = Issuer(run, nats, self.gateway, SPACE)
        self.items = [[run.rng.getrandbits(64), 0, 0, 1] for _ in range(TOTAL)]
        self.keys = [blocks.key(item[0], namespace=SPACE) for item in self.items]
        self.bodies = {key: run.rng.randbytes(SIZE) for key in self.keys}

    def put(self, which):
        client = self.run.client(self.gateway)
        answers = client.batch_put([(key, self.bodies[key]) for key in self.keys[which]])
        expect(set(answers) == {"OK"}, f"cannot store: {answers}")

    def order(self, verb, which, until_ms=None):
        return self.issuer.order(verb, self.items[which], until_ms)

    def expect_result(self, result, done, text=None):
        """So many done; of the others the first says `text`."""
        expect(result["done"] == done, result)
        expect(result["text"] == "" if text is None else result["text"].endswith(f": {text}"), result)

    def expect_places(self, hot, bucket):
        """Hot volume and bucket hold these of the blocks, and no other; what is there is read right."""
        expect_same(hot_keys(self.gateway), {self.keys[n] for n in hot}, "the hot volume", "what it should")
        found = {key for key, _size in self.bucket.list(f"{SPACE}/")}
        expect_same(found, {self.keys[n] for n in bucket}, "the bucket", "what it should")
        client = self.run.client(self.gateway)
        for key in found:
            expect(client.get(key).body == self.bodies[key], f"{key}: other bytes")

    def pins(self):
        pins = self.gateway.status()["pins"]
        expect(pins["bytes"] == pins["blocks"] * SIZE and pins["max_bytes"] == HOT // 2, pins)
        return pins["blocks"]


def scenario(run):
    rig = Rig(run)
    rig.put(slice(0, COUNT))
    with run.case("pinned blocks are left by orders to demote and delete, which name one and say why"):
        rig.expect_places(range(COUNT), range(COUNT))
        rig.expect_result(rig.order("pin", slice(0, 4)), 4)
        rig.expect_result(rig.order("demote", slice(2, 6)), 2, "pinned")
        rig.expect_result(rig.order("delete", slice(2, 6)), 2, "pinned")
        rest = [n for n in range(COUNT) if n not in (4, 5)]
        rig.expect_places(rest, rest)
    with run.case("pins outlive kill -9; pinned again they count once"):
        rig.gateway.kill()
        rig.gateway.start(seconds=60)
        expect(rig.pins() == 4, rig.gateway.status()["pins"])
        rig.expect_result(rig.order("demote", slice(0, 4)), 0, "pinned")
        rig.expect_result(rig.order("pin", slice(0, 4)), 4)
        expect(rig.pins() == 4, rig.gateway.status()["pins"])
        rig.expect_places(rest, rest)
    with run.case("no more than half of the hot capacity is pinned, and the refusal says so"):
        rig.expect_result(rig.order("pin", slice(6, 6 + PINS - 3)), PINS - 4, "over half of the hot capacity")
        expect(rig.pins() == PINS, rig.gateway.status()["pins"])
        rig.expect_result(rig.order("unpin", slice(6, COUNT)), COUNT - 6)
        expect(rig.pins() == 4, rig.gateway.status()["pins"])
    with run.case("an unpin frees: what it names is demoted and deleted again, and nothing else"):
        rig.expect_result(rig.order("unpin", slice(0, 2)), 2)
        rig.expect_result(rig.order("demote", slice(0, 3)), 2, "pinned")
        rig.expect_places(rest[2:], rest)
        rig.expect_result(rig.order("delete", slice(1, 3)), 1, "pinned")
        rest.remove(1)
        rig.expect_places(rest[1:], rest)
    with run.case("a pin with an end ends then"):
        until_ms = int(time.time() * 1000) + 3000 * run.slow
        rig.expect_result(rig.order("pin", slice(6, 7), until_ms), 1)
        rig.expect_result(rig.order("demote", slice(6, 7)), 0, "pinned")
        wait_until(lambda: None if rig.pins() == 2 else str(rig.pins()), 30 * run.slow, "the pin ends")
        expect(time.time() * 1000 >= until_ms, "it ended early")
        rig.expect_result(rig.order("demote", slice(6, 7)), 1)
    with run.case("a client deletes what is pinned, and the pin with it"):
        expect(run.client(rig.gateway).delete(rig.keys[2]).status == 204, "cannot delete")
        rest.remove(2)
        wait_until(lambda: None if rig.pins() == 1 else str(rig.pins()), 30 * run.slow, "the pin is gone")
    with run.case("warm brings cold blocks into the hot volume, from the bucket, once"):
        rig.expect_result(rig.order("demote", slice(7, COUNT)), COUNT - 7)
        rig.expect_places([3], rest)
        for moved in (4, 0):
            result = rig.order("warm", slice(8, COUNT))
            rig.expect_result(result, COUNT - 8)
            expect(result["bytes_moved"] == moved * SIZE, result)
        rig.expect_places([3, *range(8, COUNT)], rest)
    with run.case("warming takes the room there is: nothing leaves the hot volume for it"):
        rig.put(slice(COUNT, TOTAL))
        hot = hot_keys(rig.gateway)
        cold = [n for n in rest if rig.keys[n] not in hot]
        expect(len(cold) > 0, "everything is hot: nothing to be refused")
        result = rig.issuer.order("warm", [rig.items[n] for n in cold])
        expect(result["failed"] > 0 and result["text"].endswith(": capacity limit reached"), result)
        expect(hot <= hot_keys(rig.gateway), "something left the hot volume")
        expect(len(hot_keys(rig.gateway)) * SIZE <= HOT, "over the hot capacity")
    rig.issuer.close()
    expect(rig.gateway.stop() == 0, rig.gateway.tail())


if __name__ == "__main__":
    main(scenario)
