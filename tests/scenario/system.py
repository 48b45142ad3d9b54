"""The whole chain as one object, and the equalities that must hold when it has come to rest."""

import os
import threading
import time

import blocks
import bus
from harness import Failure, expect, expect_same, wait_until

MIB = 1 << 20
BLOCK = 64 * 1024


class System:
    """NATS, MinIO, one advisor, one gateway, `count` worker processes over one trace."""

    def __init__(self, run, minutes, count=4, **sizes):
        self.run, self.minutes = run, minutes
        # A short run gets small tiers, so that it fills them too.
        self.sizes = ({"hot": 192 * MIB, "cold": 1024 * MIB, "g2": 64 * MIB, "g3": 192 * MIB}
                      if minutes >= 20 else
                      {"hot": 24 * MIB, "cold": 96 * MIB, "g2": 16 * MIB, "g3": 40 * MIB})
        self.sizes.update(sizes)
        self.trace = run.trace()
        self.nats = run.nats().start()
        self.minio = run.minio().start()
        self.bucket = run.client(self.minio)
        self.bucket.create_bucket()
        self.deleted, self.orders_seen = set(), 0
        self.listener = bus.Nats(self.nats.url)
        self.listener.subscribe("kvtier.v1.orders.>", self.on_order)
        self.gateway = run.gateway(self.nats, s3_server=self.minio, hot_capacity=self.sizes["hot"],
                                   cold_capacity=self.sizes["cold"]).start()
        self.advisor = run.advisor(self.nats, policy_mode="enforce").start()
        self.workers = [
            run.worker(self.nats, self.gateway, f"worker{i}", self.trace, **{
                "trace.shard": f"{i}/{count}", "trace.until": f"{int(minutes * 60)}s",
                "speed": "max", "block.size": BLOCK, "events.g1": "true", "g1.size": 16 * MIB,
                "g2.size": self.sizes["g2"],
                "g3.size": self.sizes["g3"], "stay": "true", "gateway.retry": "120s",
                "report": f"{run.folder}/worker{i}.report",
                "acked_log": f"{run.folder}/worker{i}.acked"})
            for i in range(count)]
        self.caps = Caps(self)

    def on_order(self, _subject, data):
        order = bus.order(data)
        self.orders_seen += 1
        if order["verb"] == "delete":
            self.deleted |= {item[0] for item in order["items"]}

    def start_workers(self):
        for worker in self.workers:
            worker.start()

    def finished(self, worker):
        return worker.alive() and worker.status()["trace"]["finished"]

    def progress(self):
        done = total = 0
        for worker in self.workers:
            try:
                trace = worker.status()["trace"]
                done += trace["requests_done"]
                total += trace["requests_total"]
            except (OSError, Failure):
                pass
        return done, total

    def wait_finished(self, seconds):
        """Every worker has replayed its part; progress is noted, a dead process is a failure."""
        noted = [0.0]

        def unfinished():
            for process in (self.nats, self.minio, self.advisor, self.gateway, *self.workers):
                expect(process.alive(),
                       lambda p=process: f"{p.name} ended by itself with {p.child.returncode}: {p.tail()}")
            waiting = [w.name for w in self.workers if not self.finished(w)]
            if waiting and time.monotonic() - noted[0] > 15:
                noted[0] = time.monotonic()
                self.run.note("%d of %d requests" % self.progress())
            return f"{', '.join(waiting)} still replay; {self.progress()}" if waiting else None

        wait_until(unfinished, seconds * self.run.slow, "workers finish the trace", every=0.5)

    def settle(self, seconds=90):
        """No more decisions, no more moves, every event applied."""
        self.advisor.ask("/v1/policy/mode", {"mode": "off"}, token=self.run.token)
        last = [None]

        def moving():
            advisor, gateway = self.advisor.status(), self.gateway.status()
            workers = [w.status() for w in self.workers]
            pending = {
                "orders pending": advisor["orders"]["pending"],
                "orders queued": gateway["orders"]["queued"],
                "gateway events": gateway["events"]["pending"],
                "advisor lag": advisor["events"]["lag"],
                "publishers uncertain": advisor["events"]["uncertain"],
                "worker events": sum(w["events"]["buffered"] for s in workers for w in s["workers"]),
                "intents": gateway["catalog"]["intents"],
            }
            busy = {name: value for name, value in pending.items() if value}
            still = (advisor["events"]["applied"], gateway["events"]["next_seq"])
            same, last[0] = still == last[0], still
            return str(busy) if busy else None if same else "events still arrive"

        wait_until(moving, seconds * self.run.slow, "the system comes to rest", every=0.7)

    # The equalities -------------------------------------------------------------------------------

    def check_bytes(self):
        """Every block read was checked by its worker, and none was wrong."""
        checked = 0
        for worker in self.workers:
            for one in worker.status()["workers"]:
                expect(one["wrong_bytes"] == 0, f"{one['name']}: {one['wrong_bytes']} wrong bytes")
                checked += one["verified_blocks"]
        expect(checked > 0, "no block was read back, so nothing was checked")
        return checked

    def check_workers(self):
        """The advisor's G1..G3 places are the union of what the workers say they hold."""
        def differ():
            held = set()
            for worker in self.workers:
                held |= {place(row) for row in worker.pages("/v1/index/dump")}
            known = {place(row) for row in self.advisor.pages("/v1/index/dump") if row["tier"] != "G4"}
            try:
                expect(len(held) > 0, "the workers hold nothing")
                expect_same(known, held, "the advisor", "the workers")
            except Failure as failure:
                return str(failure)
            return None

        wait_until(differ, 30 * self.run.slow, "advisor equals workers", every=1)

    def check_tiers(self):
        """Bucket and hot volume = the gateway's catalog = the advisor's G4 places."""
        def differ():
            try:
                self.compare_tiers()
            except Failure as failure:
                return str(failure)
            return None

        wait_until(differ, 30 * self.run.slow, "bucket, volume, catalog and advisor agree", every=1)

    def compare_tiers(self):
        compare_tiers(self.advisor, {self.gateway: hot_keys(self.gateway)}, block_keys(self.bucket))
        cold = self.gateway.status()["cold"]
        real = sum(size for key, size in self.bucket.list() if blocks.parse_key(key))
        expect(cold["used_bytes"] == real, f"cold tier counts {cold['used_bytes']} B, bucket has {real} B")

    def check_acknowledged(self):
        """Every PUT a worker was told is stored is there with its bytes, or an order deleted it."""
        acked = {}
        for index in range(len(self.workers)):
            path = os.path.join(self.run.folder, f"worker{index}.acked")
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    if line.endswith("\n"):  # a killed worker may leave half a line
                        key, crc = line.split()
                        acked.setdefault(key, set()).add(int(crc, 16))
        expect(len(acked) > 0, "no PUT was acknowledged")
        there = dict(self.bucket.list())
        lost, wrong, deleted = [], [], 0
        for key, crcs in acked.items():
            if len(crcs) != 1:
                wrong.append(f"{key} was acknowledged with {len(crcs)} contents")
            elif key not in there:
                if blocks.parse_key(key)[3] in self.deleted:
                    deleted += 1
                else:
                    lost.append(key)
            elif blocks.crc32c(self.bucket.get(key).body) not in crcs:
                wrong.append(f"{key} has other bytes in the bucket")
        self.run.note(f"{len(acked)} blocks acknowledged, {deleted} of them deleted by order, "
                      f"{len(there)} objects in the bucket")
        expect(not lost, f"{len(lost)} acknowledged blocks are nowhere: {lost[:5]}")
        expect(not wrong, f"{len(wrong)} wrong: {wrong[:5]}")

    def check_caps(self):
        expect(self.caps.samples > 0, "caps were never sampled")
        expect(not self.caps.broken, f"{len(self.caps.broken)} times over: {self.caps.broken[:3]}")


class Caps:
    """Samples the use of both tiers in the background: never more than one batch over the cap."""

    BATCH = 32 * MIB

    def __init__(self, system):
        self.system, self.samples, self.broken, self.most = system, 0, [], {"hot": 0, "cold": 0}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join(30)

    def watch(self):
        while not self.stopping.wait(0.5):
            try:
                status = self.system.gateway.status()
            except (OSError, ValueError, Failure):
                continue  # it is being restarted
            self.samples += 1
            for tier in ("hot", "cold"):
                used, cap = status[tier]["used_bytes"], self.system.sizes[tier]
                self.most[tier] = max(self.most[tier], used)
                if used > cap + self.BATCH:
                    self.broken.append(f"{tier}: {used} of {cap}")


def place(row):
    return (row["holder"], row["dp_rank"], row["tier"], row["namespace"], row["hash"])


def hash_of(key):
    return f"{blocks.parse_key(key)[3]:016x}"


def block_keys(bucket):
    return {key for key, _ in bucket.list() if blocks.parse_key(key)}


def hot_keys(gateway):
    """Keys of the files on a gateway's hot volume, read from the files themselves."""
    return set(volume(gateway.settings["hot.dir"]))


def volume(folder):
    """{key: path} of a directory store: every file says in its header which key it is."""
    found = {}
    for at, _folders, names in os.walk(folder):
        for name in names:
            key = header_key(os.path.join(at, name))
            if key is not None and blocks.parse_key(key):
                found[key] = os.path.join(at, name)
    return found


def header_key(path):
    """The key an object file says it has (docs/formats.md, "Object files"), or None."""
    with open(path, "rb") as file:
        header = file.read(1024)
    if len(header) < 1024 or header[:8] != b"KVTOBJ\r\n":
        return None
    return header[192:704].split(b"\0")[0].decode()


def catalog_keys(gateway, tier):
    """Keys of the blocks a gateway's catalog says are in that tier."""
    return {row["key"] for row in gateway.pages(f"/v1/objects?tier={tier}")
            if row["state"] == "stored" and blocks.parse_key(row["key"])}


def compare_tiers(advisor, hot, cold):
    """`hot`: {gateway: keys on its volume}; `cold`: keys in the bucket all gateways share."""
    rows = [row for row in advisor.pages("/v1/index/dump") if row["tier"] == "G4"]
    bucket = None
    for gateway, keys in hot.items():
        status = gateway.status()
        bucket = status["cold"]["holder"]
        expect_same(catalog_keys(gateway, "hot"), keys, f"{gateway.name}'s catalog (hot)", "its volume")
        known = {row["hash"] for row in rows if row["holder"] == status["hot"]["holder"]}
        expect_same(known, {hash_of(key) for key in keys}, "the advisor (hot)", "the volume")
        if len(hot) == 1:
            expect_same(catalog_keys(gateway, "cold"), cold, f"{gateway.name}'s catalog (cold)",
                        "the bucket")
    known = {row["hash"] for row in rows if row["holder"] == bucket}
    expect_same(known, {hash_of(key) for key in cold}, "the advisor (cold)", "the bucket")
