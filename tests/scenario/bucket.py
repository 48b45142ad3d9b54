#!/usr/bin/env python3
"""A real MinIO's bucket, whose notifications are lost: listing it brings the picture right.

The advisor hears notifications over core NATS, which keeps none.  What happens in the bucket while it is
down, or while NATS is, it finds by listing the bucket: what came, what went, and namespaces of which
nothing is left.
"""

import concurrent.futures
import json
import os
import sys
import time

import blocks
import harness
from harness import expect, wait_until

sys.path.insert(1, os.path.join(harness.ROOT, "tests", "producers"))

import objects  # noqa: E402

MANY = 1100  # objects: more than a page of a listing
SPACES = ("", "tenant/model", objects.NAMESPACE)
SOURCE = "bucket"


class World:
    def __init__(self, run):
        self.run, self.nats = run, run.nats().start()
        self.minio = run.minio()
        self.minio.env.update(objects.environment(self.nats.url))
        self.minio.start(seconds=60)
        self.s3 = run.client(self.minio, "blocks")
        self.s3.create_bucket()
        objects.subscribe(self.s3)
        self.held = set()

    def advisor(self, name="advisor", **more):
        entry = {"name": SOURCE, "kind": "minio-nats", "url": self.nats.url, "subject": objects.SUBJECT,
                 "bucket_url": f"{self.minio.url}/blocks",
                 "bucket_credentials_file": os.path.join(self.run.folder, "s3.cred"), **more}
        entry = {key: value for key, value in entry.items() if value is not None}
        path = self.run.file(f"{name}.yaml", json.dumps(
            {"version": 1, "sources": [{"name": "own", "kind": "kvtier-core"}, entry]}))
        return self.run.advisor(self.nats, name=name, **{"sources.file": path})

    def block(self, space):
        rng = self.run.rng
        return blocks.key(rng.getrandbits(64), rng.choice((0, 1, 300)), rng.getrandbits(64), space)

    def put(self, keys):
        clients = [self.run.client(self.minio, "blocks") for _ in range(8)]
        with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
            for done in [pool.submit(lambda c=client, part=keys[at::len(clients)]:
                                     [objects.must(c.put(key, b"block")) for key in part])
                         for at, client in enumerate(clients)]:
                done.result()
        self.held.update(key for key in keys if blocks.parse_key(key))

    def drop(self, keys):
        for at in range(0, len(keys), 500):
            objects.delete_many(self.s3, keys[at:at + 500])
        self.held.difference_update(keys)

    def places(self, space=None):
        return {(found if space is None else space, f"{value:016x}", "cold@blocks")
                for found, _, _, value, _ in map(blocks.parse_key, self.held)}

    def found(self, advisor):
        return {(row["namespace"], row["hash"], row["holder"])
                for row in advisor.pages("/v1/index/dump") if row["tier"] == "G4"}

    def publishers(self, advisor):
        return advisor.ask(f"/v1/sources/{SOURCE}")["publisher_list"]

    def uncertain(self, advisor):
        """Their namespaces."""
        return {row["namespace"] for row in self.publishers(advisor) if row["state"] == "uncertain"}

    def hears(self, advisor):
        """The store is connected to NATS again, too."""
        def check():
            key = self.block("")
            self.put([key])
            time.sleep(0.3)
            value = f"{blocks.parse_key(key)[3]:016x}"
            return None if value in {place[1] for place in self.found(advisor)} else "nothing heard"

        wait_until(check, 60, "the store tells again", every=0.2)

    def right(self, advisor, seconds=20, space=None):
        """The index holds what the bucket does, and is sure of it."""
        def check():
            found, wanted = self.found(advisor), self.places(space)
            if found != wanted:
                return (f"{len(found)} places of {len(wanted)}: {len(found - wanted)} too many, "
                        f"{len(wanted - found)} missing; {advisor.ask(f'/v1/sources/{SOURCE}')}")
            return f"uncertain: {self.publishers(advisor)}" if self.uncertain(advisor) else None

        wait_until(check, seconds, "the index is what the bucket holds", every=0.2)


def scenario(run):
    world = World(run)
    with run.case("a bucket that was there before is listed, page by page"):
        world.put([world.block(SPACES[at % 3]) for at in range(MANY)] + ["notes.txt", "0/1", "é ü+%/x"])
        advisor = world.advisor().start(seconds=60)
        world.right(advisor, 60)
    with run.case("what happens now is heard"):
        gone = sorted(world.held)[::50]
        world.put([world.block(space) for space in SPACES])
        world.drop(gone)
        world.right(advisor)
    with run.case("what happened while the advisor was down is found: what came and what went"):
        advisor.stop()
        world.drop(sorted(world.held)[::3])
        world.put([world.block(space) for space in ("", SPACES[2], "a namespace of its own")])
        advisor.start(seconds=60)
        world.right(advisor, 60)
    with run.case("what happened while NATS was down is found"):
        world.nats.kill()
        world.drop(sorted(world.held)[::5])
        world.put([world.block(SPACES[1]) for _ in range(20)])
        world.nats.start()
        world.right(advisor, 60)
    with run.case("what the store itself fails to tell is found now and then"):
        advisor.stop()
        often = world.advisor("often", bucket_every="1s").start(seconds=60)
        world.right(often, 60)
        world.nats.kill()
        world.nats.start()
        for _ in range(5):  # our connection is back before the store's is
            world.put([world.block(space) for space in SPACES])
            time.sleep(0.5)
        world.right(often, 60)
        often.stop()
    with run.case("what happens while it is listed is not lost"):
        advisor.start(seconds=60)
        world.hears(advisor)
        for _ in range(3):
            advisor.stop()
            advisor.start(wait=False)
            fresh = [world.block(SPACES[0]) for _ in range(60)]
            for key in fresh:  # through the start and the listing
                world.put([key])
            world.drop(fresh[::2])
            advisor.wait_ready(60)
            world.right(advisor, 60)
    with run.case("a namespace of which nothing is left is known to be uncertain"):
        advisor.stop()
        before = {place for place in world.places() if place[0] == SPACES[1]}
        world.drop([key for key in world.held if key.startswith(SPACES[1] + "/")])
        advisor.start(seconds=60)
        wait_until(lambda: None if world.uncertain(advisor) == {SPACES[1]} else f"{world.publishers(advisor)}",
                   60, "the others are certain")
        found = world.found(advisor)  # the store may tell of the last removals only now
        advisor.stop()
        expect(world.places() <= found <= world.places() | before, "the picture is another")
    with run.case("where all keys are of one namespace nothing is in doubt"):
        one = world.advisor("one", namespace="all/one").start(seconds=60)
        world.right(one, 60, space="all/one")
        one.stop()
        world.drop(sorted(world.held))
        one.start(seconds=60)
        world.right(one, 60, space="all/one")
        expect(not world.found(one), "the bucket is empty")
        one.stop()
    with run.case("without leave to list it the picture stays, and is known to be uncertain"):
        world.put([world.block("") for _ in range(5)])
        advisor.start(seconds=60)
        wait_until(lambda: None if world.places() <= world.found(advisor) else "not yet", 60, "listed")
        before = world.found(advisor)
        advisor.stop()
        world.put([world.block("")])
        run.file("wrong.cred", "nobody:nothing-nothing")
        denied = world.advisor(bucket_credentials_file=os.path.join(run.folder, "wrong.cred"))
        denied.start(seconds=60)
        wait_until(lambda: None if "answers 403" in denied.tail(5000) else "nothing in its log", 20, "denied")
        expect("" in world.uncertain(denied), f"{world.publishers(denied)}")
        expect(world.found(denied) == before, "the picture changed")
        denied.stop()
    with run.case("without a listing losses are known, too"):
        plain = world.advisor("plain", bucket_url=None, bucket_credentials_file=None).start(seconds=60)
        world.put([world.block("")])
        wait_until(lambda: None if world.found(plain) else "nothing yet", 20, "heard")
        expect(not world.uncertain(plain), f"{world.publishers(plain)}")
        world.nats.kill()
        world.nats.start()
        wait_until(lambda: None if world.uncertain(plain) else "it is sure of itself", 30, "uncertain")
        plain.stop()


if __name__ == "__main__":
    sys.exit(harness.main(scenario))
