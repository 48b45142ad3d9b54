#!/usr/bin/env python3
"""Two gateways on one pair of buckets move the same blocks at once, against each other, and both are killed.

Each has orders for the same blocks, down and up by lot, and is killed -9 now and then, also both in one moment.
A client reads through whichever is up and checks its bytes: a block that was acknowledged is in one of the two
buckets at any time.  In the end rows, buckets and reads agree, and no lock is left."""

import random
import threading
import time

import blocks
from harness import expect, main, wait_until
from issuer import Issuer

SPACE = "acme/opposite"
SIZE = 16 << 10
COUNT = 96  # a killed one leaves locks, and its blocks rest for a while
PAGE = 4  # blocks of an order: the two of them meet often
LOCKS = ".kvtier-moving/"


def options(parser):
    parser.add_argument("--kills", type=int, default=10, help="kill -9 of gateways, with each far bucket")
    parser.add_argument("--far", choices=("minio", "versitygw"), help="only with this far bucket")


class Reader(threading.Thread):
    """Reads the blocks through both gateways, for ever; other bytes, or none, are a failure."""

    def __init__(self, rig):
        super().__init__(daemon=True)
        self.rig, self.rng = rig, random.Random(rig.run.rng.getrandbits(64))
        self.stopping, self.reads, self.wrong = threading.Event(), 0, None

    def run(self):
        clients = [self.rig.run.client(gateway, "near") for gateway in self.rig.gateways]
        while not self.stopping.is_set() and self.wrong is None:
            key, client = self.rng.choice(self.rig.keys), self.rng.choice(clients)
            try:
                answer = client.get(key)
            except OSError:  # it was killed
                client.close()
                time.sleep(0.02)
                continue
            if answer.status == 200 and answer.body != self.rig.bodies[key]:
                self.wrong = f"{key}: other bytes"
            elif answer.status not in (200, 503):  # 503: it has only begun to live
                self.wrong = f"{key}: {answer.status} {answer.body[:200]!r}"
            self.reads += answer.status == 200

    def finish(self):
        self.stopping.set()
        self.join(60 * self.rig.run.slow)
        expect(self.wrong is None, self.wrong)
        expect(self.reads > 0, "nothing was read")


class Rig:
    def __init__(self, run, far):
        self.run = run
        self.near = run.minio(f"near-{far}").start(seconds=60)
        self.far = (run.minio if far == "minio" else run.versitygw)(f"far-{far}").start(seconds=60)
        self.buckets = [run.client(self.near, "near"), run.client(self.far, "far")]
        for bucket in self.buckets:
            bucket.create_bucket()
        self.nats = run.nats(f"nats-{far}").start()
        self.gateways = [run.gateway(self.nats, f"gw{far}{n}", self.near, **{
            "bucket": "near", "hot.capacity": "0", "far.kind": "s3", "far.bucket": "far", "far.endpoint": self.far.url,
            "cold.recheck": "1s"}).start(seconds=60) for n in range(2)]
        self.issuers = [Issuer(run, self.nats, gateway, SPACE) for gateway in self.gateways]
        self.items = [[run.rng.getrandbits(64), 0, 0, 1] for _ in range(COUNT)]
        self.keys = [blocks.key(item[0], namespace=SPACE) for item in self.items]
        self.bodies = {key: run.rng.randbytes(SIZE) for key in self.keys}
        for gateway in self.gateways:  # each has rows of all
            answers = run.client(gateway, "near").batch_put([(key, self.bodies[key]) for key in self.keys])
            expect(set(answers) == {"OK"}, f"cannot store: {answers}")

    def send(self):
        """Orders to both for the same blocks: copies in both buckets, and then each takes the other's source."""
        which = self.run.rng.sample(self.items, PAGE)
        ways = [("demote", ("cold@near", "cold@far")), ("promote", ("cold@far", "cold@near"))]
        self.run.rng.shuffle(ways)
        for keep in (True, False):
            for issuer, (verb, edge) in zip(self.issuers, ways):
                issuer.send(verb, which, edge=(*edge, keep))

    def settled(self):
        for gateway in self.gateways:
            if gateway.status()["catalog"]["intents"]:
                return f"{gateway.name} has rows to settle"
        locks = self.buckets[0].list(LOCKS)
        return f"locks: {locks}" if locks else None

    def expect_whole(self):
        """Every block is read through both, and a bucket has it whole."""
        there = {key for bucket in self.buckets for key, size in bucket.list(f"{SPACE}/") if size == SIZE}
        expect(there == set(self.keys), f"{len(self.keys) - len(there)} blocks are in neither bucket")
        for gateway in self.gateways:
            client = self.run.client(gateway, "near")
            for key in self.keys:
                answer = client.get(key)
                expect(answer.status == 200 and answer.body == self.bodies[key],
                       f"{gateway.name}, {key}: {answer.status}")


def kill_both(rig, reader, kills):
    rng, done = rig.run.rng, 0
    while done < kills:
        for _ in range(rng.randrange(2, 6)):
            rig.send()
        time.sleep(rng.random() * 0.25 * rig.run.slow)
        dead = rng.choice(([0], [1], [0, 1]))
        for n in dead:
            rig.gateways[n].kill()
            time.sleep(rng.random() * 0.02)
        for n in dead:
            rig.gateways[n].start(seconds=60)
        done += len(dead)
        expect(reader.wrong is None, reader.wrong)


def one(run, far):
    rig = Rig(run, far)
    reader = Reader(rig)
    reader.start()
    with run.case(f"{far}: {run.args.kills} kills of two gateways that move the same blocks against each other"):
        kill_both(rig, reader, run.args.kills)
        wait_until(rig.settled, 180 * run.slow, "all moves are settled", every=0.5)
        rig.expect_whole()
    with run.case(f"{far}: whoever read meanwhile read right"):
        reader.finish()
        run.note(f"{reader.reads} reads")
    for issuer in rig.issuers:
        issuer.close()
    for gateway in rig.gateways:
        expect(gateway.stop() == 0, gateway.tail())
    for server in (rig.near, rig.far, rig.nats):
        server.kill()


def scenario(run):
    for far in ("minio", "versitygw"):
        if run.args.far in (None, far):
            one(run, far)


if __name__ == "__main__":
    main(scenario, options)
