#!/usr/bin/env python3
"""A tenant is purged from a real store, and it is proven that nothing of him is left.

Blocks in hot volume and bucket, packed segments, objects that nobody was told of, tombstones, locks, uploads
that nobody completed at the gateway and in the bucket (clients', strangers', and what a killed gateway began),
and damaged copies in quarantine; while gateway and advisor are killed with -9, and while somebody still writes.
Other tenants' bytes stay as they are."""

import json
import os
import random
import subprocess
import threading
import time

import blocks
import harness
import system
from harness import expect, wait_until

COUNT = 60        # blocks of each namespace
SPACES = ("acme/llama", "acme/qwen", "acme/packed", "acme", "acmeco/llama", "other/packed", "other/llama", "")
PACKED = ("acme/packed", "other/packed")
EMPTY_MANIFEST = 64
KILLS = 8
LARGE = 12 << 20  # travels in parts
TRIES = 60


class World:
    def __init__(self, run, where):
        self.run, self.where = run, where
        self.nats = run.nats(f"{where}-nats").start()
        self.server = getattr(run, where)().start()
        self.bucket = run.client(self.server)
        self.bucket.create_bucket()
        self.advisor = run.advisor(self.nats, f"{where}-advisor").start()
        self.gateway = self.start_gateway("gw0").start()
        self.gateways = [self.gateway]
        self.others = ()  # flags: where the other gateways are
        self.front = run.client(self.gateway)
        self.bodies = {}  # what was put, by key
        self.begun = {"acme/notes/large"}  # keys of uploads that nobody completed

    def start_gateway(self, name):
        return self.run.gateway(self.nats, name, self.server, **{
            "state.dir": f"{self.run.folder}/{self.where}-{name}", "hot.dir": f"{self.run.folder}/{self.where}-{name}-hot",
            "hot.capacity": "64MiB", "s3.part_size": "5MiB", "packed.namespaces": ",".join(PACKED), "packed.age": "0s",
            "packed.block_max": "128KiB", "packed.segment_size": "512KiB", "packed.interval": "1h"})

    def kvtier(self, *words):
        argv = [self.run.program("kvtier"), "--advisor-url", f"http://127.0.0.1:{self.advisor.admin}",
                "--gateway-url", f"http://127.0.0.1:{self.gateway.admin}", "-o", "json",
                "--admin-token-file", f"{self.run.folder}/token", *self.others, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
                              env={"XDG_CONFIG_HOME": self.run.folder})
        answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return done.returncode, answer, done.stderr

    # What there is ------------------------------------------------------------------------------

    def put(self, space, count=COUNT):
        rng = self.run.rng
        items = {}
        for _ in range(count):
            key = blocks.key(rng.getrandbits(64), rng.choice((0, 1, 300)), rng.getrandbits(64), space)
            items[key] = rng.randbytes(rng.choice((4096, 16384, 65536)))
        for key, body in items.items():
            expect(self.front.put(key, body).status == 200, f"put {key}")
        self.bodies.update(items)
        return list(items)

    def fill(self):
        keys = {space: self.put(space) for space in SPACES}
        for space in PACKED:
            self.pack(space)
        return keys

    def pack(self, space):
        self.gateway.ask("/v1/compact", {"namespace": space}, token=self.run.token)

        def packed():
            row = next(row for row in self.gateway.status()["packing"] if row["namespace"] == space)
            return None if row["blocks"] >= COUNT // 2 and row["pending"] == 0 else f"{row}"
        wait_until(packed, 60 * self.run.slow, f"{space} is packed")

    def litter(self, keys):
        """What no event tells of."""
        name = keys["acme/llama"]
        rng = self.run.rng
        stranger = blocks.key(rng.getrandbits(64), 0, 0, "acme/llama")
        expect(self.bucket.put(stranger, b"somebody else's").status == 200, "a stranger's block")
        expect(self.bucket.put(blocks.key(rng.getrandbits(64), 0, 0, "acme/llama"), b"", {
            "x-amz-meta-kvt-writer": "tombstone"}).status == 200, "a tombstone")
        expect(self.bucket.put("acme/llama/0/1:2.meta", b"{}").status == 200, "a commit record")
        expect(self.bucket.put("acme/llama/gone.lock", b"{}").status == 200, "a lock")
        expect(self.bucket.put("acme/notes.txt", b"private").status == 200, "a note")
        begun = self.front.request("POST", "/kvtier/acme/notes/large", query={"uploads": ""})
        expect(begun.status == 200, f"an upload at the gateway: {begun.status}")
        upload = begun.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
        part = self.front.request("PUT", "/kvtier/acme/notes/large", query={"uploadId": upload, "partNumber": "1"},
                                  body=b"part" * 1000)
        expect(part.status == 200, "a part")
        self.begun.add(stranger)
        for key in (name[0], stranger):
            begun = self.bucket.request("POST", f"/kvtier/{key}", query={"uploads": ""})
            expect(begun.status == 200, f"an upload in the bucket: {begun.status}")
        expect(self.bucket.put(name[1], b"damaged", {"x-amz-meta-kvt-length": "7"}).status == 200, "damage")
        self.gateway.ask("/v1/verify", {"key": name[1]}, token=self.run.token)
        expect(self.quarantined("acme/"), "nothing is in quarantine")

    def quarantined(self, prefix, gateway=None):
        entries = (gateway or self.gateway).ask("/v1/quarantine?limit=2000")["entries"]
        return [entry for entry in entries if entry["key"].startswith(prefix)]

    # What is left -------------------------------------------------------------------------------

    def left(self, prefix):
        """Everything below `prefix`, looked for without the gateway's help where that can be."""
        found = []
        for key, size in self.bucket.list(prefix):
            empty = "/.kvt/manifest/" in key and size == EMPTY_MANIFEST
            if not empty and not key.endswith("/.kvt/compaction.lock"):
                found.append(f"bucket {key}")
        for key in {*self.bodies} | self.begun:  # MinIO lists uploads by whole key
            if key.startswith(prefix):
                found += [f"upload {key}"] * self.uploads_to(key)
        for gateway in self.gateways:
            found += self.left_at(gateway, prefix)
        space = prefix.rstrip("/")
        found += [f"index {row['namespace']} {row['hash']}" for row in self.advisor.pages("/v1/index/dump")
                  if row["namespace"] == space or row["namespace"].startswith(prefix)]
        return found

    def left_at(self, gateway, prefix):
        found = [f"row {row['key']}" for row in gateway.pages(f"/v1/objects?prefix={prefix}")]
        found += [f"hot {key}" for key in system.volume(gateway.settings["hot.dir"]) if key.startswith(prefix)]
        for name in ("uploads", "begun"):
            for folder, _, files in os.walk(os.path.join(gateway.settings["state.dir"], name)):
                for file in files:
                    with open(os.path.join(folder, file), "rb") as content:
                        if prefix.encode() in content.read():
                            found.append(f"{name} {file}")
        return found + [f"quarantine {entry['key']}" for entry in self.quarantined(prefix, gateway)]

    def uploads_to(self, key):
        answer = self.bucket.request("GET", "/kvtier", query={"uploads": "", "prefix": key})
        return answer.body.count(b"<UploadId>")

    def uploads_on_disk(self):
        """Where the server itself keeps uploads, whoever began them: a folder each."""
        folder = {"minio": "minio/.minio.sys/multipart", "versitygw": "versitygw/kvtier/.sgwtmp/multipart"}[self.where]
        folder = os.path.join(self.run.folder, folder)
        return [f"{key}/{upload}" for key in sorted(os.listdir(folder)) if os.path.isdir(os.path.join(folder, key))
                for upload in os.listdir(os.path.join(folder, key)) if os.path.isdir(os.path.join(folder, key, upload))]

    def check_others(self, gone):
        """Every block of the others, byte by byte."""
        for key, body in self.bodies.items():
            if not key.startswith(gone):
                answer = self.front.get(key)
                expect(answer.status == 200 and answer.body == body, f"{key}: {answer.status}")

    def expect_proven(self, status, answer):
        """Everything, and how uploads were looked for is what this server can be asked."""
        bad = [check for check in answer.get("checks", ()) if not check["proven"]]
        expect(status == 0 and answer["proven"] and not bad, f"exit status {status}, not proven: {bad}")
        how = [check["how"] for check in answer["checks"] if check["place"].endswith("uploads begun in the bucket")]
        wanted = {"minio": "by record and by key", "versitygw": "by prefix"}[self.where]
        expect(how and all(text.startswith(wanted) for text in how), f"{how}")


def refusals(world):
    with world.run.case(f"{world.where}: what cannot be meant is refused, and nothing is changed"):
        before = world.bucket.list()
        for words in (("", "--yes"), ("a/b", "--yes"), ("acme",), ("acme", "--model", "", "--dry-run", "more")):
            status, _answer, text = world.kvtier("tenant", "purge", *words)
            expect(status == 2, f"{words}: {status} {text}")
        for words in (("0", "--yes"), ("acme", "--model", "0", "--yes"), (".kvtier-object", "--yes")):
            status, _answer, text = world.kvtier("tenant", "purge", *words)
            expect(status not in (0, 8), f"{words}: {status} {text}")
        status, _body = world.gateway.raw("/v1/purge", b'{"namespace": "acme", "act": true}')
        expect(status == 401, f"without a token: {status}")
        kept = world.quarantined("acme/")
        entry = os.path.basename(kept[0]["file"]).removesuffix(".body")
        for path, body in (("/v1/quarantine", {"action": "drop", "id": entry, "dry_run": "true"}),
                           ("/v1/compact", {"namespace": "acme/qwen", "dry_run": 1})):
            status, told = world.gateway.raw(path, json.dumps(body).encode(), token=world.run.token)
            expect(status == 400 and b"dry_run" in told, f"{path} with a dry_run that is neither true nor false: {status}")
        expect(world.quarantined("acme/") == kept, "something was dropped")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--dry-run")
        expect(status == 10 and not answer["proven"], f"dry run: {status}")
        found = {check["place"].removeprefix("gw0: "): check["left"] for check in answer["checks"]}
        wanted = ["rows of the catalog", "files on the hot volume", "objects in the bucket", "locks in the bucket",
                  "packed segments", "manifests that name blocks", "uploads begun at the gateway",
                  "uploads begun in the bucket", "copies in quarantine"]
        for place in wanted:
            expect(found[place] > 0, f"the dry run sees none: {place}")
        expect(found["uploads begun in the bucket"] == 2, f"{found}")
        expect(world.bucket.list() == before, "the dry run changed the bucket")
        status, answer, _text = world.kvtier("tenant", "purge", "nobody", "--dry-run")
        expect(status == 9, f"nobody: {status}")


def usage(world):
    with world.run.case(f"{world.where}: usage tells what each tenant has"):
        def told():
            _status, answer, _text = world.kvtier("tenant", "usage")
            rows = {row["tenant"]: row for row in answer["tenants"]}
            short = {tenant: rows.get(tenant, {}).get("blocks") for tenant, count in
                     (("", COUNT), ("acmeco", COUNT), ("other", 2 * COUNT)) if rows.get(tenant, {}).get("blocks") != count}
            return None if not short else str(short)
        wait_until(told, 30 * world.run.slow, "the index has heard of all")
        _status, answer, _text = world.kvtier("tenant", "usage", "other")
        row = {row["namespace"]: row for row in answer["namespaces"]}["other/llama"]
        size = sum(len(body) for key, body in world.bodies.items() if key.startswith("other/llama/"))
        expect(row["cold_bytes"] == size, f"{row} instead of {size} bytes")
        expect(world.kvtier("tenant", "usage", "nobody")[0] == 3, "usage of nobody")


def by_model(world):
    with world.run.case(f"{world.where}: one model goes, the tenant's others stay"):
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--model", "qwen", "--yes")
        world.expect_proven(status, answer)
        expect(not world.left("acme/qwen/"), f"left: {world.left('acme/qwen/')[:3]}")
        world.bodies = {key: body for key, body in world.bodies.items() if not key.startswith("acme/qwen/")}
        kept = [key for key in world.bodies if key.startswith(("acme/packed/", "acme/0/"))]
        for key in kept:
            expect(world.front.get(key).body == world.bodies[key], f"{key} is gone")
        world.check_others("acme/")


def unfinished(world):
    with world.run.case(f"{world.where}: of what a killed gateway uploaded, nothing but its note tells"):
        for i in range(TRIES):
            key = blocks.key(world.run.rng.getrandbits(64), 0, 0, "acme/llama")
            body = world.run.rng.randbytes(LARGE)
            world.begun.add(key)

            def put(key=key, body=body):
                try:
                    world.front.put(key, body)
                except OSError:
                    pass  # it was killed
            writer = threading.Thread(target=put)
            writer.start()
            time.sleep(world.run.rng.random() * 0.2 * world.run.slow)
            world.gateway.kill()
            writer.join()
            world.gateway.start()
            if world.uploads_to(key):
                break
        expect(world.uploads_to(key), f"{TRIES} kills left no upload behind")
        world.run.note(f"{i + 1} kills until an upload was left behind")
        world.server.kill()  # MinIO forgets what it heard of
        world.server.start()

        def settled():
            row = [row for row in world.gateway.pages("/v1/objects?prefix=acme/llama/") if row["key"] == key]
            return f"{row}" if row else None
        wait_until(settled, 60 * world.run.slow, "the block is forgotten")
        expect(not world.bucket.list(key), "it is an object")
        expect(world.uploads_on_disk(), "the server keeps no uploads where they are looked for")


def kill_while_purging(world, victim):
    """Begin, kill somewhere in the middle, and say how the command ended."""
    killer = threading.Timer(world.run.rng.random() * 0.3, victim.kill)
    killer.start()
    status, _answer, _text = world.kvtier("tenant", "purge", "acme", "--yes", "--settle", "2s")
    killer.join()
    victim.start(wait=False, seconds=60)
    wait_until(victim.is_alive, 60 * world.run.slow, "it comes back", every=0.05)
    return status


def by_tenant(world):
    with world.run.case(f"{world.where}: a tenant goes, while gateway and advisor are killed and blocks come back"):
        broken = 0
        for i in range(KILLS):
            victim = world.advisor if i % 4 == 3 else world.gateway
            status = kill_while_purging(world, victim)
            broken += status == 5
            wait_until(world.gateway.is_ready, 60 * world.run.slow, "the gateway is ready")
            world.put("acme/llama", 20)
            world.put("acme/packed", COUNT)
            world.pack("acme/packed")
        world.run.note(f"{broken} of {KILLS} purges were broken off")
        expect(broken > 0, "no purge was broken off")
        wait_until(world.advisor.is_ready, 60 * world.run.slow, "the advisor is ready")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes")
        world.expect_proven(status, answer)
        left = world.left("acme/")
        expect(not left, f"{len(left)} left: {left[:3]}")
        expect(not world.uploads_on_disk(), f"the server keeps {world.uploads_on_disk()}")
        world.check_others("acme/")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes")
        world.expect_proven(status, answer)
        expect(answer["removed"] == 0, f"again removed {answer['removed']}")


def write_until(stop, client, seed):
    rng = random.Random(seed)
    while not stop.is_set():
        client.put(blocks.key(rng.getrandbits(64), 0, 0, "acme/llama"), rng.randbytes(4096))
        time.sleep(0.002)


def against_writers(world):
    with world.run.case(f"{world.where}: what is written meanwhile goes, too"):
        stop = threading.Event()
        threads = [threading.Thread(target=write_until, args=(stop, run_client, world.run.rng.getrandbits(64)))
                   for run_client in (world.run.client(world.gateway), world.run.client(world.gateway))]
        for thread in threads:
            thread.start()
        timer = threading.Timer(2, stop.set)
        timer.start()
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes")
        stop.set()
        for thread in threads:
            thread.join()
        expect(status in (0, 8) and answer["removed"] > 0, f"status {status}: {answer}")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes")
        world.expect_proven(status, answer)
        expect(not world.left("acme/"), "something is left")


def two_gateways(world):
    run = world.run
    with run.case(f"{world.where}: what a gateway has that was not asked is not called proven"):
        other = world.start_gateway("gw1").start()
        world.gateways.append(other)
        client = run.client(other)
        for number in range(COUNT):
            expect(client.put(blocks.key(number, 0, 0, "acme/llama"), b"x" * 4096).status == 200, "put at the other")
        begun = client.request("POST", "/kvtier/acme/notes/other", query={"uploads": ""})
        expect(begun.status == 200, "an upload at the other")
        wait_until(lambda: None if len(world.advisor.status()["gateways"]) == 2 else "one gateway",
                   30 * run.slow, "the advisor hears of it")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes", "--settle", "2s")
        bad = {check["place"]: check["why_not"] for check in answer["checks"] if not check["proven"]}
        expect(status == 8 and "--gateway-others" in bad["gw1: volume, uploads, quarantine"], f"{status} {bad}")
        expect(world.left_at(other, "acme/"), "the other has nothing left")
    with run.case(f"{world.where}: one that does not answer is named"):
        world.others = ("--gateway-others", f"http://127.0.0.1:{other.admin}")
        other.stop()
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes", "--settle", "2s")
        bad = {check["place"]: check["why_not"] for check in answer["checks"] if not check["proven"]}
        expect(status == 8 and "kvtier tenant purge acme" in bad[f"http://127.0.0.1:{other.admin}: all of it"], f"{status} {bad}")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--dry-run")
        expect(status == 8, f"dry run: {status}")
        other.start()
        wait_until(other.is_ready, 60 * run.slow, "the other is back")
    with run.case(f"{world.where}: one command purges all gateways of a bucket"):
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes")
        world.expect_proven(status, answer)
        places = [check["place"] for check in answer["checks"]]
        for name in ("gw0", "gw1"):
            expect(f"{name}: files on the hot volume" in places, f"{places}")
        expect(not world.left("acme/"), f"left: {world.left('acme/')[:3]}")
        world.check_others("acme/")
    with run.case(f"{world.where}: nothing is claimed while somebody writes"):
        stop = threading.Event()
        threads = [threading.Thread(target=write_until, args=(stop, run.client(gateway), run.rng.getrandbits(64)))
                   for gateway in world.gateways]
        for thread in threads:
            thread.start()
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes", "--settle", "1s")
        stop.set()
        for thread in threads:
            thread.join()
        bad = [check["why_not"] for check in answer["checks"] if not check["proven"]]
        expect(status == 8 and not answer["proven"], f"status {status}: {answer}")
        expect(any("somebody still writes" in why for why in bad), f"{bad}")
        status, answer, _text = world.kvtier("tenant", "purge", "acme", "--yes")
        world.expect_proven(status, answer)
        expect(not world.left("acme/"), f"left: {world.left('acme/')[:3]}")
        expect(not world.uploads_on_disk(), f"the server keeps {world.uploads_on_disk()}")
        other.stop()


def scenario(run):
    for where in ("minio", "versitygw"):
        world = World(run, where)
        keys = world.fill()
        world.litter(keys)
        usage(world)
        refusals(world)
        by_model(world)
        unfinished(world)
        by_tenant(world)
        against_writers(world)
        two_gateways(world)
        for process in (world.gateway, world.advisor, world.server, world.nats):
            process.stop()


if __name__ == "__main__":
    harness.main(scenario)
