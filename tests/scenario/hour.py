#!/usr/bin/env python3
"""The real hour through two instances of two ranks, over gateway, MinIO, NATS and advisor, while their leaders and
ranks are killed or stopped one after the other: every request is served, no byte is wrong, what was killed is soon back,
and nothing of it is left behind."""

import os
import random
import signal
import statistics
import time

from harness import Failure, expect, main, wait_until
from instances import all_stored, engine, expect_agreement, expect_nothing_held, expect_right, stopped

STOPPED = 8  # each so many is stopped instead, and has to be found silent
AGAIN = 8  # times a block may be put off: a killed leader's part is taken for 12 s, in which others try it about so often
BACK = 2.0  # s from a kill until the instance serves again, in the middle; a machine of two cores serves meanwhile


def options(parser):
    parser.add_argument("--kills", type=int, default=60, help="leaders and ranks killed, spread over the trace")
    parser.add_argument("--patience", type=float, default=3600, help="seconds that serving the trace may take")


def count_requests(path, minutes):
    """How many of the trace's requests come before so many minutes of it, or at all."""
    with open(path, encoding="utf-8") as lines:
        if not minutes:
            return sum(1 for line in lines if line.strip())
        return sum(1 for line in lines if line.strip() and int(line.split('"timestamp":')[1].split(",")[0]) < minutes * 60000)


def victims(count, rng):
    """Each process of each instance as often as any other, give or take one, in a random order."""
    kinds = [(instance, part) for instance in (0, 1) for part in ("leader", 0, 1)]
    chosen = []
    while len(chosen) < count:
        rng.shuffle(kinds)
        chosen += kinds
    return chosen[:count]


def process_of(status, victim):
    one = status["instances"][victim[0]]
    return one["leader"] if victim[1] == "leader" else one["ranks"][victim[1]]


def processes_of(status):
    return {pid for one in status["instances"] for pid in (one["leader"], *one["ranks"])}


def resources(process, known):
    """What a process that is killed could leave behind: the front's files and memory, shared memory of processes that
    were known once, sockets and files on disk."""
    pid, folder = process.child.pid, process.run.folder
    with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20
    with open("/proc/sysvipc/shm", encoding="utf-8") as file:
        makers = [int(line.split()[4]) for line in file.read().splitlines()[1:]]
    children = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file:
            children += len(file.read().split())
    return {"files": len(os.listdir(f"/proc/{pid}/fd")), "MiB": resident, "children": children,
            "segments": sum(maker in known for maker in makers),
            "sockets": len(os.listdir(os.path.join(folder, f"{process.name}.d"))),
            "disks": sum(name.endswith(".g3") for name in os.listdir(folder))}


def expect_no_leak(run, before, after):
    keeps = 512 if run.sanitized else 32  # what was freed is kept for a while, to see who still uses it
    room = {"files": 8, "MiB": keeps, "children": 0, "segments": 0, "sockets": 0, "disks": 0}
    more = {what: (before[what], after[what]) for what in room if after[what] > before[what] + room[what]}
    expect(not more, f"left behind: {more}")


class Killing:
    """Serves a trace; when so much of it is served that the next kill is due, it happens."""

    def __init__(self, run, process, requests):
        self.run, self.process, self.requests = run, process, requests
        self.plan = victims(run.args.kills, run.rng)
        self.killed, self.back, self.dead = 0, [], None
        self.known = set()  # processes
        self.said = time.monotonic()

    def due(self, status):
        return self.killed < len(self.plan) and \
            status["served"] * (len(self.plan) + 1) >= (self.killed + 1) * self.requests

    def kill(self, status):
        victim = self.plan[self.killed]
        pid = process_of(status, victim)
        if pid == 0 or not status["instances"][victim[0]]["up"]:
            return
        self.dead = (victim[0], status["instances"][victim[0]]["starts"], time.monotonic())
        self.killed += 1
        os.kill(pid, signal.SIGSTOP if self.killed % STOPPED == 0 else signal.SIGKILL)

    def watch(self, status):
        number, starts, when = self.dead
        if status["instances"][number]["starts"] > starts and status["instances"][number]["up"]:
            self.back.append(time.monotonic() - when)
            self.dead = None
        elif time.monotonic() - when > 30 * self.run.slow:
            raise Failure(f"instance {number} is not back 30 s after a kill: {status['instances'][number]}")

    def step(self):
        status = self.process.status()
        self.known |= processes_of(status)
        if self.dead is not None:
            self.watch(status)
        elif self.due(status):
            self.kill(status)
        if time.monotonic() - self.said > 30:
            self.said = time.monotonic()
            self.run.note(f"{status['served']} of {self.requests} served, {self.killed} kills, {status['given_again']} "
                          f"given again")
        return None if status["finished"] and self.dead is None else f"{status['served']} of {self.requests} served"

    def serve(self):
        wait_until(self.step, self.run.args.patience * self.run.slow, "the trace is served", every=0.05)


def scenario(run):
    nats = run.nats().start()
    server = run.minio().start(seconds=60)
    run.client(server).create_bucket()
    advisor = run.advisor(nats).start(seconds=60)
    gateway = run.gateway(nats, s3_server=server).start(seconds=60)
    trace, minutes = run.trace(), run.args.minutes
    requests = count_requests(trace, minutes)
    until = {"trace.until": f"{int(minutes * 60)}s"} if minutes else {}
    one = engine(run, "hour", trace, gateway, nats, instances=2, tp=2,
                 **{"g2.size": "32MiB", "g3.size": "128MiB"}, **until).start(seconds=60)
    killing = Killing(run, one, requests)
    with run.case(f"{requests} requests are served while {run.args.kills} leaders and ranks are killed"):
        before = resources(one, processes_of(one.status()))
        killing.serve()
        status = one.status()
        run.note(f"{status['total']}")
        expect(killing.killed == run.args.kills and status["total"]["lives"] >= 2 + killing.killed,
               f"{killing.killed} kills, {status['total']['lives']} lives")
        expect_right(status, requests)
    with run.case("they pulled from each other, and what no instance had came from the bucket"):
        for figure in ("hits_peer", "hits_objects", "hits_g3", "stored"):
            expect(status["total"][figure] > 0, f"{figure}: {status['total']}")
    with run.case("what was killed was soon back"):
        run.note(f"back after {statistics.median(killing.back):.2f} s in the middle, {max(killing.back):.2f} s at most")
        expect(statistics.median(killing.back) < BACK * run.slow, f"{sorted(killing.back)}")
    with run.case("all that is kept comes to be stored"):
        wait_until(lambda: all_stored(one), 120 * run.slow, "all is stored", every=0.2)
        total = one.status()["total"]
        run.note(f"{total['stored']} stored, {total['store_again']} put off, {total['store_failed']} refused")
        expect(total["store_failed"] == 0, f"{total}")
        expect(total["store_again"] <= AGAIN * total["stored"], f"{total}")
    with run.case("nothing is held, and nothing was left behind"):
        expect_nothing_held(one)
        after = resources(one, killing.known)
        run.note(f"{before} before, {after} after")
        expect_no_leak(run, before, after)
    with run.case("leaders and advisor agree"):
        expect_agreement(one, advisor, trace, random.Random(run.seed), 20)
        stopped(one)


if __name__ == "__main__":
    main(scenario, options)
