#!/usr/bin/env python3
"""One bucket of KVBM's own S3 client and of KVTier: each reads what the other wrote, byte for byte.

KVBM's client is written here from its byte rules alone: a key is rank, position and base58 of the hashes, cut as
the revision says; a block is put without condition, metadata or checksum, and read with one GET into regions
(layer, outer), one behind the other; it is there when a HEAD says so.  Key revisions a, b and c, on a real MinIO."""

import hashlib
import json
import os
import struct
import subprocess

import blocks
from harness import ACCESS, SECRET, expect, expect_same, main

LAYERS, OUTER, REGION = 4, 2, 2048
SIZE = LAYERS * OUTER * REGION
POSITIONS = (0, 1, 254, 255, 256, 300, 65534, 65535, 65536, 1 << 20)
MASK = (1 << 64) - 1


def cut(value, revision, position):
    widths = blocks.WIDTHS[f"kvbm-{revision}"]
    width = widths[0] if position < 1 << 8 else widths[1] if position < 1 << 16 else widths[2]
    return value & ((1 << width) - 1)


class Kvbm:
    """Its S3 client, on a bucket."""

    def __init__(self, client, revision, rank):
        self.client, self.revision, self.rank = client, revision, rank

    def name(self, hash_, parent, position):
        """Without the rank: `.lock` and `.meta` have none.  In revision a a hash is cut as its child cuts it."""
        own = cut(hash_, "a", position + 1) if self.revision == "a" else hash_
        if position == 0:
            return f"0:{blocks.base58(own)}"
        return f"{position}:{blocks.base58(own)}:{blocks.base58(cut(parent, self.revision, position))}"

    def key(self, block):
        return f"{self.rank}/{self.name(*block)}"

    def put(self, block, body):
        """As its pipeline: a lock, the block, an empty commit record, the lock's end."""
        name = self.name(*block)
        lock = json.dumps({"instance_id": "i", "acquired_at": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T00:05:00Z"})
        self.client.put(f"{name}.lock", lock.encode(), {"if-none-match": "*"})
        expect(self.client.put(self.key(block), body).status == 200, "KVBM cannot put")
        expect(self.client.put(f"{name}.meta", b"").status == 200, "KVBM cannot put .meta")
        self.client.delete(f"{name}.lock")

    def has(self, block):
        answer = self.client.request("HEAD", f"/{self.client.bucket}/{self.key(block)}")
        return int(answer.headers["content-length"]) if answer.status == 200 else None

    def get(self, block):
        """Into (layer, outer) regions, as its layered layout has them."""
        answer = self.client.get(self.key(block))
        expect(answer.status == 200, f"KVBM misses {self.key(block)}: {answer.status}")
        return [[answer.body[(layer * OUTER + outer) * REGION:][:REGION] for outer in range(OUTER)]
                for layer in range(LAYERS)], answer.body


def content(hash_):
    """The bytes of a block, as worker/replay/block_content.h says."""
    hash_ ^= hash_ >> 30
    hash_ = hash_ * 0xbf58476d1ce4e5b9 & MASK
    hash_ ^= hash_ >> 27
    hash_ = hash_ * 0x94d049bb133111eb & MASK
    start = hash_ ^ hash_ >> 31
    words = []
    for i in range(SIZE // 8):
        mixed = (start + i) * 0x9e3779b97f4a7c15 & MASK
        words.append(mixed ^ mixed >> 29)
    return struct.pack(f"<{len(words)}Q", *words)


def move(run, server, verb, revision, rank, wanted):
    """What KVTier says of each block."""
    done = subprocess.run([os.path.join(run.build, "tests", "scenario", "bucket_mover"), verb, server.url, "kvtier",
                           revision, str(rank), str(SIZE)], check=True, stdout=subprocess.PIPE, text=True, timeout=60,
                          input="".join(f"{hash_} {parent} {position}\n" for hash_, parent, position in wanted),
                          env={**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET})
    return done.stdout.split()


def chain(run):
    return [(run.rng.getrandbits(64), run.rng.getrandbits(64) if position else 0, position) for position in POSITIONS]


def etag(client, key):
    return client.request("HEAD", f"/{client.bucket}/{key}").headers["etag"]


def ours_is_theirs(run, server, client, revision):
    for rank in (0, 3):
        kvbm, made = Kvbm(client, revision, rank), chain(run)
        expect_same(move(run, server, "put", revision, rank, made), ["OK"] * len(made), "KVTier", "stored")
        for block in made:
            body = content(block[0])
            expect(kvbm.has(block) == SIZE, f"KVBM sees {kvbm.has(block)} bytes at {kvbm.key(block)}")
            regions, whole = kvbm.get(block)
            expect(whole == body, f"KVBM reads other bytes at {kvbm.key(block)}")
            expect(b"".join(part for layer in regions for part in layer) == body, "its layered layout")
        # KVBM writes over what is there, and the checks beside it are gone: the bytes are the same.
        for block in made[:3]:
            kvbm.put(block, content(block[0]))
        expect_same(move(run, server, "get", revision, rank, made), ["OK"] * len(made), "KVTier", "back")
        other = {"a": "b", "b": "a", "c": "a"}[revision]
        expect_same(move(run, server, "get", other, rank, made[1:]), ["NOTFOUND"] * (len(made) - 1),
                    "KVTier", "in another revision")


def theirs_is_ours(run, server, client, revision):
    for rank in (0, 3):
        kvbm, made = Kvbm(client, revision, rank), chain(run)
        absent = chain(run)
        for block in made:
            kvbm.put(block, content(block[0]))
        tags = [etag(client, kvbm.key(block)) for block in made]
        expect_same(move(run, server, "get", revision, rank, made + absent),
                    ["OK"] * len(made) + ["NOTFOUND"] * len(absent), "KVTier", "of KVBM's")
        # What is there is not sent again, and stays KVBM's.
        expect_same(move(run, server, "put", revision, rank, made), ["EXISTS"] * len(made), "KVTier", "stored")
        expect_same([etag(client, kvbm.key(block)) for block in made], tags, "ETags after", "ETags before")


def no_wrong_byte(run, server, client, revision):
    """Shorter, longer, other bytes, an upload in parts: never taken for the block; a put mends all."""
    kvbm, made = Kvbm(client, revision, 0), chain(run)[:6]
    bodies = [content(block[0]) for block in made]
    fingerprints = {"x-amz-meta-kvt-length": str(SIZE), "x-amz-meta-kvt-fingerprint": f"{77:016x}",
                    "x-amz-meta-kvt-writer": "x", "x-amz-meta-kvt-crc32c": f"{blocks.crc32c(bodies[2]):08x}"}
    client.put(kvbm.key(made[0]), bodies[0][:-1])
    client.put(kvbm.key(made[1]), bodies[1] + b"x")
    client.put(kvbm.key(made[2]), bodies[2][:-1] + b"x", fingerprints)
    client.put(kvbm.key(made[3]), b"")
    client.put(kvbm.key(made[4]), bodies[4], {**fingerprints, "x-amz-meta-kvt-crc32c": f"{blocks.crc32c(bodies[4]):08x}",
                                              "x-amz-meta-kvt-fingerprint": f"{78:016x}"})
    in_parts(client, kvbm.key(made[5]), bodies[5])
    expect_same(move(run, server, "get", revision, 0, made), ["CORRUPT"] * 5 + ["UNSUPPORTED"], "KVTier", "of what is none")
    expect_same(move(run, server, "put", revision, 0, made), ["OK"] * 6, "KVTier", "mended")
    expect_same(move(run, server, "get", revision, 0, made), ["OK"] * 6, "KVTier", "mended")
    for block, body in zip(made, bodies):
        expect(kvbm.get(block)[1] == body, "KVBM reads other bytes after the repair")


def in_parts(client, key, body):
    """An ETag that is no MD5 of the body."""
    path = f"/{client.bucket}/{key}"
    begun = client.request("POST", path, query={"uploads": ""})
    upload = begun.body.decode().split("<UploadId>")[1].split("<")[0]
    part = client.request("PUT", path, query={"partNumber": "1", "uploadId": upload}, body=body)
    text = (f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part>"
            "</CompleteMultipartUpload>")
    ended = client.request("POST", path, query={"uploadId": upload}, body=text.encode())
    expect(ended.status == 200 and hashlib.md5(body).hexdigest() not in etag(client, key), f"upload: {ended.body[:200]}")


def through_a_gateway(run, server, client):
    """What engines put through a gateway lies in the bucket as KVBM reads it."""
    gateway = run.gateway(run.nats().start(), s3_server=server).start(seconds=60)
    kvbm, made = Kvbm(client, "b", 1), chain(run)
    items = [(kvbm.key(block), content(block[0])) for block in made]
    expect(run.client(gateway).batch_put(items, 77) == ["OK"] * len(items), "the gateway refuses")
    for block, (_key, body) in zip(made, items):
        expect(kvbm.has(block) == SIZE and kvbm.get(block)[1] == body, "KVBM reads other bytes")
    expect_same(move(run, server, "get", "b", 1, made), ["OK"] * len(made), "KVTier", "without the gateway")


def scenario(run):
    server = run.minio().start()
    client = run.client(server)
    client.create_bucket()
    for revision in "abc":
        with run.case(f"KVBM reads what KVTier wrote, keys of revision {revision}"):
            ours_is_theirs(run, server, client, revision)
        with run.case(f"KVTier reads what KVBM wrote, keys of revision {revision}"):
            theirs_is_ours(run, server, client, revision)
        with run.case(f"what is not the block is never read, keys of revision {revision}"):
            no_wrong_byte(run, server, client, revision)
    with run.case("KVBM reads what a gateway wrote"):
        through_a_gateway(run, server, client)


if __name__ == "__main__":
    main(scenario)
