#!/usr/bin/env python3
"""`kvtier g4 adopt`: a bucket that others filled is counted, over kills of all who take part; then its cap holds."""

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import blocks
import poison
from fsck import Cli
from harness import Failure, expect, expect_same, main, wait_until
from system import MIB

COUNT = 1000  # objects of each kind
SIZE = 4096
CAP = 6 * MIB  # half of what the bucket has
RATE = 1500
KILLS = 4
OURS, BARE, OPAQUE = "block", "foreign", "opaque"


def options(parser):
    parser.add_argument("--count", type=int, help=f"objects of each kind (default {COUNT})")


def in_threads(run, server, work, items):
    """work(client, item) for all items, by as many clients as keep a server busy."""
    local = threading.local()

    def one(item):
        if not hasattr(local, "client"):
            local.client = run.client(server)
        work(local.client, item)

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(one, items):
            pass


def fill(run, server, count):
    """{key: kind} of what gets a row; beside it lie signs of programs, which get none."""
    rng = run.rng
    kinds = {}
    for _ in range(count):
        kinds[blocks.key(rng.getrandbits(64), namespace=f"tenant{rng.randrange(3)}/model")] = OURS
        kinds[blocks.key(rng.getrandbits(64))] = BARE
        kinds[f"{rng.choice(('nixl', 'lm-cache', 'a+=,@'))}/{rng.getrandbits(64):016x}.bin"] = OPAQUE
    signs = [f"{key.split('/', 1)[1]}.meta" for key, kind in kinds.items() if kind == BARE][:count // 10]
    signs += [f"batch{n}.lock" for n in range(10)]
    body = bytes(SIZE)
    meta = {"x-amz-meta-kvt-length": str(SIZE), "x-amz-meta-kvt-crc32c": f"{blocks.crc32c(body):08x}",
            "x-amz-meta-kvt-fingerprint": f"{poison.FINGERPRINT:016x}", "x-amz-meta-kvt-writer": "gw-before"}

    def put(client, key):
        kind = kinds.get(key)
        answer = client.put(key, b"" if kind is None else body, meta if kind == OURS else None)
        expect(answer.status == 200, f"cannot put {key}: {answer.status}")

    in_threads(run, server, put, [*kinds, *signs])
    return kinds, signs


class Watcher:
    """`kvtier g4 adopt`, which only watches: whatever becomes of it, the walk is the gateway's."""

    def __init__(self, cli):
        self.child = subprocess.Popen([*cli.argv, "g4", "adopt", "--rate", str(RATE)], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, wanted):
        out, err = self.child.communicate(timeout=60)
        expect(self.child.returncode in wanted, f"exit {self.child.returncode}, not {wanted}: {out[-400:]} {err[-400:]}")
        return [json.loads(line) for line in out.splitlines()]


def adoption(gateway):
    return gateway.ask("/v1/adoption")["adoption"]


def wait_listed(gateway, more):
    """Until it passed so many more objects, or is over."""
    begun = adoption(gateway)["listed"]

    def short():
        now = adoption(gateway)
        return None if now["state"] != "running" or now["listed"] >= begun + more else f"{now['listed']} objects"

    wait_until(short, 30, f"{more} more objects", every=0.02)


class Clients(threading.Thread):
    """Of the gateway, while it counts: they remove, overwrite and add what is no block."""

    def __init__(self, run, gateway, kinds):
        super().__init__(daemon=True)
        self.run_, self.gateway, self.rng = run, gateway, run.rng
        self.keys = [key for key, kind in kinds.items() if kind == OPAQUE]
        self.stopping = threading.Event()
        self.done = 0

    def run(self):
        client = self.run_.client(self.gateway)
        while not self.stopping.wait(0.002):
            key = self.rng.choice(self.keys)
            try:
                if self.rng.random() < 0.5:
                    client.delete(key)
                else:
                    client.put(key, bytes(self.rng.randrange(1, SIZE)))
                self.done += 1
            except OSError:
                client.close()  # it is being killed
                client = self.run_.client(self.gateway)

    def stop(self):
        self.stopping.set()
        self.join(30)
        expect(self.done > 0, "the clients did nothing")


def adopt_over_kills(run, gateway, advisor, cli, kinds):
    """How often what was killed."""
    clients = Clients(run, gateway, kinds)
    clients.start()
    killed = {"gateway": 0, "watcher": 0}
    watcher = Watcher(cli)
    wait_until(lambda: None if adoption(gateway)["state"] == "running" else "not begun", 30, "the walk begins", every=0.02)
    for at in range(KILLS):
        wait_listed(gateway, run.rng.randrange(100, 500))
        issued = advisor.status()["orders"]["issued"]
        if adoption(gateway)["state"] != "running":
            break
        expect(issued == 0, f"{issued} orders while not all is counted")
        if at % 2 == 0:
            gateway.kill()
            killed["gateway"] += 1
            watcher.end((5,))
            gateway.start()
        else:
            watcher.child.kill()
            watcher.end((-9,))
            killed["watcher"] += 1
        watcher = Watcher(cli)
    last = watcher.end((0,))[-1]["adoption"]
    clients.stop()
    expect(last["state"] == "done" and last["capped"], last)
    expect(killed["gateway"] > 0 and killed["watcher"] > 0, f"too fast to be killed: {killed}")
    run.note(f"{killed} killed, {clients.done} requests of clients; {last}")
    return last


def rows_of(gateway):
    return {row["key"]: row for row in gateway.pages("/v1/objects?tier=cold") if row["state"] == "stored"}


def compare(gateway, bucket, kinds, signs):
    listed = dict(bucket.list())
    rows = rows_of(gateway)
    expect_same(rows, set(listed) - set(signs), "rows", "the bucket")
    for key, row in rows.items():
        expect(row["length"] == listed[key], lambda k=key, r=row: f"{k}: {r['length']} bytes, the bucket has {listed[k]}")
        expect(row["kind"] == kinds[key], lambda k=key, r=row: f"{k}: {r['kind']}, not {kinds[k]}")
        expect(row["modified_ms"] > 0, lambda k=key: f"{k}: no time")
    status = gateway.status()
    expect(status["cold"]["used_bytes"] == sum(listed[key] for key in rows), "bytes are not those of the bucket")


def not_capped(run, gateway, advisor, client):
    with run.case("a gateway on a full bucket says that it must be adopted, and keeps no cap yet"):
        wait_until(lambda: None if adoption(gateway)["state"] == "needed" else adoption(gateway)["state"], 30, "a look")
        expect(any("g4 adopt" in reason for reason in gateway.status()["reasons"]), gateway.status()["reasons"])
        done = subprocess.run([run.program("kvtier"), "--gateway-url", f"http://127.0.0.1:{gateway.admin}",
                               "--advisor-url", f"http://127.0.0.1:{advisor.admin}", "doctor"],
                              capture_output=True, text=True, timeout=60, check=False)
        expect("g4 adopt" in done.stdout, done.stdout)
        stored = [poison.Block(run.rng) for _ in range(CAP // MIB + 2)]
        for block in stored:
            large = block.body * (MIB // len(block.body))
            expect(client.batch_put([(block.key, large)], poison.FINGERPRINT) == ["OK"], "refused by a cap")
        expect(gateway.status()["cold"]["used_bytes"] > CAP, "the cap was not passed")
        for block in stored:
            expect(client.delete(block.key).status == 204, "cannot delete")


def capped(run, gateway, advisor, bucket, kinds):
    with run.case("then the cap is kept: blocks go until there is room, and nothing else goes"):
        before = {key for key, _size in bucket.list()}
        advisor.ask("/v1/policy/mode", {"mode": "enforce"}, token=run.token)
        used = [0]

        def above():
            used[0] = gateway.status()["cold"]["used_bytes"]
            return f"{used[0]} of {CAP} bytes" if used[0] > CAP else None

        wait_until(above, 60, "the cap", every=0.3)
        wait_until(lambda: advisor.status()["orders"]["pending"] or None, 60, "orders end", every=0.3)
        left = {key for key, _size in bucket.list()}
        gone = [key for key in kinds if key in before - left]
        expect({kinds[key] for key in gone} <= {OURS, BARE}, "what is no block was removed")
        metas = {key[:-len(".meta")] for key in left if key.endswith(".meta")}
        orphans = [key for key in kinds if key not in left and kinds[key] == BARE and
                   key.split("/", 1)[1] in metas]
        expect(not orphans, f"commit records without their blocks: {orphans[:5]}")
        run.note(f"{len(gone)} blocks removed, {used[0]} of {CAP} bytes left")


def scenario(run):
    nats, minio = run.nats().start(), run.minio().start()
    bucket = run.client(minio)
    bucket.create_bucket()
    kinds, signs = fill(run, minio, run.args.count or COUNT)
    expect(sum(size for _key, size in bucket.list()) > 1.8 * CAP, "the bucket is not over its cap")
    gateway = run.gateway(nats, "gw0", minio, hot_capacity=64 * MIB, cold_capacity=CAP).start()
    advisor = run.advisor(nats, policy_mode="enforce").start()
    client = run.client(gateway)
    cli = Cli(run, gateway)
    not_capped(run, gateway, advisor, client)
    with run.case("every object is counted once, over kills, and beside clients"):
        last = adopt_over_kills(run, gateway, advisor, cli, kinds)
        expect(last["adopted_foreign"] == list(kinds.values()).count(BARE), last)
        expect(last["damaged"] == last["refused"] == 0, last)
    with run.case("rows are what the bucket has"):
        advisor.ask("/v1/policy/mode", {"mode": "off"}, token=run.token)
        compare_when_still(run, gateway, bucket, kinds, signs)
    capped(run, gateway, advisor, bucket, kinds)
    client.close()
    expect(gateway.stop() == 0, f"{gateway.name}: {gateway.tail()}")


def compare_when_still(run, gateway, bucket, kinds, signs):
    """Orders that were given before the advisor was told to stop may still be at work."""
    def differ():
        try:
            left = {key for key, _size in bucket.list()}
            compare(gateway, bucket, kinds, [sign for sign in signs if sign in left])
        except Failure as failure:
            return str(failure)
        return None

    wait_until(differ, 20, "rows equal objects", every=0.5)


if __name__ == "__main__":
    main(scenario, options)
