#!/usr/bin/env python3
"""`kvtier g4 fsck` and `g4 gc`: damage of every kind is found, what is safe is repaired, blocks stay."""

import base64
import hashlib
import json
import os
import subprocess
import time

import blocks
import poison
from harness import expect, expect_same, main, wait_until
from system import MIB, catalog_keys, volume

COUNT = 6  # objects of each kind
SERVERS = ("minio", "versitygw")


def options(parser):
    parser.add_argument("--server", choices=SERVERS, help="only this one")


class Cli:
    def __init__(self, run, gateway):
        self.argv = [run.program("kvtier"), "--gateway-url", f"http://127.0.0.1:{gateway.admin}",
                     "--admin-token-file", f"{run.folder}/token", "-o", "json"]

    def lines(self, *argv, status=(0,)):
        """The JSON lines of a command that has to end with one of these statuses."""
        done = subprocess.run([*self.argv, *argv], capture_output=True, text=True, timeout=120, check=False)
        expect(done.returncode in status,
               lambda: f"kvtier {' '.join(argv)}: exit {done.returncode}, not {status}: {done.stdout[-800:]}{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def findings(self, *argv, status=(0,)):
        """The set of (key, finding), and the summary."""
        *rows, summary = self.lines(*argv, status=status)
        found = {(row["key"], row["finding"]) for row in rows}
        expect(len(found) == len(rows), "something was told twice")
        return found, summary


def committed(run, where, cli, bucket, client, gateway):
    """Commit records put through the gateway: of a block that somebody takes out of the bucket, and of none."""
    gone, none = poison.Block(run.rng), poison.Block(run.rng)
    records = [f"poison/ns/{block.key.rsplit('/', 1)[1]}.meta" for block in (gone, none)]
    with run.case(f"{where}: the commit record of a block that has a row stays, and goes with the row"):
        expect(client.batch_put([(gone.key, gone.body)], poison.FINGERPRINT) == ["OK"], "cannot store")
        for record in records:
            expect(client.put(record, b"").status == 200, "cannot store a record")
        expect(bucket.delete(gone.key).status == 204, "cannot delete")
        found, _summary = cli.findings("g4", "fsck", status=(8,))
        expect_same(found, {(gone.key, "row-without-object"), (records[1], "meta-without-data")}, "told", "planted")
        for wanted in (3, 0):  # the row, and then both records
            _found, summary = cli.findings("g4", "fsck", "--repair")
            expect(summary["repaired"] == wanted and summary["failed"] == 0, f"{summary}, {wanted} expected")
        expect(not {key for key, _size in bucket.list()} & set(records), "a record without its block is left")
        expect(client.get(gone.key).status == 404, "what was taken out of the bucket is served")
        rows = {row["key"] for row in gateway.pages("/v1/objects?tier=cold")}
        expect(not rows & {*records, gone.key}, "a row without object is left")


def plant(run, bucket, stored, files):
    """{finding: keys} beside what poison damages."""
    keys = {"row-without-object": [block.key for block in stored.bad["foreign"]]}
    for key in keys["row-without-object"]:
        expect(bucket.delete(key).status == 204, "cannot delete")
    keys["row-without-file"] = [block.key for block in stored.bad["exchanged"]]
    for key in keys["row-without-file"]:
        os.unlink(files[key])
    strangers = [poison.Block(run.rng) for _ in range(COUNT)]
    for block in strangers:
        meta = {"x-amz-meta-kvt-length": str(len(block.body)),
                "x-amz-meta-kvt-crc32c": f"{blocks.crc32c(block.body):08x}",
                "x-amz-meta-kvt-fingerprint": f"{poison.FINGERPRINT:016x}"}
        expect(bucket.put(block.key, block.body, meta).status == 200, "cannot plant")
    keys["object-without-row"] = [block.key for block in strangers]
    keys["foreign-block"] = [poison.Block(run.rng).key for _ in range(COUNT)]
    keys["foreign-key"] = [f"notes/{n}.txt" for n in range(COUNT)]
    for key in keys["foreign-block"] + keys["foreign-key"]:
        expect(bucket.put(key, b"somebody's").status == 200, "cannot plant")
    plant_records(run, bucket, keys)
    return keys


def plant_records(run, bucket, keys):
    """Commit records of KVBM, complete, without data and missing; locks that are over and that are no locks."""
    data = [blocks.key(run.rng.getrandbits(64)) for _ in range(3 * COUNT)]
    for key in data[:2 * COUNT]:
        expect(bucket.put(key, b"KVBM's").status == 200, "cannot plant")
    for key in data[:COUNT] + data[2 * COUNT:]:
        expect(bucket.put(key[2:] + ".meta", b"").status == 200, "cannot plant")
    keys["foreign-block"] += data[:2 * COUNT]
    keys["data-without-meta"] = data[COUNT:2 * COUNT]
    keys["meta-without-data"] = [key[2:] + ".meta" for key in data[2 * COUNT:]]
    lock = {"instance_id": "dead", "acquired_at": "2026-01-01T00:00:00.000Z", "deadline": "2026-01-01T00:00:01.000Z"}
    expect(bucket.put("over.lock", json.dumps(lock).encode()).status == 200, "cannot plant")
    expect(bucket.put("yarn.lock", b"# yarn").status == 200, "cannot plant")
    keys["lock-over"], keys["lock-unreadable"] = ["over.lock"], ["yarn.lock"]


def survey(run, where, cli, bucket, stored, keys):
    with run.case(f"{where}: every kind is found, and nothing is changed"):
        before = bucket.list()
        found, summary = cli.findings("g4", "fsck", status=(8,))
        wanted = {(key, finding) for finding, listed in keys.items() for key in listed}
        wanted |= {(block.key, "damaged") for kind in stored.bad.values() for block in kind}
        expect_same(found, wanted, "told", "planted")
        expect(summary["repaired"] == summary["failed"] == 0, summary)
        expect(bucket.list() == before, "fsck without --repair changed the bucket")


def repair(run, where, cli, bucket, stored, keys, gateway):
    with run.case(f"{where}: --repair does what is safe, and no whole block goes"):
        _found, summary = cli.findings("g4", "fsck", "--repair", status=(0,))
        wanted = sum(len(keys[kind]) for kind in
                     ("row-without-object", "row-without-file", "object-without-row", "meta-without-data")) + 3 * COUNT
        expect(summary["repaired"] == wanted and summary["failed"] == 0, f"{summary}, {wanted} expected")
        left = {key for key, _size in bucket.list()}
        expect(not left & set(keys["meta-without-data"]), "a commit record without data is left")
        for key in keys["object-without-row"] + keys["foreign-block"] + keys["foreign-key"] + \
                [block.key for block in stored.good] + keys["lock-over"]:
            expect(key in left, f"{key} is gone")
        rows = catalog_keys(gateway, "cold")
        expect(set(keys["object-without-row"]) <= rows, "a whole block was not taken up")
        expect(not set(keys["row-without-object"]) & rows, "a row without object is left")
    with run.case(f"{where}: a second run finds only what is left alone"):
        found, _summary = cli.findings("g4", "fsck", status=(0, 8))
        kinds = {finding for _key, finding in found}
        allowed = {"foreign-block", "foreign-key", "data-without-meta", "tombstone", "lock-over", "lock-unreadable",
                   "file-without-row"}
        expect(kinds <= allowed, f"still {kinds - allowed}")


def collect(run, where, cli, bucket, stored, keys):
    with run.case(f"{where}: gc says what it would do, then does it"):
        tombstone = {"x-amz-meta-kvt-length": "0", "x-amz-meta-kvt-crc32c": "00000000",
                     "x-amz-meta-kvt-fingerprint": "0" * 16, "x-amz-meta-kvt-writer": "tombstone"}
        expect(bucket.put(poison.Block(run.rng).key, b"", tombstone).status == 200, "cannot plant")
        found, _summary = cli.findings("g4", "gc", "--older-than", "0s")
        tombstones = [key for key, finding in found if finding == "tombstone"]
        expect(("over.lock", "lock-over") in found, "the lock is not found")
        _found, summary = cli.findings("g4", "gc", "--yes")
        expect(summary["young"] == len(tombstones) and summary["repaired"] == 1, f"young ones were not left: {summary}")
        _found, summary = cli.findings("g4", "gc", "--yes", "--older-than", "0s", status=(4,))
        expect(summary["failed"] == len(tombstones) > 0, f"deleted without --alone: {summary}")
        time.sleep(2.2)  # whole seconds of the server's clock; versitygw's Date may be one behind
        cli.findings("g4", "gc", "--yes", "--alone", "--older-than", "1s")
        left = dict(bucket.list())
        expect(not set(tombstones) & set(left), "a tombstone is left")
        expect(json.loads(bucket.get("over.lock").body)["released"] is True, "the lock was not freed by its protocol")
        expect(bucket.get("yarn.lock").body == b"# yarn", "what is no lock was touched")
        for key in keys["object-without-row"] + keys["foreign-block"] + [block.key for block in stored.good]:
            expect(left.get(key, 0) > 0, f"gc took the block {key}")


def uploads_of(bucket):
    answer = bucket.request("GET", f"/{bucket.bucket}", query={"uploads": "", "prefix": "notes/large"})
    return answer.body.count(b"<UploadId>")


def left_overs(run, where, server, cli, bucket):
    """Uploads of others in the bucket, which MinIO tells only of when it is asked for their key."""
    credentials = run.file("bucket.credentials", f"{bucket.access}:{bucket.secret}")
    store = ("--s3", server.url, "--s3-credentials-file", credentials, "--bucket", bucket.bucket)
    with run.case(f"{where}: uploads left in the bucket are told, given up when they are old, and only then"):
        for name in ("notes/large one", "notes/large+two"):
            answer = bucket.request("POST", f"/{bucket.bucket}/{name}", query={"uploads": ""})
            expect(answer.status == 200, f"begin an upload: {answer.status} {answer.body}")
        _found, summary = cli.findings("g4", "gc", "--yes", *store)
        listed = summary["young"]
        expect(listed == (2 if where == "versitygw" else listed), f"{listed} uploads listed")
        time.sleep(1.1)
        found, summary = cli.findings("g4", "gc", "--yes", "--older-than", "1s", *store, status=(0, 4))
        given_up = sum(finding == "upload-left" for _key, finding in found)
        expect(given_up == listed, f"{given_up} of {listed} given up")
        if listed == 2:
            expect(uploads_of(bucket) == 0, "an upload is left")
    with run.case(f"{where}: doctor tells what the bucket's settings do to a cap"):
        done = subprocess.run([*cli.argv, "doctor", *store], capture_output=True, text=True, timeout=120, check=False)
        rows = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
        for name in ("s3 versions", "s3 object lock", "s3 lifecycle"):
            expect(rows[name]["state"] == "ok", f"{name}: {rows[name]}")
        if where == "minio":
            body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
            expect(bucket.request("PUT", f"/{bucket.bucket}", {"versioning": ""}, body=body).status == 200, "versions")
            body = (b"<LifecycleConfiguration><Rule><ID>parts</ID><Status>Enabled</Status><Filter><Prefix>0/</Prefix>"
                    b"</Filter><Expiration><Days>7</Days></Expiration></Rule></LifecycleConfiguration>")
            md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
            expect(bucket.request("PUT", f"/{bucket.bucket}", {"lifecycle": ""}, {"content-md5": md5}, body).status == 200,
                   "lifecycle")
            done = subprocess.run([*cli.argv, "doctor", *store], capture_output=True, text=True, timeout=120, check=False)
            rows = {row["check"]: row for row in json.loads(done.stdout)["checks"]}
            expect(rows["s3 versions"]["state"] == "warn", rows["s3 versions"])
            expect("but not the .meta" in rows["s3 lifecycle"]["text"], rows["s3 lifecycle"])
    with run.case(f"{where}: damage is listed, with its reason"):
        entries = cli.lines("g4", "quarantine", "ls", "--limit", "2000")[0]["entries"]
        expect(len(entries) >= 3 * COUNT and all(entry["reason"] for entry in entries), f"{len(entries)} entries")


def gateway_is_told(run, where, cli, gateway):
    with run.case(f"{where}: doctor tells a gateway from a bucket"):
        done = subprocess.run([*cli.argv, "doctor", "--s3", f"http://127.0.0.1:{gateway.front}",
                               "--s3-credentials-file", f"{run.folder}/s3.cred"],
                              capture_output=True, text=True, timeout=120, check=False)
        row = {row["check"]: row for row in json.loads(done.stdout)["checks"]}["s3 conditions"]
        expect(row["state"] == "warn" and "a KVTier gateway answers there" in row["text"], row)


def check(run, nats, server):
    where = server.name
    bucket = run.client(server)
    bucket.create_bucket()
    gateway = run.gateway(nats, f"gwfsck{where}", server, hot_capacity=256 * MIB, quarantine_max=2000).start()
    client = run.client(gateway)
    cli = Cli(run, gateway)
    with run.case(f"{where}: an empty bucket and a good one have no findings"):
        expect(cli.findings("g4", "fsck")[0] == set(), "findings in an empty bucket")
        stored = poison.Stored(run, client, ("truncated", "empty", "flipped", "foreign", "exchanged"), COUNT)
        found, summary = cli.findings("g4", "fsck")
        expect(not found and summary["keys"] == 6 * COUNT, f"{found} {summary}")
    committed(run, where, cli, bucket, client, gateway)
    files = volume(gateway.settings["hot.dir"])
    keys = plant(run, bucket, stored, files)
    kept = stored.bad
    stored.bad = {kind: kept[kind] for kind in ("truncated", "empty", "flipped")}
    poison.damage_bucket(bucket, stored)
    wait_until(lambda: None if gateway.ask("/v1/inspect/over.lock")["finding"] == "lock-over" else "held",
               30, "the end of a lease")
    survey(run, where, cli, bucket, stored, keys)
    repair(run, where, cli, bucket, stored, keys, gateway)
    collect(run, where, cli, bucket, stored, keys)
    with run.case(f"{where}: good blocks are served, damaged ones can be stored again"):
        poison.read_every_way(client, stored.good, [], also_good=True)
        poison.rewritten(client, [block for kind in kept for block in kept[kind]])
    left_overs(run, where, server, cli, bucket)
    gateway_is_told(run, where, cli, gateway)
    client.close()
    expect(gateway.stop() == 0, f"{gateway.name}: {gateway.tail()}")


def scenario(run):
    nats = run.nats().start()
    for name in (run.args.server,) if run.args.server else SERVERS:
        check(run, nats, getattr(run, name)().start())


if __name__ == "__main__":
    main(scenario, options)
