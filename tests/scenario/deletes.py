#!/usr/bin/env python3
"""The gateway is the last guard: what the advisor deletes for room goes, what it is misled to does not.

A writer at full speed and a cap that the planner keeps by deletions; then orders that are signed with
the right key and are wrong, as those of an advisor that believed a forged report."""

import functools
import threading
import time

import blocks
import s3
from harness import expect, main, wait_until
from issuer import Issuer

MIB = 1 << 20
SPACE = "acme"
SIZE = 64 << 10
CAP = 16 * MIB
BATCH = 16
WRITERS = 3
ROOM, QUOTA, EXPIRE, JOB = 1, 2, 3, 4


def options(parser):
    parser.add_argument("--seconds", type=int, default=20, help="how long the writers write")
    parser.add_argument("--minutes-of-writing", type=int, help="the same in minutes")


class Writer(threading.Thread):
    """Stores blocks as fast as it can; remembers all that were acknowledged."""

    def __init__(self, rig, number):
        super().__init__(daemon=True)
        self.client, self.rig, self.number = rig.run.client(rig.gateway), rig, number
        # Few bodies, whose checksums are computed once: writers are to be fast.
        self.bodies = [rig.run.rng.randbytes(SIZE) for _ in range(16)]
        self.acked, self.full, self.error, self.stopping = {}, 0, None, threading.Event()

    def run(self):
        try:
            serial = 0
            while not self.stopping.is_set():
                batch = []
                for _ in range(BATCH):
                    serial += 1
                    hash_ = self.number << 40 | serial
                    batch.append((hash_, blocks.key(hash_, namespace=SPACE), self.bodies[serial % 16]))
                answers = self.client.batch_put([(key, body) for _, key, body in batch])
                for (hash_, key, body), answer in zip(batch, answers):
                    if answer == "OK":
                        self.acked[hash_] = (key, body)
                    else:
                        self.full += 1
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error


class Rig:
    def __init__(self, run):
        self.run = run
        self.seconds = (run.args.minutes_of_writing or 0) * 60 or run.args.seconds
        minio = run.minio().start(seconds=60)
        self.bucket = run.client(minio)
        self.bucket.create_bucket()
        self.nats = run.nats().start()
        self.gateway = run.gateway(self.nats, s3_server=minio, hot_capacity=CAP // 4, cold_capacity=CAP,
                                   **{"report.interval": "100ms"}).start(seconds=60)
        self.advisor = run.advisor(self.nats, policy_mode="enforce", **{
            "policy.cold_start": "80%", "policy.cold_stop": "60%"}).start()

    def cold(self):
        return self.gateway.status()["cold"]

    def deletes(self):
        return self.gateway.status()["deletes"]

    def listed(self):
        return {key for key, _size in self.bucket.list(f"{SPACE}/")}


def write(rig):
    writers = [Writer(rig, number + 1) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    time.sleep(rig.seconds)
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join(60 * rig.run.slow)
        expect(writer.error is None, lambda w=writer: f"a writer ended: {w.error!r}")
    return {hash_: row for writer in writers for hash_, row in writer.acked.items()}, sum(w.full for w in writers)


def scenario(run):
    s3.crc32c = functools.lru_cache(64)(s3.crc32c)
    rig = Rig(run)
    with run.case("cap deletes at full write speed are not hindered by the guard"):
        acked, full = write(rig)
        expect(2 * len(acked) * SIZE > 3 * CAP, f"{len(acked)} blocks: too few to need room")
        wait_until(lambda: None if rig.cold()["used_bytes"] < CAP * 8 // 10 else str(rig.cold()), 60 * run.slow,
                   "the bucket is drained")
        run.note(f"{len(acked)} blocks acknowledged, {full} answered full, {rig.deletes()['refused']} refused")
        expect(rig.deletes()["refused"] == 0, rig.deletes())
        expect(rig.cold()["used_bytes"] <= CAP, rig.cold())
        expect(not any("deletes-refused" in text for text in rig.gateway.status()["reasons"]),
               rig.gateway.status()["reasons"])
    expect(rig.advisor.stop() == 0, rig.advisor.tail())
    wait_until(lambda: None if rig.gateway.status()["orders"]["queued"] == 0 else "orders wait", 60 * run.slow,
               "no order is left")
    held = {row[0] for row in acked.values()} & rig.listed()
    items = [[hash_, 0, 0, 1] for hash_, (key, _) in acked.items() if key in held]
    misled = Issuer(run, rig.nats, rig.gateway, SPACE, epoch=1 << 40)

    def refused(cause, text, chosen=None):
        before = rig.deletes()["refused"]
        result = misled.result(misled.send("delete", chosen or items, cause=cause))
        expect(result["done"] == 0 and result["failed"] == len(chosen or items), result)
        expect(text in result["text"], result)
        expect(rig.deletes()["refused"] == before + len(chosen or items), rig.deletes())
        expect(rig.listed() == held, "blocks are gone")

    with run.case("signed orders for room below the stop mark delete nothing, and are a condition"):
        tier = rig.cold()["holder"]
        refused([ROOM, 1, "cap", 0, tier, 900000, 0], "not above its stop mark")
        refused([ROOM, 1, "cap", 0, tier, 900000, 100 * CAP], "not above its stop mark")
        refused([ROOM, 1, "cap", 0, "cold@elsewhere", 0, 1], "a tier that this gateway does not have")
        refused([ROOM, 0, "", 0, tier, 0, 0], "policy version and rule")
        refused([QUOTA, 0, "cap", 0, "", 0, 0], "policy version and rule")
        refused([EXPIRE, 1, "", 0, "", 0, 0], "policy version and rule")
        refused([JOB, 1, "cap", 0, "", 0, 0], "job without an id")
        status = rig.gateway.status()
        expect(any(text.startswith("deletes-refused: ") for text in status["reasons"]), status["reasons"])
        expect(status["deletes"]["cause"] == "job", status["deletes"])
    with run.case("orders without a cause delete a share of the blocks an hour, also over kill -9"):
        entries = rig.gateway.status()["catalog"]["entries"]
        done = 0
        half = len(items) // 2
        for part in (items[:half], items[half:]):
            result = misled.result(misled.send("delete", part, cause=()))
            done += result["done"]
            rig.gateway.kill()
            rig.gateway.start(seconds=60)
        expect(done == entries // 10, f"{done} of {entries} were deleted")
        result = misled.result(misled.send("delete", items[half:], cause=()))
        expect(result["done"] == 0 and "orders.max_delete_share" in result["text"], result)
        held &= rig.listed()
    with run.case("what is left is read right, and a job deletes what it names"):
        client = run.client(rig.gateway)
        for key, body in acked.values():
            if key in held:
                expect(client.get(key).body == body, f"{key}: other bytes")
        left = [item for item in items if acked[item[0]][0] in held][:20]
        result = misled.result(misled.send("delete", left))
        expect(result["done"] == len(left), result)
        expect(rig.listed() == held - {acked[item[0]][0] for item in left}, "other blocks are gone")
    misled.close()
    expect(rig.gateway.stop() == 0, rig.gateway.tail())


if __name__ == "__main__":
    main(scenario, options)
