#!/usr/bin/env python3
"""Three advisors of a group route together while their bus loses, doubles and delays what they tell each other.

Requests are given out, go on and end at any of them, and all three know the same in the end; one that is killed with
kill -9, or stopped until the server drops it, knows it again; what nobody ends is over everywhere."""

import json
import random
import signal
import time

import bus
import harness
from harness import Process, connects, expect, wait_until
from lossy import Door

SYNC, STEP, ROUTE = "kvtier.v1.route.sync.", "kvtier.v1.route.step", "kvtier.v1.query.route"
ADD = 1
NAMES = ("one", "two", "three")
WORKERS = 5


class Group:
    def __init__(self, run):
        self.run = run
        port = run.port()
        config = run.file("nats.conf", f"""
            listen: "127.0.0.1:{port}"
            jetstream {{ store_dir: "{run.folder}/nats", max_file_store: 8GB }}
            max_pending: 1MB
            write_deadline: "1s"
            """)
        self.server = run.add(Process(run, "nats", [run.server("nats-server"), "-c", config],
                                      ready=lambda: connects(port)))
        self.server.url = f"nats://127.0.0.1:{port}"
        self.server.start()
        self.doors = [Door(self.server.url, SYNC, random.Random(run.rng.random())) for _ in NAMES]
        self.advisors = []
        self.nats = bus.Nats(self.server.url)
        self.truth = {}  # of requests that run: the state that was told last
        self.made = 0
        self.begin(120)

    def begin(self, expiry):
        """All three, on empty states."""
        for advisor in self.advisors:
            advisor.kill()
        self.advisors = [self.run.advisor(door, name=f"{name}-{expiry}", **{
            "route.group": "g", "route.router_id": str(i + 1), "route.expiry": f"{expiry}s",
            "route.workers": ",".join(f"w{j}" for j in range(WORKERS))}).start() for i, (name, door) in
            enumerate(zip(NAMES, self.doors))]
        self.truth = {}

    def spoil(self, loss, twice=0, late=0):
        for door in self.doors:
            door.loss, door.twice, door.late = loss, twice, late

    def up(self):
        return [advisor for advisor in self.advisors if advisor.alive()]

    def step(self):
        """One step of a request, told to any of those that are up."""
        rng, advisor = self.run.rng, self.run.rng.choice(self.up())
        request = rng.choice(sorted(self.truth)) if self.truth and rng.random() < 0.55 else None
        if request is None:
            self.made += 1
            request = f"r{self.made}"
            prompt = [rng.getrandbits(64) | 1 for _ in range(rng.randrange(1, 40))]
            self.ask(advisor, "/v1/route", {"hashes": [f"{h:016x}" for h in prompt], "request_id": request})
            self.truth[request] = "added"
        elif self.truth[request] == "added" and rng.random() < 0.7:
            # Whoever is asked may not have heard of the request: it remembers.
            self.ask(advisor, f"/v1/route/requests/{request}/prefilled", {}, (200, 404))
            self.truth[request] = "prefilled"
        else:
            self.ask(advisor, f"/v1/route/requests/{request}/free", {}, (200, 404))
            del self.truth[request]

    def ask(self, advisor, path, body, statuses=(200,)):
        status, data = advisor.raw(path, json.dumps(body).encode() if body else b"", self.run.token)
        expect(status in statuses, lambda: f"{path} at {advisor.name}: {status} {data[:300]!r}")

    def requests(self, advisor):
        """What runs, with worker and state."""
        rows, cursor = {}, "0"
        while True:
            page = advisor.ask(f"/v1/route/requests?limit=100&cursor={cursor}")
            rows |= {row["request_id"]: (row["state"], row["worker"]) for row in page["requests"]}
            cursor = page["next_cursor"]
            if not cursor:
                return rows

    def loads(self, advisor):
        return {row["worker"]: (row["active_requests"], row["active_blocks"], row["active_prefill_tokens"])
                for row in advisor.ask("/v1/route/workers")["workers"]}

    def replica(self, advisor):
        return advisor.status()["route"]["replica"]

    def alike(self, seconds):
        """All that are up know what is true, and nothing else."""
        began = time.monotonic()

        def differ():
            for advisor in self.up():
                rows = self.requests(advisor)
                got = {request: row[0] for request, row in rows.items()}
                if got != self.truth:
                    more, less = set(got) - set(self.truth), set(self.truth) - set(got)
                    return (f"{advisor.name}: {len(got)} of {len(self.truth)} requests; too many {sorted(more)[:5]}, "
                            f"missing {sorted(less)[:5]}; {self.replica(advisor)}")
                if rows != self.requests(self.up()[0]) or self.loads(advisor) != self.loads(self.up()[0]):
                    return f"{advisor.name} and {self.up()[0].name} differ"
            return None
        wait_until(differ, seconds * self.run.slow, "all know the same", every=0.2)
        return time.monotonic() - began


def losses(run, group):
    with run.case("while a quarter of all messages is lost all know the same in the end"):
        group.spoil(0.25, twice=0.2, late=0.1)
        for _ in range(500):
            group.step()
        seconds = group.alike(60)
        lost, brought = (sum(getattr(door, key) for door in group.doors) for key in ("lost", "brought"))
        expect(lost > 200, f"{lost} messages lost: that is none to speak of")
        expect(any(group.replica(advisor)["gaps"] for advisor in group.advisors), "nobody missed anything")
        run.note(f"{lost} messages were lost and {brought} were not; {len(group.truth)} requests run; all knew them "
                 f"{seconds:.1f} s behind the last step, with as many lost")


def killed(run, group):
    with run.case("one that was killed knows what runs when it is back"):
        group.advisors[1].kill()
        for _ in range(100):
            group.step()
        group.advisors[1].start()
        for _ in range(100):
            group.step()
        run.note(f"{group.alike(60):.1f} s until all knew the same")
        expect(group.replica(group.advisors[1])["tables"] >= 1, f"{group.replica(group.advisors[1])}")


def joining(run, group):
    with run.case("one that does not know yet what runs is not asked over NATS, and says so over HTTP"):
        def ask():
            group.made += 1
            answer = group.nats.request(ROUTE, bus.pack([1, "acme/llama", 0, [run.rng.getrandbits(64)]]), 2)
            expect(answer is not None and bus.unpack(answer)[1] == 0, f"no answer: {answer!r}")

        def decisions():
            return victim.status()["route"]["decisions"]

        def restart():
            """Nothing that the others tell reaches it."""
            victim.kill()
            group.doors[0].loss = 1
            victim.start(wait=False)
            wait_until(lambda: connects(victim.admin), 10 * run.slow, "it is there", every=0.01)

        victim = group.advisors[0]
        body = json.dumps({"hashes": ["0000000000000001"]}).encode()
        asked = 0
        restart()
        while not group.replica(victim)["ready"]:
            asked += 1
            ask()
            seen = decisions()
            expect(seen == 0 or group.replica(victim)["ready"], f"it answered {seen} of {asked} questions")
        expect(asked > 20, f"{asked} questions before it was ready")
        wait_until(lambda: ask() or (None if decisions() else "none was its"), 10 * run.slow, "it answers, too", every=0.02)
        restart()
        said = json.loads(victim.raw("/v1/route", body)[1]).get("joining")
        expect(said or group.replica(victim)["ready"], "it does not say that it is joining")
        group.doors[0].loss = 0.25
        group.alike(60)
        expect("joining" not in json.loads(victim.raw("/v1/route", body)[1]), "it says so still")


def stopped(run, group):
    with run.case("one that stood still until the server dropped it knows what runs when it goes on"):
        group.spoil(0)
        victim = group.advisors[2]
        victim.child.send_signal(signal.SIGSTOP)
        try:
            until = time.monotonic() + 60 * run.slow
            while not dropped(group) and time.monotonic() < until:
                for _ in range(20):
                    group.made += 1
                    prompt = [run.rng.getrandbits(64) for _ in range(6000)]
                    step = bus.pack([1, ADD, f"big{group.made}", f"w{group.made % WORKERS}", 0, 6000, 96000, prompt])
                    group.nats.publish(STEP, step)
                    group.truth[f"big{group.made}"] = "added"
            expect(dropped(group), "the server never dropped it")
        finally:
            victim.child.send_signal(signal.SIGCONT)
        run.note(f"{group.alike(60):.1f} s until all knew the same, {len(group.truth)} requests")


def dropped(group):
    with open(group.server.log, encoding="utf-8", errors="replace") as log:
        return "Slow Consumer" in log.read()


def unended(run, group):
    with run.case("what nobody ends is over everywhere"):
        group.begin(4)
        group.spoil(0.25, twice=0.2, late=0.1)
        for i in range(60):
            group.ask(run.rng.choice(group.advisors), "/v1/route",
                      {"hashes": [f"{i + 1:016x}"], "request_id": f"lost{i}"})
        expect(any(group.requests(advisor) for advisor in group.advisors), "nothing ran")
        run.note(f"{group.alike(40):.1f} s until nothing ran")
        for advisor in group.advisors:
            expect(all(load == (0, 0, 0) for load in group.loads(advisor).values()), f"{group.loads(advisor)}")


def scenario(run):
    group = Group(run)
    losses(run, group)
    killed(run, group)
    joining(run, group)
    stopped(run, group)
    unended(run, group)


if __name__ == "__main__":
    harness.main(scenario)
