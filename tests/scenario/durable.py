#!/usr/bin/env python3
"""Advisors with `durable_kv_events`, their folders lost and their snapshots spoiled.

Workers that are gone by then must be in the index all the same, and nobody may be asked for a dump, unless there
is no snapshot that the stream can be followed from: then everybody is."""

import base64
import glob
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import bus
import harness
import publisher
from harness import ROOT, expect, wait_until

BUCKET = "kvtier-index"
STREAM = f"OBJ_{BUCKET}"
DYNAMO = "namespace-dyn-component-backend"
NAMES = ("index.0", "index.1")
SETTINGS = {"durable-kv-events": "true", "snapshot.events": 1, "publishers.gone_after": "1h",
            "publishers.silent_after": "30m", "policy.mode": "off"}
CLIENT = """
import asyncio, os, sys
import nats
async def main(url, bucket, mode, name, path):
    connection = await nats.connect(url)
    stream = connection.jetstream()
    if mode == "get":
        data = (await (await stream.object_store(bucket)).get(name)).data
        with open(path, "wb") as file:
            file.write(data)
    else:
        store = await stream.create_object_store(bucket)
        with open(path, "rb") as file:
            data = file.read()
        headers = {key: [value] for key, value in (pair.split("=") for pair in sys.argv[6:])}
        await store.put(name, data, nats.js.api.ObjectMeta(headers=headers))
    await connection.close()
asyncio.run(main(*sys.argv[1:6]))
"""


def options(parser):
    parser.add_argument("--kills", type=int, default=3, help="kill -9 at random instants (default 3)")


class Bucket:
    """The raw messages of the object store, by the server's own interface."""

    def __init__(self, nats):
        self.nats = nats

    def api(self, what, question=None):
        answer = self.nats.request(f"$JS.API.{what}", json.dumps(question or {}).encode())
        return json.loads(answer) if answer else {}

    def meta_subject(self, name):
        return f"$O.{BUCKET}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def describe(self, name):
        """What is written of an object, or None."""
        message = self.api(f"STREAM.MSG.GET.{STREAM}", {"last_by_subj": self.meta_subject(name)}).get("message")
        return json.loads(base64.b64decode(message["data"])) if message else None

    def sequences(self):
        """(sequence it stands for, name), newest first."""
        found = []
        for name in NAMES:
            info = self.describe(name)
            if info and "headers" in info:
                found.append((int(info["headers"]["Kvtier-Stream-Sequence"][0]), name))
        return sorted(found, reverse=True)

    def write(self, name, info):
        self.nats.publish(self.meta_subject(name), json.dumps(info).encode(), {"Nats-Rollup": "sub"})
        self.nats.flush()

    def lose_chunks(self, name):
        info = self.describe(name)
        self.api(f"STREAM.PURGE.{STREAM}", {"filter": f"$O.{BUCKET}.C.{info['nuid']}"})

    def spoil(self, name):
        """The bytes are others than those whose digest is written."""
        info = self.describe(name)
        info["digest"] = "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(b"others").digest()).decode()
        self.write(name, info)


class Gate:
    """Carries what an advisor and NATS say, and stops for good at a word of the advisor's: before it, or behind it."""

    def __init__(self, run, url):
        self.upstream = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        self.word, self.after, self.reached = None, False, threading.Event()
        self.server = socket.create_server(("127.0.0.1", run.port()))
        self.url = f"nats://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def shut(self, word, after):
        self.reached.clear()
        self.after, self.word = after, word.encode()

    def accept(self):
        while True:
            near, _ = self.server.accept()
            try:
                far = socket.create_connection(self.upstream)
            except OSError:
                near.close()
                continue
            for source, target, ours in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.carry, args=(source, target, ours), daemon=True).start()

    def carry(self, source, target, ours):
        seen, held = b"", False
        try:
            while data := source.recv(1 << 16):
                word = self.word
                if ours and word and not held:
                    at = (seen + data).find(word) - len(seen)
                    held = at >= -len(seen)
                    if held and not self.after:
                        data = data[:max(at, 0)]
                    seen = (seen + data)[-len(word):]
                elif held:
                    data = b""
                target.sendall(data)
                if held:
                    self.word = None
                    self.reached.set()
        except OSError:
            pass
        for end in (source, target):
            end.close()


class World:
    def __init__(self, run):
        self.run = run
        self.server = run.nats().start()
        self.gate = Gate(run, self.server.url)
        self.nats = bus.Nats(self.server.url)
        self.bucket = Bucket(self.nats)
        self.workers = [publisher.Publisher(self.nats, f"w{i}", seed=f"{run.seed}/{i}") for i in range(3)]
        self.advisor = self.make("advisor")
        self.gated = self.make("gated", **{"nats.url": self.gate.url})

    def make(self, name, **more):
        return self.run.advisor(self.server, name, **{**SETTINGS, **more})

    def events(self, steps=20, workers=None):
        for _ in range(steps):
            for worker in workers or self.workers:
                worker.publish(worker.step())

    def server_back(self):
        self.server.start()

        def answers():
            try:
                return None if self.nats.flush() and "state" in self.bucket.api("STREAM.INFO.KVTIER_EVENTS") else "no"
            except OSError as error:
                return str(error)

        wait_until(answers, 20 * self.run.slow, "NATS answers", 0.05)

    def last(self):
        self.nats.flush()
        return self.bucket.api("STREAM.INFO.KVTIER_EVENTS")["state"]["last_seq"]

    def dumps(self):
        return [worker.asked["dump"] for worker in self.workers]

    def right(self, advisor=None, seconds=30):
        """What the advisor says is what the workers hold, be they there or not."""
        wait_until(lambda: publisher.differences(advisor or self.advisor, self.workers),
                   seconds * self.run.slow, "the index is right")

    def snapshot(self, sequence=None, seconds=20):
        """Until one stands for that sequence."""
        wanted = self.last() if sequence is None else sequence
        wait_until(lambda: None if self.bucket.sequences() and self.bucket.sequences()[0][0] >= wanted
                   else f"{self.bucket.sequences()} of {wanted}", seconds * self.run.slow, "a snapshot", 0.1)

    def two_snapshots(self):
        self.events(5)
        self.snapshot()
        while len(self.bucket.sequences()) < 2:
            self.events(5)
            self.snapshot()
        expect(len(self.bucket.sequences()) == 2, f"{self.bucket.sequences()}")

    def lose_folder(self, advisor=None, oldest=False):
        """And what the stream has of before the newest snapshot: it alone would not bring the index back."""
        sequences = self.bucket.sequences()
        if sequences:
            self.bucket.api("STREAM.PURGE.KVTIER_EVENTS", {"seq": sequences[-1 if oldest else 0][0] + 1})
        shutil.rmtree((advisor or self.advisor).settings["state.dir"], ignore_errors=True)

    def start_empty(self, advisor=None, oldest=False):
        advisor = advisor or self.advisor
        advisor.kill()
        self.lose_folder(advisor, oldest)
        size = os.path.getsize(advisor.log) if os.path.exists(advisor.log) else 0
        advisor.start()
        with open(advisor.log, encoding="utf-8", errors="replace") as log:
            log.seek(size)
            return log.read()

    def consumers(self):
        return self.bucket.api("CONSUMER.LIST.KVTIER_EVENTS").get("consumers") or []


def lag(world):
    """As an operator sees it.  A folder that was lost leaves a consumer, which nobody reads; who reads is between
    two requests for moments."""
    found = []

    def one():
        named = [one for one in world.consumers() if one["config"].get("durable_name")]
        found[:] = [one for one in named if len(named) == 1 or one["num_waiting"]]
        return None if len(found) == 1 else f"consumers: {[(one['name'], one['num_waiting']) for one in named]}"

    wait_until(one, 10 * world.run.slow, "one consumer is read")
    return found[0]


def acknowledged(world):
    one = lag(world)
    left = one["num_pending"] + one["num_ack_pending"]
    return None if left == 0 else f"{one['num_pending']} pending, {one['num_ack_pending']} not acknowledged"


def first_cases(run, world):
    with run.case("the lag of the index is in NATS, and is nothing when all is durable"):
        world.advisor.start()
        world.events(30)
        world.right()
        wait_until(lambda: acknowledged(world), 10 * run.slow, "all is acknowledged")
        world.advisor.stop()
        world.events(7)
        expect(lag(world)["num_pending"] == 21, f"{lag(world)}")
        world.advisor.start()
        world.right()
        wait_until(lambda: acknowledged(world), 10 * run.slow, "all is acknowledged")
    with run.case("a lost folder: the index is as it was, without a dump, with workers that are gone"):
        world.snapshot()
        world.events(20)  # behind the snapshot
        world.workers[0].silent = world.workers[1].silent = True
        before = world.dumps()
        log = world.start_empty()
        expect("advisor.deposit" in log and "the index as of sequence" in log, log[-800:])
        world.right()
        expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")
        world.workers[0].silent = world.workers[1].silent = False
    with run.case("NATS comes after the advisor"):
        world.snapshot()
        before = world.dumps()
        world.advisor.kill()
        world.lose_folder()
        world.server.stop()
        world.advisor.start(wait=False)
        time.sleep(1.5)
        world.server_back()
        world.advisor.wait_ready()
        world.right()
        expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")


def kill_at(run, world, word, after, lost):
    """When it is about to say this to NATS, or has said it."""
    world.snapshot()
    before = world.dumps()
    world.gate.shut(word, after)
    world.events(3)
    expect(world.gate.reached.wait(20 * run.slow), f"{word} was never said")
    time.sleep(0.1)  # what was said arrives
    world.gated.kill()
    if lost:
        world.lose_folder(world.gated)
    world.gated.start()
    world.right(world.gated)
    expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")


def kills_at_steps(run, world):
    world.advisor.kill()
    world.gated.start()
    for what, word, after, lost in (
            ("before the first chunk", f"$O.{BUCKET}.C.", False, True),
            ("with chunks and without their object", f"$O.{BUCKET}.M.", False, True),
            ("with the object, and the chunks of the one before", f"$O.{BUCKET}.M.", True, True),
            ("when the chunks of the one before are gone", "$JS.API.STREAM.PURGE", True, True),
            ("before an acknowledgement", "$JS.ACK.KVTIER_EVENTS", False, False),
            ("behind an acknowledgement", "$JS.ACK.KVTIER_EVENTS", True, False)):
        with run.case(f"kill -9 {what}"):
            kill_at(run, world, word, after, lost)
    world.gated.kill()
    world.advisor.start()


def kill(run, world):
    """At any instant, with or without its folder, with a snapshot every second; now and then NATS too."""
    world.snapshot()
    before = world.dumps()
    lost = 0
    for round_ in range(run.args.kills):
        until = time.monotonic() + run.rng.uniform(0, 0.8)
        while time.monotonic() < until:
            world.events(1)
        world.advisor.kill()
        if round_ % 4 == 3:
            world.nats.flush()
            world.server.kill()
            world.server_back()
        if run.rng.random() < 0.5:
            world.lose_folder()
            lost += 1
        world.advisor.start()
    world.right()
    wait_until(lambda: acknowledged(world), 20 * run.slow, "all is acknowledged")
    expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")
    run.note(f"{run.args.kills} kills, {lost} of them with the folder, {world.last()} messages")


def refused(run, world, why):
    """Everybody is asked, the log says why, and the index is right."""
    before = world.dumps()
    log = world.start_empty()
    expect(why in log and "workers are asked" in log, f"{why!r} is not in the log: {log[-1500:]}")
    world.events(2)  # what was never heard of anybody is asked for
    world.right()
    after = world.dumps()
    expect(all(now > then for now, then in zip(after, before)), f"dumps: {before}, then {after}")


def spoiled(run, world):
    with run.case("of two snapshots the newer is broken: the older counts"):
        world.two_snapshots()
        world.advisor.kill()
        world.bucket.spoil(world.bucket.sequences()[0][1])
        before = world.dumps()
        log = world.start_empty(oldest=True)
        expect("another digest" in log and "the index as of sequence" in log, log[-1500:])
        world.right()
        expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")
    with run.case("both are broken: workers are asked"):
        world.two_snapshots()
        world.advisor.kill()
        for _, name in world.bucket.sequences():
            world.bucket.lose_chunks(name)
        refused(run, world, "chunks are there")
    with run.case("both are of another format: workers are asked"):
        world.two_snapshots()
        world.advisor.kill()
        for _, name in world.bucket.sequences():
            info = world.bucket.describe(name)
            info["headers"]["Kvtier-Export"] = ["99"]
            world.bucket.write(name, info)
        refused(run, world, "a newer advisor wrote it")
    with run.case("both are older than the stream's first message: workers are asked"):
        world.two_snapshots()
        world.advisor.kill()
        world.events(3)
        world.nats.flush()
        world.bucket.api("STREAM.PURGE.KVTIER_EVENTS", {"seq": world.last()})
        refused(run, world, "lost messages that came behind it")


def made(advisor):
    status, text = advisor.raw("/metrics")
    expect(status == 200, f"/metrics: {status}")
    for line in text.decode().splitlines():
        if line.startswith("kvtier_advisor_snapshots_total"):
            return int(float(line.split()[-1]))
    raise harness.Failure("no kvtier_advisor_snapshots_total")


def readers(world):
    return {one["name"] for one in world.consumers() if one["config"].get("durable_name") and one["num_waiting"]}


def together(run, world):
    """Two that share a bucket: one of them makes a snapshot, and both are whole."""
    world.snapshot()
    second = world.make("second", **{"snapshot.events": 1000000, "snapshot.every": "1s"})
    world.advisor.kill()
    world.advisor.argv.append("--snapshot-events=1000000")
    world.advisor.argv.append("--snapshot-every=1s")
    before = world.dumps()
    world.advisor.start()
    second.start()
    world.right()
    world.right(second)
    expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")
    wait_until(lambda: None if len(readers(world)) == 2 else f"consumers: {readers(world)}", 10 * run.slow, "each reads")
    began, counts = time.monotonic(), (made(world.advisor), made(second))
    while time.monotonic() < began + 3:
        world.events(1)
        time.sleep(0.1)
    counts = [now - then for now, then in zip((made(world.advisor), made(second)), counts)]
    expect(1 <= sum(counts) <= 4, f"snapshots in 3 s: {counts}")
    run.note(f"two advisors made {counts} snapshots in 3 s, one a second is due")
    world.right()
    world.right(second)
    for advisor in (world.advisor, second):
        world.snapshot(0)
        world.start_empty(advisor)
        world.right(advisor)
    expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")
    second.kill()


def namesakes(run, world):
    wait_until(lambda: None if readers(world) else "nobody reads", 10 * run.slow, "it reads")
    name = readers(world).pop()
    second = world.make("namesake", **{"events.consumer": name})
    second.start()
    wait_until(lambda: None if "reads KVTIER_EVENTS by the consumer" in second.tail(5000) else "no word",
               10 * run.slow, "it is told")
    world.events(10)
    world.right()
    world.right(second)
    second.kill()


def client(world, folder, *arguments):
    script = world.run.file("client.py", CLIENT)
    done = subprocess.run([sys.executable, script, world.server.url, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60 * world.run.slow,
                          env={**os.environ, "PYTHONPATH": folder})
    expect(done.returncode == 0, f"nats-py: {done.stdout[-1500:]}")


def other_clients(run, world):
    """nats-py reads what an advisor put, and an advisor what nats-py put."""
    done = subprocess.run([os.path.join(ROOT, "scripts", "producers"), "nats-py"], check=True,
                          stdout=subprocess.PIPE, text=True)
    folder = done.stdout.strip()
    world.snapshot()
    world.advisor.kill()
    sequence, name = world.bucket.sequences()[0]
    headers = world.bucket.describe(name)["headers"]
    path = os.path.join(run.folder, "fetched")
    client(world, folder, BUCKET, "get", name, path)
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    expect(lines[0]["row"] == "index" and lines[0]["events_seq"] == sequence, f"{lines[0]}")
    expect(lines[-1] == {"row": "end", "lines": len(lines) - 1}, f"{lines[-1]}")
    client(world, folder, "others", "put", "index.1", path, *(f"{key}={value[0]}" for key, value in headers.items()))
    before = world.dumps()
    second = world.make("other", **{"snapshot.bucket": "others"})
    log = world.start_empty(second)
    expect(f"the index as of sequence {sequence}" in log, log[-800:])
    world.right(second)
    expect(world.dumps() == before, f"dumps: {before}, then {world.dumps()}")
    second.kill()


def rows_of(advisor):
    return sum(1 for _ in advisor.pages("/v1/index/dump"))


def uncertain(advisor):
    return [row["worker"] for row in advisor.ask("/v1/publishers")["publishers"] if row["state"] != "live"]


def importer(run, world, name, bucket):
    path = run.file(f"{name}.yaml", f"""version: 1
sources:
  - name: dyn
    kind: dynamo-jetstream
    namespace: dyn
    stream: {DYNAMO}-kv-events
    snapshot_bucket: {bucket}
""")
    return run.advisor(world.server, name, **{"sources.file": path, "publishers.give_up_after": "1s"})


def routers(run, world):
    """What a router of Dynamo 1.3.1 purged from its stream is known from its snapshot."""
    folder, python = (subprocess.run([os.path.join(ROOT, "scripts", "producers"), name], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout.strip()
                      for name in ("dynamo-1.3.1", "python"))
    router = run.add(harness.Process(run, "router", [python, os.path.join(ROOT, "tests", "producers", "router.py")],
                                     {"PYTHONPATH": folder, "NATS_SERVER": world.server.url, "DYN_LOG": "error",
                                      "DYN_EVENT_PLANE": "nats", "DYN_FILE_KV": os.path.join(run.folder, "dyn")}))
    router.start()

    def purged():
        state = world.bucket.api(f"STREAM.INFO.{DYNAMO}-kv-events").get("state", {"first_seq": 0})
        objects = world.bucket.api(f"STREAM.INFO.OBJ_{DYNAMO}-radix-bucket").get("state", {"messages": 0})
        return None if state["first_seq"] > 20 and objects["messages"] >= 2 else f"{state}, {objects}"

    wait_until(purged, 30 * run.slow, "the router keeps a snapshot")
    imports = importer(run, world, "imports", f"{DYNAMO}-radix-bucket").start()
    time.sleep(1)  # the stream goes on
    expect(router.stop() == 0, "the router does not end")
    with open(router.log, encoding="utf-8") as log:
        stored = int(log.read().split()[-1])

    def all_there():
        rows = rows_of(imports)
        return None if rows == stored and not uncertain(imports) else f"{rows} of {stored}, {uncertain(imports)}"

    wait_until(all_there, 20 * run.slow, "all is known")
    expect("what the routers keep" in imports.tail(8000), imports.tail())
    imports.kill()
    imports.start()
    wait_until(all_there, 20 * run.slow, "all is known after a kill -9")
    alone = importer(run, world, "alone", "nothing-there").start()
    wait_until(lambda: None if uncertain(alone) else "certain", 20 * run.slow, "the stream alone does not say all")
    expect("the stream alone is followed" in alone.tail(8000) and rows_of(alone) < stored, alone.tail())
    for advisor in (imports, alone):
        advisor.kill()


def scenario(run):
    world = World(run)
    lonely = world.make("lonely", **{"nats.url": f"nats://127.0.0.1:{run.port()}"})
    lonely.start(wait=False)
    first_cases(run, world)
    kills_at_steps(run, world)
    with run.case("kill -9 at any instant, with and without the folder"):
        kill(run, world)
    spoiled(run, world)
    with run.case("two advisors share a bucket"):
        together(run, world)
    with run.case("an advisor whose consumer another has goes on without"):
        namesakes(run, world)
    with run.case("other clients of the object store"):
        other_clients(run, world)
    with run.case("what a Dynamo router keeps is imported"):
        routers(run, world)
    with run.case("without NATS an advisor starts empty, after a while"):
        wait_until(lonely.is_alive, 20 * run.slow, "it is there")
        expect("NATS does not answer" in lonely.tail(4000), lonely.tail())
    with run.case("nothing stays of what was fetched"):
        left = glob.glob(f"{run.folder}/*/deposit.part") + glob.glob(f"{run.folder}/*/import.part")
        expect(not left, f"{left}")
    world.nats.close()


if __name__ == "__main__":
    harness.main(scenario, options)
