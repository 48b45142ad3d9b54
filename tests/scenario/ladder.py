#!/usr/bin/env python3
"""One gateway, two directories and two buckets: orders along all twelve edges, with kill -9 in between.

A client reads every block all the time and checks its bytes; whatever is killed, a block that was
acknowledged is read as it was put.  In the end the catalog says what is there, by `kvtier g4 fsck`, by
the files, and by the buckets themselves; and what clients delete is in none of them."""

import random
import threading
import time

import blocks
from fsck import Cli
from harness import expect, main, wait_until
from issuer import Issuer
from system import volume

SPACE = "acme/ladder"
SIZE = 48 << 10
COUNT = 48
PAGE = 6  # blocks of an order
TIERS = ("hot", "cold", "warm", "far")
EDGES = [(a, b) for a in TIERS for b in TIERS if a != b]
FAST = ("hot", "warm")


def options(parser):
    parser.add_argument("--kills", type=int, default=12, help="kill -9 of the gateway, with each far bucket")
    parser.add_argument("--far", choices=("minio", "versitygw"), help="only with this far bucket")


class Reader(threading.Thread):
    """Reads the blocks one after the other, for ever; other bytes, or none, are a failure."""

    def __init__(self, rig):
        super().__init__(daemon=True)
        self.rig, self.rng = rig, random.Random(rig.run.rng.getrandbits(64))
        self.stopping, self.reads, self.wrong = threading.Event(), 0, None
        self.down = threading.Event()  # a kill, or a bucket that is away: no answer is no wonder

    def run(self):
        client = self.rig.run.client(self.rig.gateway, "near")
        while not self.stopping.is_set() and self.wrong is None:
            key = self.rng.choice(self.rig.keys)
            excused = self.down.is_set()
            try:
                answer = client.get(key)
            except OSError as error:
                if not (excused or self.down.is_set()):
                    self.wrong = f"{key}: {error}"
                client.close()
                time.sleep(0.02)
                continue
            if answer.status == 200 and answer.body != self.rig.bodies[key]:
                self.wrong = f"{key}: other bytes"
            elif answer.status not in (200, 503) or (answer.status == 503 and not
                                                     (excused or self.down.is_set())):
                self.wrong = f"{key}: {answer.status} {answer.body[:200]!r}"
            self.reads += answer.status == 200

    def finish(self):
        self.stopping.set()
        self.join(60 * self.rig.run.slow)
        expect(self.wrong is None, self.wrong)
        expect(self.reads > 0, "nothing was read")


class Rig:
    def __init__(self, run, far):
        self.run, self.far_kind = run, far
        self.near = run.minio(f"near-{far}").start(seconds=60)
        self.far = (run.minio if far == "minio" else run.versitygw)(f"far-{far}").start(seconds=60)
        self.buckets = {"cold": run.client(self.near, "near"), "far": run.client(self.far, "far")}
        for bucket in self.buckets.values():
            bucket.create_bucket()
        self.nats = run.nats(f"nats-{far}").start()
        self.name = f"gw{far}"
        self.gateway = run.gateway(self.nats, self.name, self.near, **{
            "bucket": "near", "hot.capacity": 2 * COUNT * SIZE, "hot.memory": "0",
            "warm.dir": f"{run.folder}/{self.name}-warm", "warm.capacity": (COUNT // 2) * SIZE,
            "far.kind": "s3", "far.bucket": "far", "far.endpoint": self.far.url,
            "report.interval": "200ms", "cold.recheck": "1s"}).start(seconds=60)
        self.issuer = Issuer(run, self.nats, self.gateway, SPACE)
        self.holders = {"hot": f"hot@{self.name}", "warm": f"warm@{self.name}", "cold": "cold@near",
                        "far": "cold@far"}
        self.items = [[run.rng.getrandbits(64), 0, 0, 1] for _ in range(COUNT)]
        self.keys = [blocks.key(item[0], namespace=SPACE) for item in self.items]
        self.bodies = {key: run.rng.randbytes(SIZE) for key in self.keys}
        answers = run.client(self.gateway, "near").batch_put([(key, self.bodies[key]) for key in self.keys])
        expect(set(answers) == {"OK"}, f"cannot store: {answers}")

    def verb(self, edge):
        order = ("hot", "warm", "cold", "far")
        return "demote" if order.index(edge[0]) < order.index(edge[1]) else "promote"

    def send(self, edge, which, keep=False):
        return self.issuer.send(self.verb(edge), [self.items[n] for n in which],
                                edge=(self.holders[edge[0]], self.holders[edge[1]], keep))

    def move(self, edge, which, keep=False):
        result = self.issuer.result(self.send(edge, which, keep), 60)
        expect(result["code"] == 0, result)
        return result

    def is_up(self):
        return self.gateway.is_ready()

    def rows(self):
        """{key: tiers} as the catalog says."""
        found = {}
        for row in self.gateway.pages("/v1/objects", 1000):
            found.setdefault(row["key"], set()).add(row["tier"])
        return found

    def there(self):
        """{key: tiers} as disks and buckets say, asked past the gateway."""
        found = {}
        for tier in FAST:
            for key in volume(self.gateway.settings[f"{tier}.dir"]):
                found.setdefault(key, set()).add(tier)
        for tier, bucket in self.buckets.items():
            for key, size in bucket.list(f"{SPACE}/"):
                found.setdefault(key, set()).add(tier if size else f"tombstone in {tier}")
        return found

    def differ(self):
        """Why rows and what is there are not the same; None: they are, and so are the counters."""
        status = self.gateway.status()
        if status["catalog"]["intents"]:
            return f"{status['catalog']['intents']} rows are to be settled"
        rows, there = self.rows(), self.there()
        wrong = {key: (sorted(rows.get(key, [])), sorted(there.get(key, [])))
                 for key in {*rows, *there} if rows.get(key) != there.get(key)}
        if wrong:
            return f"{len(wrong)} keys: {list(wrong.items())[:3]}"
        for tier in TIERS:
            count = sum(tier in tiers for tiers in there.values())
            if (status[tier]["blocks"], status[tier]["used_bytes"]) != (count, count * SIZE):
                return f"{tier} has {count} blocks, the gateway counts {status[tier]}"
        return None

    def expect_true(self):
        wait_until(self.differ, 60 * self.run.slow, "the rows say what is there", every=0.5)
        found, _summary = Cli(self.run, self.gateway).findings("g4", "fsck")
        expect(found == set(), f"fsck finds {sorted(found)[:5]}")

    def expect_all_read(self):
        client = self.run.client(self.gateway, "near")
        for key in self.keys:
            answer = client.get(key)
            expect(answer.status == 200 and answer.body == self.bodies[key], f"{key}: {answer.status}")


def expected(tiers, edge, keep):
    """Where a block is after a move, by docs/formats.md."""
    source, target = edge
    if source in FAST and target in FAST:
        return (tiers if keep else tiers - {source}) | {target}
    if source in FAST:  # the bucket's copy is made there, or moved, where it is not there already
        buckets = tiers - set(FAST) if target in tiers else {target}
        return {tier for tier in tiers if tier in FAST and (keep or tier != source)} | buckets
    if target in FAST:
        return tiers | {target}
    return (tiers if keep else tiers - {source}) | {target}


def every_edge(rig):
    for edge in EDGES:
        for keep in (False, True):
            which = rig.run.rng.sample(range(COUNT), 3)
            bring(rig, edge[0], which)
            before = rig.rows()
            for _repeat in range(2):
                result = rig.move(edge, which, keep)
                expect(result["done"] == len(which), f"{edge}, keep {keep}: {result}")
            after = rig.rows()
            for n in which:
                key = rig.keys[n]
                wanted = expected(before[key], edge, keep)
                expect(after[key] == wanted, f"{edge}, keep {keep}: {before[key]} became {after[key]}")


def bring(rig, tier, which):
    """Have these blocks on `tier`, and for what moves between buckets on that bucket alone."""
    other = {"cold": "far", "far": "cold"}
    rows = rig.rows()
    for n in which:
        tiers = rows[rig.keys[n]]
        if tier in other:
            if other[tier] in tiers:
                rig.move((other[tier], tier), [n])
        elif tier not in tiers:
            bucket = "cold" if "cold" in tiers else "far"
            rig.move((bucket, tier), [n])


def kill_and_move(rig, reader, kills):
    rng, sent = rig.run.rng, []
    for _ in range(kills):
        for _order in range(rng.randrange(1, 6)):
            sent.append(rig.send(rng.choice(EDGES), rng.sample(range(COUNT), PAGE), rng.random() < 0.2))
        time.sleep(rng.random() * 0.4 * rig.run.slow)
        reader.down.set()
        rig.gateway.kill()
        rig.gateway.start(seconds=60)
        reader.down.clear()
        expect(reader.wrong is None, reader.wrong)
    for number in sent:  # what was left is delivered again, and does no harm
        rig.issuer.result(number, 120)


def far_away(rig, reader):
    """Without the far bucket everything but what lies there alone goes on."""
    here = rig.run.rng.sample(range(COUNT), 8)
    bring(rig, "cold", here)
    client = rig.run.client(rig.gateway, "near")
    leaving = [rig.run.rng.getrandbits(64) for _ in range(3)]  # one of them far, one nowhere
    gone = [blocks.key(number, namespace=SPACE) for number in leaving]
    expect(client.batch_put([(key, b"x" * SIZE) for key in gone[:2]]) == ["OK"] * 2, "cannot store")
    result = rig.issuer.result(rig.issuer.send("demote", [[leaving[0], 0, 0, 1]],
                                               edge=(rig.holders["hot"], rig.holders["far"], False)), 60)
    expect(result["done"] == 1, result)
    reader.down.set()
    rig.far.kill()
    result = rig.move(("cold", "far"), here[:4])
    expect(result["failed"] == 4, result)
    wait_until(lambda: None if not rig.gateway.status()["far"]["healthy"] else "the far bucket is well",
               60 * rig.run.slow, "the gateway says that the far bucket is away")
    for n in here:
        answer = client.get(rig.keys[n])
        expect(answer.status == 200 and answer.body == rig.bodies[rig.keys[n]], f"{answer.status}")
    key = blocks.key(rig.run.rng.getrandbits(64), namespace=SPACE)
    expect(client.batch_put([(key, b"x" * SIZE)]) == ["OK"], "no PUT without the far bucket")
    expect(rig.gateway.is_ready() is None, "not ready")
    for removed in gone:
        expect(client.delete(removed).status == 204 and client.get(removed).status == 404, f"{removed} stays")
    rig.gateway.kill()  # what is to be done behind it is durable
    rig.gateway.start(seconds=60)
    for removed in gone:
        expect(client.get(removed).status == 404, f"{removed} is there again")
    rig.far.start(seconds=60)
    wait_until(lambda: None if rig.gateway.status()["far"]["healthy"] else "it is not well",
               60 * rig.run.slow, "the far bucket is back")
    reader.down.clear()
    for removed in gone:
        expect(client.get(removed).status == 404, f"{removed} is there again")
    expect(client.delete(key).status == 204, "cannot delete")
    expect(rig.move(("cold", "far"), here[:4])["done"] == 4, "not moved")


def full_volume(rig):
    """A volume at its cap takes no more, and nothing leaves its place for that."""
    held = rig.gateway.status()["warm"]["capacity_bytes"] // SIZE
    bring(rig, "hot", range(COUNT))
    result = {"done": 0, "failed": 0}
    for first in range(0, COUNT, PAGE):
        part = rig.move(("hot", "warm"), range(first, first + PAGE))
        result = {name: result[name] + part[name] for name in result}
    expect(result["failed"] > 0 and rig.gateway.status()["warm"]["blocks"] == held, result)
    rig.gateway.kill()  # the cap is known without looking at the disk
    rig.gateway.start(seconds=60)
    free = [n for n in range(COUNT) if "warm" not in rig.rows()[rig.keys[n]]]
    expect(rig.move(("hot", "warm"), free[:1])["failed"] == 1, "beyond the cap")


def deleted(rig):
    client = rig.run.client(rig.gateway, "near")
    for key in rig.keys:
        expect(client.delete(key).status == 204, f"cannot delete {key}")
    wait_until(lambda: str(rig.there()) if rig.there() else None, 60 * rig.run.slow, "nothing is left")
    expect(all(rig.gateway.status()[tier]["used_bytes"] == 0 for tier in TIERS), rig.gateway.status())


def one(run, far):
    rig = Rig(run, far)
    reader = Reader(rig)
    reader.start()
    with run.case(f"{far}: each of the twelve edges does what it says, once or twice, with copies kept or not"):
        every_edge(rig)
        rig.expect_true()
    with run.case(f"{far}: a holder that the gateway has not is refused with those it has"):
        result = rig.issuer.result(rig.issuer.send("demote", rig.items[:2], edge=("hot@" + rig.name, "cold@moon", False)))
        expect(result["code"] != 0 and result["failed"] == 2 and "cold@moon" in result["text"]
               and "cold@far" in result["text"], result)
    with run.case(f"{far}: {run.args.kills} kills in the midst of moves, every block read as it was put"):
        kill_and_move(rig, reader, run.args.kills)
        rig.expect_true()
        rig.expect_all_read()
    with run.case(f"{far}: the far bucket away is nobody's trouble but its blocks'"):
        far_away(rig, reader)
        rig.expect_true()
    with run.case(f"{far}: a full volume refuses, also after a kill"):
        reader.down.set()
        full_volume(rig)
        reader.down.clear()
        rig.expect_true()
        rig.expect_all_read()
    with run.case(f"{far}: whoever read meanwhile read right"):
        reader.finish()
        run.note(f"{reader.reads} reads")
    with run.case(f"{far}: what clients delete is on no tier"):
        deleted(rig)
    rig.issuer.close()
    expect(rig.gateway.stop() == 0, rig.gateway.tail())
    for server in (rig.near, rig.far, rig.nats):
        server.kill()


def scenario(run):
    for far in ("minio", "versitygw"):
        if run.args.far in (None, far):
            one(run, far)


if __name__ == "__main__":
    main(scenario, options)
