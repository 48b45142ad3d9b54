#!/usr/bin/env python3
"""Bad objects in the bucket and on the hot volume: every one is a miss and a quarantine entry."""

import os

import blocks
from harness import expect, main, wait_until
from system import MIB, volume

SIZE = 32 * 1024
COUNT = 40  # keys of each kind of damage


def body_of(hash_):
    return blocks.base58(hash_).encode() * (SIZE // 8 + 1)


class Block:
    def __init__(self, rng):
        self.hash = rng.getrandbits(64)
        self.key = blocks.key(self.hash, namespace="poison/ns")
        self.body = body_of(self.hash)[:SIZE]


def damage(kind, body, other, rng, unused=range(0)):
    """`unused`: where a file has bytes that mean nothing, so that their damage is none."""
    if kind == "truncated":
        return body[:rng.randrange(1, len(body))]
    if kind == "flipped":
        at, bit = rng.choice([n for n in range(len(body)) if n not in unused]), rng.randrange(8)
        return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1:]
    if kind == "foreign":
        return other
    return b""


KINDS = ("truncated", "flipped", "foreign", "empty")


def read_every_way(client, good, bad, also_good):
    """Through GET and batch get: bad keys miss (or give their right bytes), good ones are served."""
    for block in bad:
        answer = client.get(block.key)
        right = answer.status == 200 and answer.body == block.body
        expect(answer.status == 404 or (also_good and right),
               lambda b=block, a=answer: f"GET {b.key}: {a.status}, {len(a.body)} bytes, "
                                         f"{'its own' if a.body == b.body else 'NOT its own'}")
    for block, (status, _crc, body) in zip(bad, client.batch_get([b.key for b in bad])):
        expect(status == "NOTFOUND" or (also_good and status == "OK" and body == block.body),
               lambda b=block, s=status, d=body: f"batch get {b.key}: {s}, {len(d)} bytes")
    for block, (status, _crc, body) in zip(good, client.batch_get([b.key for b in good])):
        expect(status == "OK" and body == block.body, f"an untouched block is {status}")


def quarantined(gateway, bad, tier, run):
    """Each bad key has an entry of that tier."""
    wanted = {block.key for block in bad}

    def missing():
        entries = gateway.ask("/v1/quarantine?limit=2000")["entries"]
        left = wanted - {entry["key"] for entry in entries if entry["tier"] == tier}
        return f"{len(left)} have no quarantine entry: {sorted(left)[:3]}" if left else None

    wait_until(missing, 10 * run.slow, f"quarantine of {len(wanted)} objects ({tier})")


def rewritten(client, bad):
    """A bad object does not stand in the way of the right one."""
    statuses = client.batch_put([(block.key, block.body) for block in bad])
    expect(set(statuses) == {"OK"}, f"storing again: {set(statuses)}")
    for block, (status, _crc, body) in zip(bad, client.batch_get([b.key for b in bad])):
        expect(status == "OK" and body == block.body, f"stored again, then read: {status}")


def poison_bucket(run, nats, minio):
    bucket = run.client(minio)
    gateway = run.gateway(nats, "gwcold", minio, hot_capacity=0).start()
    client = run.client(gateway)
    bad = {kind: [Block(run.rng) for _ in range(COUNT)] for kind in KINDS}
    good = [Block(run.rng) for _ in range(COUNT)]
    everything = good + [b for kind in KINDS for b in bad[kind]]
    expect(set(client.batch_put([(b.key, b.body) for b in everything])) == {"OK"}, "cannot store")
    keep = ("x-amz-meta-kvt-length", "x-amz-meta-kvt-crc32c", "x-amz-meta-kvt-fingerprint",
            "x-amz-meta-kvt-writer")
    for kind in KINDS:
        for index, block in enumerate(bad[kind]):
            there = bucket.get(block.key)
            expect(there.status == 200 and there.body == block.body, "the bucket has other bytes")
            # A foreign object has no metadata of ours; the others keep what the good one said.
            meta = {} if kind == "foreign" else {n: there.headers[n] for n in keep if n in there.headers}
            poison = damage(kind, block.body, good[index].body, run.rng)
            expect(bucket.put(block.key, poison, meta).status == 200, "cannot plant")
    for kind in KINDS:
        with run.case(f"bucket, {kind}: misses, in GET and in batches"):
            read_every_way(client, good, bad[kind], also_good=False)
        with run.case(f"bucket, {kind}: quarantined"):
            quarantined(gateway, bad[kind], "cold", run)
    with run.case("bucket: the right blocks can be stored again"):
        rewritten(client, [b for kind in KINDS for b in bad[kind]])
    with run.case("bucket: planted under keys never stored: misses"):
        planted = [Block(run.rng) for _ in range(COUNT)]
        for block in planted:
            expect(bucket.put(block.key, block.body[:100]).status == 200, "cannot plant")
        for block in planted:
            status = client.get(block.key).status
            expect(status == 404, f"GET of a planted object: {status}")
        rewritten(client, planted)
    with run.case("bucket: nothing changes when the gateway starts again"):
        gateway.kill()
        gateway.start()
        client.close()
        read_every_way(client, everything, [], also_good=False)


def poison_volume(run, nats, minio):
    bucket = run.client(minio)
    gateway = run.gateway(nats, "gwhot", minio, hot_capacity=64 * MIB).start()
    client = run.client(gateway)
    for both in (False, True):
        where = "volume and bucket" if both else "volume"
        bad = {kind: [Block(run.rng) for _ in range(COUNT)] for kind in KINDS}
        good = [Block(run.rng) for _ in range(COUNT)]
        everything = good + [b for kind in KINDS for b in bad[kind]]
        expect(set(client.batch_put([(b.key, b.body) for b in everything])) == {"OK"}, "cannot store")
        files = volume(gateway.settings["hot.dir"])
        for kind in KINDS:
            for index, block in enumerate(bad[kind]):
                path = files[block.key]
                with open(path, "rb") as file:
                    whole = file.read()
                with open(files[good[index].key], "rb") as file:
                    other = file.read()
                with open(path, "wb") as file:
                    file.write(damage(kind, whole, other, run.rng, range(1024, 4096)))
                if both:
                    poison = damage(kind, block.body, good[index].body, run.rng)
                    expect(bucket.put(block.key, poison).status == 200, "cannot plant")
        for kind in KINDS:
            with run.case(f"{where}, {kind}: never served"):
                read_every_way(client, good, bad[kind], also_good=not both)
            with run.case(f"{where}, {kind}: quarantined"):
                quarantined(gateway, bad[kind], "hot", run)
        with run.case(f"{where}: the right blocks can be stored again"):
            rewritten(client, [b for kind in KINDS for b in bad[kind]])
    with run.case("the integrity counter saw every bad file"):
        corrupt = gateway.status()["integrity"]["corrupt"]
        expect(corrupt >= 2 * len(KINDS) * COUNT, f"{corrupt} counted")
    with run.case("rubbish files on the volume do not stop a start"):
        gateway.kill()
        folder = os.path.join(gateway.settings["hot.dir"], "objects")
        for number in range(20):
            with open(os.path.join(folder, f"rubbish{number}"), "wb") as file:
                file.write(run.rng.randbytes(run.rng.randrange(5000)))
        gateway.start()
        client.close()
        read_every_way(client, good, [], also_good=True)


def scenario(run):
    nats, minio = run.nats().start(), run.minio().start()
    run.client(minio).create_bucket()
    poison_bucket(run, nats, minio)
    poison_volume(run, nats, minio)
    with run.case("gateways stop with exit 0"):
        for process in run.processes:
            if process.name.startswith("gw"):
                expect(process.stop() == 0, f"{process.name}: {process.tail()}")


if __name__ == "__main__":
    main(scenario)
