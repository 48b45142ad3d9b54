#!/usr/bin/env python3
"""One policy over four tiers on a real stack: an SSD folder, an HDD folder, and two buckets of MinIO.  Traffic
drives blocks over every edge, down and up; gateway and advisor are killed with -9 at random instants meanwhile;
every read is checked byte for byte, and in the end caps hold and index, catalog and stores agree."""

import random
import re
import threading
import time

import blocks
import bus
from harness import Failure, expect, expect_same, main, wait_until
from system import block_keys, catalog_keys, hash_of, volume

SIZE = 32 << 10
CHAIN = 4
# The buckets have room for all (near at its stop, far below its start): else far lets blocks go that traffic writes
# anew, and where moves are slow the SSD drains for ever, with nothing coming up to it.
CHAINS = 44
FOCUS = 3  # chains that are read again and again for a while
NAMESPACE = "acme/llama"
# Blocks: what the policy lets each tier have; a gateway's volumes have a little more room.
CAPACITY = {"hot": 40, "warm": 64, "cold": 120, "far": 160}
STOP, START = 50, 80
DOWN = [("demote", "hot", "warm"), ("demote", "warm", "cold"), ("demote", "cold", "far")]
UP = [("promote", "far", "cold"), ("promote", "cold", "warm"), ("promote", "warm", "hot")]

POLICY = f"""version: 1
tiers:
  ssd: {{level: G3, holders: "hot@*", capacity: {CAPACITY["hot"] * SIZE}B}}
  hdd: {{level: G3, holders: "warm@*", capacity: {CAPACITY["warm"] * SIZE}B}}
  near: {{level: G4, holders: cold@kvtier, capacity: {CAPACITY["cold"] * SIZE}B}}
  far: {{level: G4, holders: cold@far, capacity: {CAPACITY["far"] * SIZE}B}}
rules:
  - {{id: hdd-to-ssd, from: hdd, to: ssd, on: second_cold_hit}}
  - {{id: near-to-hdd, from: near, to: hdd, on: second_cold_hit}}
  - {{id: far-to-near, from: far, to: near, on: second_cold_hit}}
  - {{id: ssd-to-hdd, from: ssd, to: hdd, trigger: {{start: {START}%, stop: {STOP}%, prestage: 40%}}}}
  - {{id: hdd-to-near, from: hdd, to: near, trigger: {{start: {START}%, stop: {STOP}%}}}}
  - {{id: near-to-far, from: near, to: far, trigger: {{start: {START}%, stop: {STOP}%}}}}
  - {{id: drain-far, in: far, do: expire, trigger: {{start: {START}%, stop: {STOP}%}}}}
modes: {{mode: enforce}}
"""


def options(parser):
    parser.add_argument("--kills", type=int, help="how many (default 12; 4 under sanitizers)")


def body_of(chain, position):
    return random.Random(f"{chain}/{position}").randbytes(SIZE)


def keys_of(chain):
    hashes = [random.Random(f"hash/{chain}/{at}").getrandbits(64) | 1 for at in range(CHAIN)]
    return [blocks.key(hash_, at, hashes[at - 1] if at > 0 else 0, namespace=NAMESPACE)
            for at, hash_ in enumerate(hashes)]


class Stack:
    def __init__(self, run):
        self.run = run
        self.minio = run.minio().start(seconds=60)
        self.near, self.far = run.client(self.minio), run.client(self.minio, bucket="far")
        self.near.create_bucket()
        self.far.create_bucket()
        self.nats = run.nats().start()
        self.deleted = set()
        self.listener = bus.Nats(self.nats.url)
        self.listener.subscribe("kvtier.v1.orders.>", self.on_order)
        self.gateway = run.gateway(self.nats, s3_server=self.minio, **{
            "hot.capacity": 2 * CAPACITY["hot"] * SIZE, "warm.dir": f"{run.folder}/gw0-warm",
            "warm.capacity": 2 * CAPACITY["warm"] * SIZE, "far.kind": "s3", "far.bucket": "far",
            "far.endpoint": self.minio.url, "report.interval": "100ms"}).start(seconds=60)
        self.advisor = run.advisor(self.nats, policy_mode="enforce", **{
            "policy.interval": "100ms", "policy.ordering": "lru",
            "policy.file": run.file("policy.yaml", POLICY)}).start(seconds=60)

    def on_order(self, _subject, data):
        order = bus.order(data)
        if order["verb"] == "delete":
            self.deleted |= {f"{item[0]:016x}" for item in order["items"]}

    def edges(self):
        """{(verb, from, to): blocks} that this life of the advisor saw moved."""
        text = self.advisor.raw("/metrics")[1].decode()
        found = {}
        for labels, value in re.findall(r"^kvtier_advisor_edge_blocks_total\{([^}]*)\} (\d+)", text, re.MULTILINE):
            label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[label["verb"], label["from"], label["to"]] = int(value)
        return found

    def missing_edges(self):
        try:
            seen = self.edges()
        except OSError as error:
            return str(error)
        missing = [edge for edge in DOWN + UP if seen.get(edge, 0) == 0]
        return f"nothing went along {missing}" if missing else None

    def used(self):
        """{tier: bytes} as the gateway counts them."""
        status = self.gateway.status()
        return {tier: status[tier]["used_bytes"] for tier in CAPACITY}


class Traffic:
    """Reads chains and writes those that are gone, until it is stopped.  A few at a time are read again and again,
    so that they climb; those that wait their turn sink."""

    def __init__(self, stack):
        self.stack, self.run = stack, stack.run
        self.random = random.Random(self.run.seed)
        self.client = self.run.client(stack.gateway)
        self.acknowledged = set()
        self.reads = self.misses = self.turns = 0
        self.wrong = []
        self.stopping = threading.Event()
        self.thread = None

    def start(self):
        self.stopping.clear()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join()

    def touch(self, chain):
        for position, key in enumerate(keys_of(chain)):
            answer = self.client.get(key)
            if answer.status == 200:
                self.reads += 1
                if answer.body != body_of(chain, position):
                    self.wrong.append(key)
            elif answer.status == 404:
                self.misses += 1
                if self.client.put(key, body_of(chain, position)).status == 200:
                    self.acknowledged.add(key)

    def work(self):
        focus = []
        while not self.stopping.is_set():
            if self.turns % 100 == 0:
                focus = self.random.sample(range(CHAINS), FOCUS)
            chain = self.random.choice(focus) if self.turns % 3 else self.random.randrange(CHAINS)
            self.turns += 1
            try:
                self.touch(chain)
            except (OSError, ValueError, EOFError):
                self.client.close()  # it was killed under us
                time.sleep(0.05)
            except Exception as error:  # noqa: B902 - http.client has many
                self.client.close()
                if not type(error).__module__.startswith("http"):
                    self.wrong.append(f"the traffic ended: {error!r}")
                    return
            time.sleep(0.03)

    def check(self):
        expect(not self.wrong, lambda: f"wrong bytes: {self.wrong[:5]}")
        expect(self.reads > 100, f"only {self.reads} blocks were read")


def kill_some(run, stack, count):
    """Gateway, advisor or both, at random instants; each comes back."""
    for number in range(count):
        time.sleep(run.rng.random() * 1.5 * run.slow)
        victims = run.rng.choice([[stack.gateway], [stack.advisor], [stack.gateway, stack.advisor]])
        for victim in victims:
            victim.kill()
        time.sleep(run.rng.random() * 0.3)
        for victim in victims:
            victim.start(wait=number % 3 == 0, seconds=90)
    for process in (stack.gateway, stack.advisor):
        process.wait_ready(90)


def settle(stack):
    """Every tier is below its start watermark, and nothing moves any more."""
    def above():
        try:
            over = {tier: used for tier, used in stack.used().items()
                    if used > CAPACITY[tier] * SIZE * START // 100}
        except (OSError, Failure) as error:
            return str(error)
        return f"above their start watermark: {over}" if over else None

    wait_until(above, 240 * stack.run.slow, "every cap holds", every=0.3)
    stack.advisor.ask("/v1/policy/mode", {"mode": "off"}, token=stack.run.token)
    last = [None]

    def moving():
        advisor, gateway = stack.advisor.status(), stack.gateway.status()
        pending = {"orders pending": advisor["orders"]["pending"], "orders queued": gateway["orders"]["queued"],
                   "gateway events": gateway["events"]["pending"], "advisor lag": advisor["events"]["lag"],
                   "publishers uncertain": advisor["events"]["uncertain"], "intents": gateway["catalog"]["intents"]}
        busy = {name: value for name, value in pending.items() if value}
        still = (advisor["events"]["applied"], gateway["events"]["next_seq"])
        same, last[0] = still == last[0], still
        return str(busy) if busy else None if same else "events still arrive"

    wait_until(moving, 120 * stack.run.slow, "the system comes to rest", every=0.7)


def compare(stack):
    """What is there, tier by tier: stores, catalog, advisor."""
    stores = {"hot": set(volume(stack.gateway.settings["hot.dir"])),
              "warm": set(volume(stack.gateway.settings["warm.dir"])),
              "cold": block_keys(stack.near), "far": block_keys(stack.far)}
    status = stack.gateway.status()
    rows = [row for row in stack.advisor.pages("/v1/index/dump") if row["tier"] == "G4"]
    for tier, keys in stores.items():
        expect_same(catalog_keys(stack.gateway, tier), keys, f"the catalog ({tier})", "the store")
        known = {row["hash"] for row in rows if row["holder"] == status[tier]["holder"]}
        expect_same(known, {hash_of(key) for key in keys}, f"the advisor ({tier})", "the store")
        expect(status[tier]["used_bytes"] == len(keys) * SIZE,
               lambda tier=tier, keys=keys: f"{tier}: {status[tier]['used_bytes']} B counted, {len(keys)} blocks there")
    expect(all(stores.values()), lambda: f"a tier is empty: { {tier: len(keys) for tier, keys in stores.items()} }")
    return stores


def agree(stack):
    def differ():
        try:
            compare(stack)
        except (Failure, OSError) as failure:
            return str(failure)
        return None

    wait_until(differ, 240 * stack.run.slow, "stores, catalog and advisor agree", every=1)


def read_back(stack, traffic):
    """All that was acknowledged is there with its bytes, or an order deleted it."""
    client, gone, read = stack.run.client(stack.gateway), 0, 0
    for chain in range(CHAINS):
        for position, key in enumerate(keys_of(chain)):
            answer = client.get(key)
            if answer.status == 200:
                expect(answer.body == body_of(chain, position), f"{key} has other bytes")
                read += 1
            else:
                expect(answer.status == 404, f"{key}: {answer.status}")
                expect(key not in traffic.acknowledged or hash_of(key) in stack.deleted,
                       f"{key} was acknowledged, no order deleted it, and it is nowhere")
                gone += 1
    stack.run.note(f"{read} blocks are there, {gone} are not; {traffic.reads} reads and {traffic.misses} misses before")
    expect(read > 0, "nothing is left")


def scenario(run):
    kills = run.args.kills if run.args.kills is not None else (4 if run.sanitized else 12)
    stack = Stack(run)
    traffic = Traffic(stack)
    with run.case("traffic takes blocks over every edge, down and up"):
        traffic.start()
        wait_until(stack.missing_edges, 600 * run.slow, "every edge was used", every=0.5)
        run.note(f"{ {' '.join(edge): count for edge, count in stack.edges().items() if count} }")
        traffic.check()
    with run.case(f"{kills} times kill -9 of gateway, advisor or both meanwhile: no read has other bytes"):
        kill_some(run, stack, kills)
        traffic.check()
    with run.case("after that every edge is used again"):
        stack.advisor.kill()  # its counters begin anew
        stack.advisor.start(seconds=90)
        wait_until(stack.missing_edges, 600 * run.slow, "every edge was used", every=0.5)
        traffic.check()
    traffic.stop()
    with run.case("at rest caps hold, and stores, catalog and advisor agree"):
        settle(stack)
        agree(stack)
    with run.case("what was acknowledged is there, or an order deleted it"):
        read_back(stack, traffic)
    with run.case("what a rule does is told with its tiers"):
        orders = stack.advisor.ask("/v1/orders?limit=1000")["orders"]
        named = {(order["verb"], order["from"], order["to"]) for order in orders if order["from"]}
        expect(("demote", "hot@gw0", "warm@gw0") in named and ("demote", "cold@kvtier", "cold@far") in named,
               lambda: f"orders name {named}")
    with run.case("both stop with 0"):
        for daemon in (stack.gateway, stack.advisor):
            expect(daemon.stop() == 0, f"{daemon.name}: {daemon.tail()}")


if __name__ == "__main__":
    main(scenario, options)
