#!/usr/bin/env python3
"""Bad objects in the bucket and on the hot volume: every one is a miss and a quarantine entry."""

import os
import struct

import blocks
from harness import expect, main, wait_until
from system import MIB, volume

SIZE = 32 * 1024
COUNT = 1000  # objects that are damaged, together
FINGERPRINT = 0x5EED
SERVERS = ("minio", "versitygw")
OURS = tuple(f"x-amz-meta-kvt-{name}" for name in ("length", "crc32c", "fingerprint", "key", "writer"))

BYTES = ("truncated", "flipped", "foreign", "empty")
# What is exchanged is two whole objects, with all they say of themselves.
KINDS = {
    "bucket": (*BYTES, "exchanged", "fingerprint"),
    "bucket of others": (*BYTES, "exchanged"),  # a gateway that has no rows of them
    "volume": (*BYTES, "exchanged", "fingerprint", "old"),
    "volume and bucket": (*BYTES, "exchanged", "fingerprint"),
}
PLANTED = 1  # one more kind: keys never stored


def options(parser):
    parser.add_argument("--count", type=int, help=f"objects to damage (default {COUNT}; 200 under sanitizers)")
    parser.add_argument("--server", choices=SERVERS, help="only this one")


class Block:
    def __init__(self, rng):
        self.hash = rng.getrandbits(64)
        self.key = blocks.key(self.hash, namespace="poison/ns")
        self.body = (blocks.base58(self.hash).encode() * (SIZE // 8 + 1))[:SIZE]


def damage(kind, body, other, rng, unused=range(0)):
    """`unused`: where a file has bytes that mean nothing, so that their damage is none."""
    if kind == "truncated":
        return body[:rng.randrange(1, len(body))]
    if kind == "flipped":
        at, bit = rng.choice([n for n in range(len(body)) if n not in unused]), rng.randrange(8)
        return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1:]
    return other if kind in ("foreign", "exchanged") else b""


class Stored:
    """Blocks of each kind of damage to come, and as many that stay good."""

    def __init__(self, run, client, kinds, count):
        self.rng = run.rng
        self.bad = {kind: [Block(run.rng) for _ in range(count)] for kind in kinds}
        self.good = [Block(run.rng) for _ in range(count)]
        self.all_bad = [block for kind in kinds for block in self.bad[kind]]
        everything = self.good + self.all_bad
        for at in range(0, len(everything), 500):
            part = [(block.key, block.body) for block in everything[at:at + 500]]
            expect(set(client.batch_put(part, FINGERPRINT)) == {"OK"}, "cannot store")

    def pairs(self, kind):
        """Each block with one whose content it gets: of two that are exchanged, the other one."""
        blocks_ = self.bad[kind]
        if kind != "exchanged":
            return zip(blocks_, self.good)
        return zip(blocks_, [blocks_[n ^ 1] for n in range(len(blocks_))])


def damage_bucket(bucket, stored):
    for kind in stored.bad:
        there = {block: bucket.get(block.key) for block in stored.bad[kind]}
        for block, other in stored.pairs(kind):
            expect(there[block].status == 200 and there[block].body == block.body,
                   "the bucket has other bytes")
            headers = there[other if kind == "exchanged" else block].headers
            meta = {name: headers[name] for name in OURS if name in headers}
            body = damage(kind, block.body, other.body, stored.rng)
            if kind == "foreign":
                meta = {}
            if kind == "fingerprint":
                body = block.body
                meta["x-amz-meta-kvt-fingerprint"] = f"{FINGERPRINT + 1:016x}"
            expect(bucket.put(block.key, body, meta).status == 200, "cannot plant")


def damage_file(kind, whole, other, rng):
    """An object file (docs/formats.md, "Object files"); bytes 1024 to 4095 mean nothing."""
    if kind == "old":
        return whole[:8] + struct.pack("<I", 0) + whole[12:]
    if kind == "fingerprint":
        header = whole[16:32] + struct.pack("<Q", FINGERPRINT + 1) + whole[40:1024]
        return whole[:12] + struct.pack("<I", blocks.crc32c(header)) + header + whole[1024:]
    return damage(kind, whole, other, rng, range(1024, 4096))


def damage_volume(folder, stored):
    files = volume(folder)
    for kind in stored.bad:
        whole = {}
        for block, other in stored.pairs(kind):
            for each in (block, other):
                with open(files[each.key], "rb") as file:
                    whole.setdefault(each, file.read())
        for block, other in stored.pairs(kind):
            with open(files[block.key], "wb") as file:
                file.write(damage_file(kind, whole[block], whole[other], stored.rng))


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
    statuses = client.batch_put([(block.key, block.body) for block in bad], FINGERPRINT)
    expect(set(statuses) == {"OK"}, f"storing again: {set(statuses)}")
    for block, (status, _crc, body) in zip(bad, client.batch_get([b.key for b in bad])):
        expect(status == "OK" and body == block.body, f"stored again, then read: {status}")


def refused(client, bad):
    """An object without metadata of ours is nobody's damage: the first writer wins."""
    statuses = client.batch_put([(block.key, block.body) for block in bad], FINGERPRINT)
    expect(set(statuses) == {"PRECONDITION"}, f"over objects without metadata: {set(statuses)}")
    for block in bad:
        status = client.get(block.key).status
        expect(status == 404, f"GET of a planted object: {status}")


def judge(run, where, gateway, stored, tier, also_good=False, unknown=()):
    client = run.client(gateway)
    for kind, bad in stored.bad.items():
        with run.case(f"{where}, {kind}: never served, and in quarantine"):
            read_every_way(client, stored.good, bad, also_good)
            quarantined(gateway, bad, tier, run)
    with run.case(f"{where}: the right blocks can be stored again"):
        rewritten(client, [block for block in stored.all_bad if block not in unknown])
    if unknown:
        with run.case(f"{where}: what has no metadata, and no row, stays"):
            refused(client, unknown)
    client.close()


def poison_bucket(run, nats, server, count):
    where = f"bucket on {server.name}"
    bucket = run.client(server)
    gateway = run.gateway(nats, f"gwcold{server.name}", server, hot_capacity=0,
                          quarantine_max=2000).start()
    client = run.client(gateway)
    stored = Stored(run, client, KINDS["bucket"], count)
    damage_bucket(bucket, stored)
    judge(run, where, gateway, stored, "cold")
    with run.case(f"{where}: planted under keys never stored: misses"):
        planted = [Block(run.rng) for _ in range(count)]
        for block in planted:
            expect(bucket.put(block.key, block.body[:100]).status == 200, "cannot plant")
        for block in planted:
            status = client.get(block.key).status
            expect(status == 404, f"GET of a planted object: {status}")
        refused(client, planted)
    with run.case(f"{where}: nothing changes when the gateway starts again"):
        gateway.kill()
        gateway.start()
        client.close()
        read_every_way(client, stored.good + stored.all_bad, [], also_good=False)
    others = Stored(run, client, KINDS["bucket of others"], count)
    damage_bucket(bucket, others)
    peer = run.gateway(nats, f"gwpeer{server.name}", server, hot_capacity=0,
                       quarantine_max=2000).start()
    judge(run, f"{where}, read by a gateway that did not write it", peer, others, "cold",
          unknown=others.bad["foreign"])
    return gateway, peer


def poison_volume(run, nats, server, count):
    bucket = run.client(server)
    gateway = run.gateway(nats, f"gwhot{server.name}", server, hot_capacity=256 * MIB,
                          quarantine_max=2000).start()
    client = run.client(gateway)
    for name, both in (("volume", False), ("volume and bucket", True)):
        stored = Stored(run, client, KINDS[name], count)
        damage_volume(gateway.settings["hot.dir"], stored)
        if both:
            damage_bucket(bucket, stored)
        judge(run, f"{name} ({server.name})", gateway, stored, "hot", also_good=not both)
    with run.case(f"the integrity counter saw every bad file ({server.name})"):
        corrupt = gateway.status()["integrity"]["corrupt"]
        wanted = sum(len(KINDS[name]) for name in ("volume", "volume and bucket")) * count
        expect(corrupt >= wanted, f"{corrupt} counted of {wanted}")
    with run.case(f"rubbish files on the volume do not stop a start ({server.name})"):
        gateway.kill()
        folder = os.path.join(gateway.settings["hot.dir"], "objects")
        for number in range(20):
            with open(os.path.join(folder, f"rubbish{number}"), "wb") as file:
                file.write(run.rng.randbytes(run.rng.randrange(5000)))
        gateway.start()
        client.close()
        read_every_way(client, stored.good, [], also_good=True)
    return gateway


def scenario(run):
    nats = run.nats().start()
    servers = (run.args.server,) if run.args.server else SERVERS
    kinds = sum(len(row) for row in KINDS.values()) + PLANTED
    count = run.args.count or (200 if run.sanitized else COUNT)
    each = max(2, count // (kinds * len(servers)) // 2 * 2)  # exchanged in pairs
    run.note(f"{each * kinds * len(servers)} objects are damaged: {each} of each kind")
    gateways = []
    for name in servers:
        server = getattr(run, name)().start()
        run.client(server).create_bucket()
        gateways += poison_bucket(run, nats, server, each)
        gateways.append(poison_volume(run, nats, server, each))
    with run.case("gateways stop with exit 0"):
        for gateway in gateways:
            expect(gateway.stop() == 0, f"{gateway.name}: {gateway.tail()}")


if __name__ == "__main__":
    main(scenario, options)
