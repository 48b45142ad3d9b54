#!/usr/bin/env python3
"""Which worker should take a request: real advisors, workers that publish what they hold, HTTP and NATS.

Both ways give the same answer; the cold tier, weights and temperature change it; what was given out is seen by the
next, on every replica, until it ends, expires or its worker leaves; under events, junk and kills there is an answer."""

import collections
import json
import threading
import time

import bus
import harness
from harness import expect, wait_until
from publisher import Publisher

SPACE = "acme/llama"
LENGTH = 12  # blocks of a prompt
ROUTE, STEP = "kvtier.v1.query.route", "kvtier.v1.route.step"
ADD, PREFILLED, FREE = 1, 2, 3
WHY = {1: "lowest", 2: "load", 3: "chance", 4: "softmax"}
OVERLAP, TEMPERATURE, G4 = 0, 1, 5
NOT_FOUND, EXISTS = 8, 9  # include/kvtier/error.h
GROUP = {"route.group": "g", "route.expiry": "3s", "publishers.gone_after": "1h"}


class Worker(Publisher):
    """One whose tiers are known by their numbers."""

    def __init__(self, nats, name, locations=((1, 0, ""), (2, 0, ""), (3, 0, ""))):
        super().__init__(nats, name, SPACE)
        self.locations = [list(row) for row in locations]

    def hold(self, prompt, tier, first, last):
        where = [row[0] for row in self.locations].index(tier)
        self.publish([self.event(1, where, prompt[i], prompt[i - 1] if i else 0, i) for i in range(first, last)])


class World:
    def __init__(self, run):
        self.run = run
        self.server = run.nats().start()
        self.advisor = run.advisor(self.server, **GROUP).start()
        self.nats = bus.Nats(self.server.url)
        self.workers = {name: Worker(self.nats, name) for name in ("a", "b", "c")}
        self.store = Worker(self.nats, "gw", [(4, 0, "cold@kv")])
        self.fresh = 0

    def prompt(self):
        return [self.run.rng.getrandbits(64) | 1 for _ in range(LENGTH)]

    def ask(self, prompt, advisor=None, status=200, **more):
        body = {"namespace": SPACE, "hashes": [f"{hash_:016x}" for hash_ in prompt], **more}
        got, data = (advisor or self.advisor).raw("/v1/route", json.dumps(body).encode(),
                                                  self.run.token if "request_id" in more else None)
        expect(got == status, lambda: f"/v1/route {more}: {got} {data[:300]!r}")
        return json.loads(data)

    def bus_ask(self, prompt, request="", weights=(), workers=(), explain=0):
        return bus.unpack(self.nats.request(ROUTE, bus.pack(
            [1, SPACE, 0, prompt, 0, 0, request, list(weights), list(workers), explain])))

    def post(self, path, advisor=None):
        return (advisor or self.advisor).raw(path, b"", self.run.token)[0]

    def loads(self, advisor=None):
        return {row["worker"]: row for row in (advisor or self.advisor).ask("/v1/route/workers")["workers"]}

    def requests(self, advisor=None):
        return {row["request_id"]: row["worker"] for row in
                (advisor or self.advisor).ask("/v1/route/requests")["requests"]}

    def id(self):
        self.fresh += 1
        return f"r{self.fresh}"

    def knows(self, prompt, worker, cached):
        """The index has heard of it."""
        def heard():
            rows = {row["worker"]: row for row in self.ask(prompt, explain=True)["workers"]}
            got = list(rows[worker]["cached"].values()) if worker in rows else None
            return None if got == cached else f"{worker} has {got}"
        wait_until(heard, 20 * self.run.slow, f"{worker} has {cached}", every=0.05)

    def is_free(self, advisor=None):
        wait_until(lambda: self.requests(advisor) or None, 20 * self.run.slow, "nothing runs", every=0.1)


def answers(run, world):
    with run.case("without workers there is no answer, and it says so"):
        got = world.ask(world.prompt(), status=503)
        expect("no worker is known" in got["error"]["message"], f"{got}")
        got = world.bus_ask(world.prompt())
        expect(got[1] == NOT_FOUND and "no worker" in got[2], f"{got}")
    with run.case("workers are known by their events, gateways are none"):
        prompt = world.prompt()
        for worker in world.workers.values():
            worker.hold(world.prompt(), 1, 0, 1)
        wait_until(lambda: None if len(world.loads()) == 3 else f"{sorted(world.loads())}", 20 * run.slow,
                   "the workers are known")
        world.workers["a"].hold(prompt, 1, 0, 6)
        world.workers["b"].hold(prompt, 2, 0, 10)
        world.workers["c"].hold(prompt, 3, 0, 12)
        world.store.hold(world.prompt(), 4, 0, 1)
        world.knows(prompt, "a", [6, 0, 0, 0])
        world.knows(prompt, "b", [0, 10, 0, 0])
        world.knows(prompt, "c", [0, 0, 12, 0])
        expect(sorted(world.loads()) == ["a", "b", "c"], f"{world.loads()}")
        expect(world.loads()["a"]["origins"] == ["events"], f"{world.loads()['a']}")
    with run.case("HTTP and NATS give the same answer, and say why"):
        one = world.ask(prompt, explain=True)
        two = world.bus_ask(prompt, explain=1)
        expect(one["worker"] == "b" and one["why"] == "lowest" and not one["booked"], f"{one}")
        expect(two[1] == 0 and WHY[two[3]] == one["why"] and two[4] == one["blocks"] == LENGTH, f"{two}")
        keys = ("worker", "dp_rank", "cached", "active_requests", "prefill_blocks", "decode_blocks", "cost",
                "probability", "uncertain")
        rows = [[list(row[key].values()) if key == "cached" else row[key] for key in keys]
                for row in [one, *one["workers"]]]
        expect(rows == [two[2], *two[8]], f"{rows} and {two}")
        # 12 blocks, less 0.75 * 10, 1 * 6 or 0.25 * 12, and 12 to be kept.
        expect([row["cost"] for row in one["workers"]] == [16.5, 18, 21], f"{one['workers']}")
    with run.case("what lies in the cold tier changes the choice"):
        world.store.hold(prompt, 4, 0, 12)
        world.knows(prompt, "a", [6, 0, 0, 6])
        expect(world.ask(prompt)["worker"] == "b", "a tenth of six blocks is not enough")
        expect(world.ask(prompt, g4_weight=0.5)["worker"] == "a", "half of them is")
        expect(world.bus_ask(prompt, weights=[[G4, 0.5]])[2][0] == "a", "over NATS, too")
    with run.case("questions may weigh otherwise and allow some"):
        expect(world.ask(prompt, workers=["c", "a"])["worker"] == "a", "of two the better")
        expect(world.bus_ask(prompt, workers=["c"])[2][0] == "c", "one that is allowed")
        got = world.ask(prompt, workers=["x"], status=503)
        expect("that are allowed (1) none is there" in got["error"]["message"], f"{got}")
        got = collections.Counter(world.ask(prompt, router_temperature=1)["worker"] for _ in range(300))
        expect(got["b"] > got["c"] > 0 and got["a"] > 0, f"drawn: {got}")
        expect(world.ask(prompt, overlap_score_weight=0)["why"] in ("load", "chance"), "by load alone all are equal")
    with run.case("tokens are hashed as Dynamo does"):
        got = world.ask([], tokens=list(range(40)), status=400)
        expect("beside" in got["error"]["message"], f"{got}")
        got = world.advisor.ask("/v1/route", {"namespace": SPACE, "tokens": list(range(40)), "block_tokens": 16})
        expect(got["blocks"] == 3, f"{got}")
    return prompt


def malformed(run, world):
    with run.case("what is malformed is refused, and told where"):
        for body, words in ((b"{", "body:1:"), (b"[]", "want an object"), (b'{"hashs":[]}', "hashs"),
                            (b'{"hashes":["x"]}', "hashes[0]"), (b'{"tokens":[1,-1]}', "tokens[1]"),
                            (b'{"hashes":[],"isl_tokens":-4}', "isl_tokens"),
                            (b'{"hashes":["0000000000000001"],"g1_weight":-1}', "g1_weight"),
                            (b'{"hashes":["0000000000000001"],"isl_tokens":3}', "isl_tokens: 3"),
                            (b'{"hashes":["0000000000000001"],"workers":[]}', "workers"),
                            (b'{"hashes":["0000000000000001"],"workers":["a\\u0000"]}', "workers[0]"),
                            (b'{"hashes":["0000000000000001"],"block_tokens":65537}', "block_tokens"), (b"{}", "without tokens")):
            status, data = world.advisor.raw("/v1/route", body)
            expect(status == 400 and words in json.loads(data)["error"]["message"], f"{body!r}: {status} {data!r}")
        status, data = world.advisor.raw("/v1/route", b'{"hashes":["0000000000000001"],"request_id":"r"}')
        expect(status == 401, f"booked without a token: {status} {data!r}")
        for junk in (b"", b"\xc1", bus.pack([1]), bus.pack([1, SPACE, 9, []]), bus.pack([1, 2, 3, 4])):
            got = bus.unpack(world.nats.request(ROUTE, junk))
            expect(got[1] != 0 and "byte" in got[2], f"{junk!r}: {got}")
            got = bus.unpack(world.nats.request(STEP, junk))
            expect(got[1] != 0, f"{junk!r}: {got}")
        expect(world.post("/v1/route/requests/x/y") == 404, "no such step")
        expect(world.post("/v1/route/requests/stranger/free") == 404, "nobody of that name")


def booking(run, world):
    with run.case("requests that are booked spread, and are over step by step"):
        ids = [world.id() for _ in range(12)]
        for i, request in enumerate(ids):
            got = world.ask(world.prompt(), request_id=request) if i % 2 else world.bus_ask(world.prompt(), request)
            expect(got["booked"] if i % 2 else got[6], f"{request}: {got}")
        expect([row["active_requests"] for row in world.loads().values()] == [4, 4, 4], f"{world.loads()}")
        expect(world.ask(world.prompt(), request_id=ids[0], status=409)["error"]["code"] == "EXISTS", "given out twice")
        expect(bus.unpack(world.nats.request(STEP, bus.pack([1, PREFILLED, ids[0]]))) == [1, 0, 1], "prefilled")
        expect(bus.unpack(world.nats.request(STEP, bus.pack([1, PREFILLED, ids[0]]))) == [1, 0, 0], "and again")
        for i, request in enumerate(ids):
            if i % 2:
                expect(world.post(f"/v1/route/requests/{request}/free") == 200, f"{request} ends")
                expect(world.post(f"/v1/route/requests/{request}/free") == 200, f"{request} ended")
            else:
                world.nats.publish(STEP, bus.pack([1, FREE, request]))
        world.is_free()
    with run.case("requests whose worker was chosen elsewhere weigh as well"):
        for worker, request in (("a", "e1"), ("b", "e2")):
            got = bus.unpack(world.nats.request(STEP, bus.pack([1, ADD, request, worker, 0, 8, 128, []])))
            expect(got == [1, 0, 1], f"{got}")
        expect(world.ask(world.prompt())["worker"] == "c", f"{world.loads()}")
        body = {"request_id": "e3", "worker": "c", "tokens": list(range(640))}
        expect(world.advisor.ask("/v1/route/requests", body, run.token)["changed"], "added over HTTP")
        expect(world.ask(world.prompt())["worker"] in ("a", "b"), f"{world.loads()}")
    with run.case("what nobody ends expires"):
        expect(len(world.requests()) == 3, f"{world.requests()}")
        world.is_free()
        expect(world.advisor.status()["route"]["expired"] == 3, f"{world.advisor.status()['route']}")


def leaving(run, world, prompt):
    with run.case("a worker that says good-bye is out of the next answer, and what ran there is over"):
        request = world.id()
        expect(world.ask(prompt, request_id=request)["worker"] == "b", "it has most")
        world.workers["b"].publish([[4, 0, 0, 0, 0, 0, 0, 1, 0]])
        wait_until(lambda: None if "b" not in world.loads() else "it is there", 20 * run.slow, "b left", every=0.02)
        expect(world.ask(prompt)["worker"] == "a", "who has most of those that are there")
        expect(request not in world.requests(), f"{world.requests()}")
        world.workers["b"].rebirth()
        world.workers["b"].hold(world.prompt(), 2, 0, 1)
        wait_until(lambda: None if "b" in world.loads() else "it is away", 20 * run.slow, "b came back")


def replicas(run, world):
    with run.case("another advisor of the group sees what was given out"):
        second = run.advisor(world.server, name="second", **GROUP).start()
        wait_until(lambda: None if len(world.loads(second)) == 3 else "workers are missing", 20 * run.slow, "it knows all")
        wait_until(lambda: None if second.status()["route"]["replica"]["peers"] == 1 else "alone", 20 * run.slow, "two")
        request = world.id()
        worker = world.ask(world.prompt(), request_id=request)["worker"]
        wait_until(lambda: None if world.requests(second).get(request) == worker else f"{world.requests(second)}",
                   5 * run.slow, "it heard of it", every=0.02)
        expect(world.post(f"/v1/route/requests/{request}/free", second) == 200, "it may end there")
        world.is_free()
    with run.case("one of the group answers over NATS, and gives the request to one worker"):
        def decisions():
            return sum(advisor.status()["route"]["decisions"] for advisor in (world.advisor, second))
        before = decisions()
        chosen = {request: world.bus_ask(world.prompt(), request)[2][0] for request in (world.id() for _ in range(30))}
        for advisor in (world.advisor, second):
            wait_until(lambda: None if set(chosen) <= set(world.requests(advisor)) else "some are missing", 5 * run.slow,
                       "they are heard of", every=0.02)
            rows = world.requests(advisor)
            expect(chosen.items() <= rows.items(), lambda: f"given to {chosen}, counted as {rows}")
        expect(decisions() - before == len(chosen), f"{decisions() - before} decisions for {len(chosen)} requests")
        for request in chosen:
            world.nats.publish(STEP, bus.pack([1, FREE, request]))
        world.is_free()
        return second


def pressure(run, world):
    with run.case("under events there is an answer"):
        stop = threading.Event()
        flood = [Publisher(world.nats, f"flood{i}", SPACE, run.rng.random()) for i in range(2)]

        def publish():
            while not stop.is_set():
                for publisher in flood:
                    publisher.publish(publisher.step())
        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        slow = []
        try:
            until = time.monotonic() + 2
            while time.monotonic() < until:
                began = time.monotonic()
                got = world.bus_ask(world.prompt(), world.id())
                slow.append(time.monotonic() - began)
                expect(got[1] == 0, f"{got}")
        finally:
            stop.set()
            thread.join()
        slow.sort()
        sums = dict(line.rsplit(" ", 1) for line in world.advisor.raw("/metrics")[1].decode().splitlines()
                    if line.startswith("kvtier_advisor_route_decision_microseconds_"))
        mean = (int(sums["kvtier_advisor_route_decision_microseconds_sum"]) /
                int(sums["kvtier_advisor_route_decision_microseconds_count"]))
        run.note(f"{len(slow)} decisions beside events, the median in {slow[len(slow) // 2] * 1000:.1f} ms, "
                 f"the slowest in {slow[-1] * 1000:.1f} ms, with the bus and this client; all so far took the advisor "
                 f"{mean:.0f} us in the mean")
        expect(len(slow) > 20, "hardly any answer")


def restart(run, world, second):
    with run.case("an advisor that was killed knows workers again, and from the other what runs"):
        request = world.id()
        worker = world.ask(world.prompt(), advisor=second, request_id=request)["worker"]
        world.advisor.kill()
        world.advisor.start()
        expect(world.requests().get(request) == worker, f"{world.requests()}")
        for publisher in world.workers.values():
            publisher.heartbeat()
        wait_until(lambda: None if {"a", "b", "c"} <= set(world.loads()) else f"{sorted(world.loads())}",
                   20 * run.slow, "it knows all")
        expect(world.ask(world.prompt())["candidates"] >= 3, "it answers")


def scenario(run):
    world = World(run)
    prompt = answers(run, world)
    malformed(run, world)
    booking(run, world)
    leaving(run, world, prompt)
    second = replicas(run, world)
    pressure(run, world)
    restart(run, world, second)


if __name__ == "__main__":
    harness.main(scenario)
