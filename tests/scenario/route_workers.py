#!/usr/bin/env python3
"""Who requests may be routed to: configured, known by events, named in a bucket of NATS, and how fast they are not.

A real advisor and nats-server; workers publish events here or in processes of their own that are killed with -9.  A
worker that leaves is out of the next answer and what ran there is over; nobody leaves because NATS went away, and who
vanished meanwhile does once it is back."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

import bus
import harness
from harness import Failure, expect, wait_until
from publisher import BYE, Publisher

SPACE = "acme/llama"
BUCKET = "workers"
GONE_S = 2.0
TTL_S = 3.0
SOON_S = 0.1  # "at once", on a machine that is not busy
WORKER = """
import sys, time
sys.path.insert(0, {here!r})
import bus
from publisher import Publisher
worker = Publisher(bus.Nats({url!r}), {name!r}, {space!r}, acked=False)
worker.publish([worker.event(1, 0, 4711)])
while True:
    try:
        worker.heartbeat()
    except OSError:
        pass
    time.sleep(0.2)
"""


class Bucket:
    """A key-value bucket, by what it is made of: a stream, and headers that say what ends."""

    def __init__(self, nats):
        self.nats = nats

    def api(self, verb, question=None):
        answer = bus.json_request(self.nats, f"$JS.API.STREAM.{verb}.KV_{BUCKET}", question)
        expect(answer and "error" not in answer, lambda: f"{verb}: {answer}")

    def make(self, ttl=0):
        self.api("CREATE", {"name": f"KV_{BUCKET}", "subjects": [f"$KV.{BUCKET}.>"], "max_msgs_per_subject": 1,
                            "allow_rollup_hdrs": True, "deny_delete": True, "discard": "new", "storage": "file",
                            "max_age": int(ttl * 1e9), "num_replicas": 1})

    def put(self, key, value="", headers=None):
        self.nats.publish(f"$KV.{BUCKET}.{key}", value.encode(), headers)

    def delete(self, key):
        self.put(key, headers={"KV-Operation": "DEL"})

    def purge(self, key):
        self.put(key, headers={"KV-Operation": "PURGE", "Nats-Rollup": "sub"})


class World:
    def __init__(self, run):
        self.run = run
        self.server = run.nats().start()
        self.advisor = run.advisor(self.server, **{
            "route.workers": "conf-a:2, conf-b", "route.bucket": BUCKET, "publishers.silent_after": "1s",
            "publishers.gone_after": f"{GONE_S}s"}).start()
        self.nats = bus.Nats(self.server.url)
        self.bucket = Bucket(self.nats)
        self.children = {}
        self.beating, self.renewing = {}, set()
        self.stopping = threading.Event()
        self.heart = threading.Thread(target=self.beat, daemon=True)
        self.heart.start()
        self.requests = 0
        self.measured = {}

    # Workers ------------------------------------------------------------------------------------

    def beat(self):
        """What lives says so: heartbeats of publishers, keys that are written again."""
        while not self.stopping.wait(0.25):
            with contextlib.suppress(OSError):
                for publisher in list(self.beating.values()):
                    publisher.heartbeat()
                for key in list(self.renewing):
                    self.bucket.put(key)

    def publisher(self, name, locations=((1, 0, ""), (1, 1, ""))):
        worker = Publisher(self.nats, name, SPACE, acked=False)
        worker.locations = [list(row) for row in locations]
        worker.publish([worker.event(1, i, 1000 + i) for i in range(len(locations))])
        self.beating[name] = worker
        return worker

    def process(self, name):
        """A worker of its own process, so that it can be killed."""
        code = WORKER.format(here=os.path.dirname(os.path.abspath(__file__)), url=self.server.url, name=name,
                             space=SPACE)
        self.children[name] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-c", code])

    def kill(self, name):
        self.children[name].kill()
        self.children.pop(name).wait()

    # What the advisor says ----------------------------------------------------------------------

    def workers(self):
        return {(row["worker"], row["dp_rank"]): row for row in self.advisor.ask("/v1/route/workers")["workers"]}

    def choose(self, names, request=None):
        """The worker among these that is chosen; None: none of them is there."""
        body = {"namespace": SPACE, "hashes": ["00000000000003e8"], "workers": list(names)}
        if request:
            body["request_id"] = request
        status, data = self.advisor.raw("/v1/route", json.dumps(body).encode(), self.run.token if request else None)
        expect(status in (200, 503), lambda: f"/v1/route: {status} {data[:300]!r}")
        return json.loads(data)["worker"] if status == 200 else None

    def book(self, name):
        self.requests += 1
        request = f"r{self.requests}"
        expect(self.choose([name], request) == name, f"{name} is chosen")
        expect(request in self.running(), f"{request} runs")
        return request

    def running(self):
        return {row["request_id"] for row in self.advisor.ask("/v1/route/requests")["requests"]}

    def comes(self, name, rank=0, origins=None, seconds=10):
        def missing():
            row = self.workers().get((name, rank))
            if row is None or (origins and row["origins"] != origins):
                return f"{name}/{rank}: {row}"
            return None
        wait_until(missing, seconds * self.run.slow, f"{name}/{rank} comes", every=0.02)

    def leaves(self, name, act, what=None, seconds=10.0):
        """Seconds from the act to the first decision without the worker; none has it again."""
        request = self.book(name)
        act()
        began = time.monotonic()
        while self.choose([name]) is not None:
            expect(time.monotonic() - began < seconds * self.run.slow, f"{name} is still chosen")
            time.sleep(0.001)
        took = time.monotonic() - began
        for _ in range(20):
            expect(self.choose([name]) is None, f"{name} was chosen again")
        expect(not [key for key in self.workers() if key[0] == name], f"{name} is still listed")
        expect(request not in self.running(), f"{request} still runs at {name}")
        if what:
            self.measured.setdefault(what, []).append(took)
        return took

    def stays(self, *names, seconds=1.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            there = {key[0] for key in self.workers()}
            expect(set(names) <= there, f"{set(names) - there} left")
            time.sleep(0.05)


def at_once(run, took, what):
    expect(took < SOON_S * 5 * run.slow, f"{what}: {took * 1000:.0f} ms")  # five times: the machine may be busy


def configured(run, world):
    with run.case("configured workers are there, with their ranks"):
        there = world.workers()
        expect(sorted(there) == [("conf-a", 0), ("conf-a", 1), ("conf-b", 0)], f"{sorted(there)}")
        expect(all(row["origins"] == ["config"] for row in there.values()), f"{there}")
        expect(world.choose(["conf-a", "conf-b"]) is not None, "one of them is chosen")
    with run.case("settings that are wrong end the program, and say where"):
        bad = run.advisor(world.server, "bad", **{"route.workers": "a,b:0"})
        bad.start(wait=False)
        expect(bad.wait(20) != 0, "it ends")
        expect("route.workers:1:5: want how many ranks" in bad.tail(), lambda: bad.tail())


def events(run, world):
    with run.case("a worker is known by its events, each rank, and leaves with its Bye"):
        for turn in range(5):
            worker = world.publisher(f"bye{turn}")
            world.comes(worker.name, 1, ["events"])

            def leave(worker=worker):
                world.beating.pop(worker.name)
                worker.publish([[BYE, 0, 0, 0, 0, 0, 0, 1, 0]])
            at_once(run, world.leaves(worker.name, leave, "bye"), "Bye")
    with run.case("a new life of it is another worker: what ran on the former is over"):
        worker = world.publisher("anew")
        world.comes("anew")
        request = world.book("anew")
        worker.rebirth()
        worker.publish([worker.event(1, 0, 1000)])
        wait_until(lambda: request if request in world.running() else None, 10 * run.slow, "it is over", every=0.02)
        world.comes("anew")
    with run.case("one that is killed leaves when it is silent and does not answer"):
        world.process("killed")
        world.comes("killed", origins=["events"])
        took = world.leaves("killed", lambda: world.kill("killed"), "kill -9", seconds=15)
        expect(took > GONE_S / 2, f"{took:.1f} s")
    with run.case("so does one that is silent, but not one that answers"):
        quiet, dumb = world.publisher("quiet"), world.publisher("dumb")
        world.comes("quiet")
        world.comes("dumb")
        dumb.silent = True
        del world.beating["quiet"]
        world.leaves("dumb", lambda: world.beating.pop("dumb"), seconds=15)
        world.stays("quiet")
        expect(quiet.asked["range"] + quiet.asked["dump"] > 0, "it was asked")
        world.beating["quiet"] = quiet
        dumb.silent = False
        dumb.heartbeat()
        world.comes("dumb")
        world.beating["dumb"] = dumb


def keys(run, world):
    bucket = world.bucket
    with run.case("without the bucket nobody misses it; what is put then is there"):
        expect(world.advisor.status()["route"]["bucket"]["there"] is False, "there is no bucket yet")
        bucket.make()
        bucket.put("kv0")
        world.comes("kv0", origins=["bucket"])
    with run.case("a key that is deleted or purged ends its worker at once"):
        for turn in range(20):
            bucket.put("kv1")
            world.comes("kv1")
            end = bucket.purge if turn % 2 else bucket.delete
            at_once(run, world.leaves("kv1", lambda end=end: end("kv1"), "delete or purge"), "delete")
        middle = sorted(world.measured["delete or purge"])[10]
        expect(middle < SOON_S * run.slow, f"the middle of 20: {middle * 1000:.1f} ms")
    with run.case("values say ranks and names, also as Dynamo writes them"):
        bucket.put("kv2", json.dumps({"dp_ranks": 2}))
        world.comes("kv2", 1)
        bucket.put("kv2", json.dumps({"dp_ranks": [1, 5]}))
        world.comes("kv2", 5)
        expect(("kv2", 0) not in world.workers(), "a rank less")
        bucket.put("v1/instances/prod/backend/generate/1f", json.dumps({"instance_id": 31}))
        bucket.put("v1/instances/prod/backend/clear_kv_blocks/2f", "{}")
        world.comes("31", origins=["bucket"])
        expect(("47", 0) not in world.workers(), "other endpoints are no workers")
        bucket.put("kv2", "{nonsense")
        wait_until(lambda: None if world.advisor.status()["route"]["bucket"]["odd"] == 1 else "not counted",
                   10 * run.slow, "it is counted")
        expect(("kv2", 5) in world.workers(), "what cannot be read changes nothing")
        world.leaves("31", lambda: bucket.delete("v1/instances/prod/backend/generate/1f"))
        world.leaves("kv2", lambda: bucket.delete("kv2"))
    with run.case("a configured worker that its key ended comes back when it is seen"):
        bucket.put("conf-b")
        world.comes("conf-b", origins=["config", "bucket"])
        world.leaves("conf-b", lambda: bucket.delete("conf-b"))
        bucket.put("conf-b")
        world.comes("conf-b", origins=["config", "bucket"])
    with run.case("one that its key ended does not come back by the events of its end"):
        drains = world.publisher("drains")
        bucket.put("drains")
        world.comes("drains", origins=["events", "bucket"])
        world.leaves("drains", lambda: bucket.delete("drains"))
        drains.publish([drains.event(1, 0, 2000)])
        time.sleep(0.6)
        expect(world.choose(["drains"]) is None, "it is shutting down")
        world.beating.pop("drains")
        drains.publish([[BYE, 0, 0, 0, 0, 0, 0, 1, 0]])


def anew(run, world):
    with run.case("a bucket that is deleted takes nobody along; made anew it takes back its own word"):
        world.publisher("both")
        world.bucket.put("both")
        world.comes("both", origins=["events", "bucket"])
        world.bucket.api("DELETE")
        wait_until(lambda: None if not world.advisor.status()["route"]["bucket"]["there"] else "not noticed",
                   20 * run.slow, "it is noticed")
        world.stays("kv0", "both", seconds=0.5)
        world.bucket.make(TTL_S)
        wait_until(lambda: "kv0" if ("kv0", 0) in world.workers() else None, 20 * run.slow, "kv0 is forgotten",
                   every=0.02)
        world.comes("both", origins=["events"])
    with run.case("a key that grows too old ends its worker, one that is renewed does not"):
        world.renewing.add("lives")
        world.comes("lives", origins=["bucket"])
        world.bucket.put("fades")
        put = time.monotonic()
        world.comes("fades")
        world.leaves("fades", lambda: None, seconds=15)
        late = time.monotonic() - put - TTL_S
        world.measured.setdefault("age over", []).append(late)
        expect(-0.1 < late < SOON_S * 5 * run.slow + 1.0, f"{late * 1000:.0f} ms late")
        expect(world.choose(["lives"]) == "lives", "the other is there")


def outage(run, world):
    with run.case("nobody leaves while NATS is away; who vanished meanwhile does once it is back"):
        world.process("stays")
        world.process("vanishes")
        world.renewing.add("kv-vanishes")
        for name in ("stays", "vanishes", "kv-vanishes", "lives", "anew", "conf-a"):
            world.comes(name)
        world.server.stop()
        world.renewing.discard("kv-vanishes")
        world.kill("vanishes")
        everybody = {key[0] for key in world.workers()}
        expect({"stays", "vanishes", "kv-vanishes", "lives"} <= everybody, f"{everybody}")
        world.stays(*everybody, seconds=max(GONE_S, TTL_S) + 1.0)
        world.server.start()
        back = time.monotonic()
        left = {"vanishes", "kv-vanishes"}

        def there():
            now = {key[0] for key in world.workers()}
            expect(everybody - left <= now, f"{everybody - left - now} left, {time.monotonic() - back:.1f} s behind")
            return f"{left & now}" if left & now else None
        wait_until(there, 30 * run.slow, "who vanished is gone", every=0.05)
        run.note(f"who vanished was gone {time.monotonic() - back:.1f} s behind the server's start")
        world.stays(*(everybody - left), seconds=1.5)
    with run.case("a restart of the advisor finds them again"):
        expected = {key for key in world.workers()}
        world.advisor.stop()
        world.advisor.start()
        wait_until(lambda: None if set(world.workers()) == expected else
                   f"{sorted(set(world.workers()) ^ expected)}", 20 * run.slow, "the same are there")


def scenario(run):
    world = World(run)
    try:
        configured(run, world)
        events(run, world)
        keys(run, world)
        anew(run, world)
        outage(run, world)
    finally:
        world.stopping.set()
        for child in world.children.values():
            child.kill()
    for what, times in world.measured.items():
        run.note(f"{what} to the first decision without it: {len(times)} times, "
                 f"middle {sorted(times)[len(times) // 2] * 1000:.1f} ms, worst {max(times) * 1000:.1f} ms")
    if not world.measured:
        raise Failure("nothing was measured")


if __name__ == "__main__":
    harness.main(scenario)
