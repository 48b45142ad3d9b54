#!/usr/bin/env python3
"""Processes contend for locks in a bucket, and are killed and stopped past their leases.

The judge asks nobody what happened to a lock: every body is written once only, so each write names by its
If-Match the one write it follows, and the acknowledged ones of all processes, killed ones too, are the
server's history of the object, link by link.
"""

import hashlib
import json
import os
import subprocess
import threading
import time

import harness
from harness import expect, main

RACERS = 6         # processes at once, a server
TTL_MS = 1000
GRACE_MS = 2000    # beyond the lease, until others may take over
FINAL_SLACK = 6    # seconds; two of them by whole seconds of the server's clock, the rest for its load
RACES = 200
MS = 1000000


def options(parser):
    parser.add_argument("--races", type=int, default=RACES,
                        help=f"acquisitions a server (default {RACES})")
    parser.add_argument("--server", choices=("minio", "versitygw"), help="only this one")


class Racer(harness.Process):
    def __init__(self, fleet, verb="race"):
        run, self.fleet = fleet.run, fleet
        name = f"{fleet.server.name}-r{len(fleet.racers)}"
        self.lines = os.path.join(run.folder, f"{name}.jsonl")
        super().__init__(run, name, [
            fleet.program, verb, fleet.server.url, "kvtier", self.lines, name, str(run.rng.getrandbits(60)),
            str(fleet.locks), str(TTL_MS)], env=fleet.env)
        fleet.racers.append(run.add(self))

    def read(self):
        """Its lines; the last one may be cut off by a kill."""
        if not os.path.exists(self.lines):
            return []
        with open(self.lines, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]


class Write:
    """One request that would change an object, by one process."""

    def __init__(self, racer, line):
        self.racer, self.sent, self.key = racer, line["t"], line["key"]
        self.condition, self.source = line["condition"], line["from"]
        self.body = bytes.fromhex(line["body"])
        self.content = json.loads(self.body)
        self.etag = hashlib.md5(self.body).hexdigest()
        self.answered, self.status = None, None

    def __str__(self):
        return (f"{self.racer} {self.condition} {self.source[:8]}>{self.etag[:8]} "
                f"{self.content} {self.status}")


class Fleet:
    """One server, its racers, and what becomes of them."""

    def __init__(self, run, server, races):
        self.run, self.server, self.races = run, server, races
        self.program = os.path.join(run.build, "tests", "scenario", "lock_racer")
        self.env = {"AWS_ACCESS_KEY_ID": harness.ACCESS, "AWS_SECRET_ACCESS_KEY": harness.SECRET}
        self.racers, self.locks = [], max(24, min(60, races // 20))
        self.kills, self.stops, self.error = 0, 0, None
        self.rng = harness.random.Random(run.rng.getrandbits(60))

    def prove(self):
        done = subprocess.run([self.program, "prove", self.server.url, "kvtier"], check=True,
                              env={**os.environ, **self.env}, stdout=subprocess.PIPE,
                              timeout=60 * self.run.slow)
        return json.loads(done.stdout)

    def won(self):
        count = 0
        for racer in self.racers:
            if os.path.exists(racer.lines):
                with open(racer.lines, "rb") as file:
                    count += file.read().count(b'"op":"release"')
        return count

    def disturb(self, alive):
        """Kill one and start another, or stop one for a moment or for longer than its lease."""
        at = self.rng.randrange(len(alive))
        if self.rng.random() < 0.4:
            alive[at].kill()
            alive[at] = Racer(self).start()
            self.kills += 1
            return
        victim = alive[at].child
        victim.send_signal(harness.signal.SIGSTOP)
        self.stops += 1
        pause = (TTL_MS + GRACE_MS) / 1000 + 2 if self.rng.random() < 0.6 else self.rng.random()
        timer = threading.Timer(pause, lambda: victim.poll() is None
                                and victim.send_signal(harness.signal.SIGCONT))
        timer.daemon = True
        timer.start()

    def race(self):
        try:
            alive = [Racer(self).start() for _ in range(RACERS)]
            deadline = time.monotonic() + 60 + self.races * self.run.slow
            # A long run meets as many disturbances as it has seconds; a short one a few of each kind.
            while self.won() < self.races or self.kills < 3 or self.stops < 5:
                expect(time.monotonic() < deadline, f"{self.won()} of {self.races} races, too slow")
                time.sleep(0.2 + 0.6 * self.rng.random())
                for racer in alive:
                    expect(racer.alive(), f"{racer.name} ended by itself: {racer.tail()}")
                self.disturb(alive)
            for racer in alive:
                racer.kill()
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error

    # The judge ------------------------------------------------------------------------------------

    def gather(self):
        """All writes by key, and what each process believed, by lock."""
        writes, beliefs = {}, {}
        for racer in self.racers:
            waiting = {}
            for line in racer.read():
                if line["op"] == "send":
                    expect(line["verb"] == "put", lambda: f"{racer.name} deletes: {line}")
                    waiting[line["id"]] = write = Write(racer.name, line)
                    writes.setdefault(write.key, []).append(write)
                elif line["op"] == "answer":
                    write = waiting.pop(line["id"])
                    write.answered, write.status = line["t"], line["status"]
                    expect(line["status"] != "OK" or line["etag"] == write.etag,
                           lambda: f"{write}: this server's ETag is no MD5: {line}")
                else:
                    beliefs.setdefault(line["lock"], []).append((racer.name, line))
        return writes, beliefs

    def chain(self, key, writes):
        """The object's history: its writes, each following from the one before.

        A write whose answer is unknown arrived when a later one follows from it, or when it is what is
        there at the end."""
        answer = self.run.client(self.server).get(key)
        final = hashlib.md5(answer.body).hexdigest() if answer.status == 200 else None
        made = {write.etag: write for write in writes}
        arrived = {id(write): write for write in writes if write.status == "OK"}
        wanted = [write.source for write in arrived.values() if write.condition == "match"]
        wanted += [final] if final else []
        while wanted:
            etag = wanted.pop()
            expect(etag in made, lambda: f"{key}: {etag} was written by nobody")
            write = made[etag]
            if id(write) not in arrived:
                arrived[id(write)] = write
                wanted += [write.source] if write.condition == "match" else []
        after = {}
        for write in arrived.values():
            if write.condition == "match":
                other = after.setdefault(write.source, write)
                expect(other is write, lambda: f"{key}: two won: {other} and {write}")
        lists = []
        for first in (write for write in arrived.values() if write.condition == "absent"):
            chain = [first]
            while chain[-1].etag in after:
                chain.append(after[chain[-1].etag])
            lists.append(chain)
        expect(sum(map(len, lists)) == len(arrived), f"{key}: a write follows from nothing")
        expect(len(lists) == 1 and lists[0][-1].etag == final, lambda: f"{key}: {len(lists)} beginnings")
        return lists[0]

    def judge_lock(self, key, chain):
        """Each change of hands; how many by takeover."""
        taken = 0
        for before, write in zip(chain, chain[1:]):
            old, new = before.content, write.content
            if new["nonce"] == old["nonce"]:
                expect(write.racer == before.racer and new["writes"] > old["writes"]
                       and new["epoch"] == old["epoch"] and not old["released"],
                       lambda: f"{key}: {write} after {before}")
            else:
                expect(new["epoch"] > old["epoch"] and not new["released"],
                       lambda: f"{key}: {write} after {before}")
                if not old["released"]:
                    taken += 1
                    waited = (write.answered or write.sent) - before.sent
                    expect(waited > TTL_MS * MS,
                           lambda: f"{key}: {write} {waited / MS:.0f} ms after {before}")
        return taken

    def judge_beliefs(self, lock, lines):
        """Whoever believes that it holds the lock is the only one who does."""
        holds, open_ = [], {}
        for racer, line in sorted(lines, key=lambda entry: entry[1]["t"]):
            if line["op"] == "held":
                began = open_[racer][0] if racer in open_ else line["t"]
                open_[racer] = (began, line["stop"])
            elif line["op"] == "release":
                began, stop = open_.pop(racer)
                holds.append((racer, began, min(stop, line["t"])))
        holds += [(racer, began, stop) for racer, (began, stop) in open_.items()]  # it was killed
        holds.sort(key=lambda hold: hold[1])
        last = None
        for hold in holds:
            expect(last is None or hold[1] >= last[2],
                   lambda: f"{lock}: held by {last[0]} and {hold[0]} for {(last[2] - hold[1]) / MS:.1f} ms")
            if last is None or hold[2] > last[2]:
                last = hold
        return len(holds)

    def judge(self):
        name, taken, holds, effects = self.server.name, 0, 0, 0
        with self.run.case(f"{name}: {self.races} races with kills and stops go on"):
            if self.error:
                raise self.error
        with self.run.case(f"{name}: no lock is stuck after its lease"):
            last = Racer(self, "once").start()
            expect(last.wait(120) == 0, lambda: last.tail())
            asked, waits = {}, {}
            for line in last.read():
                if line["op"] == "send":
                    asked.setdefault(line["key"], line["t"])
                elif line["op"] == "release":
                    waits.setdefault(line["lock"], (line["t"] - asked[line["lock"] + ".lock"]) / MS / 1000)
            limit = (TTL_MS + GRACE_MS) / 1000 + FINAL_SLACK
            expect(len(waits) == self.locks and max(waits.values()) < limit * self.run.slow,
                   f"{len(waits)} locks again, one after {max(waits.values()):.1f} s")
        writes, beliefs = self.gather()
        locks = sorted(key for key in writes if key.endswith(".lock"))
        with self.run.case(f"{name}: one winner each time, nobody writes over or gives back another's"):
            taken = sum(self.judge_lock(key, self.chain(key, writes[key])) for key in locks)
            expect(len(locks) == self.locks and taken > 0, f"{len(locks)} locks, {taken} takeovers")
        with self.run.case(f"{name}: one holder at a time"):
            holds = sum(self.judge_beliefs(lock, lines) for lock, lines in beliefs.items())
            expect(holds >= self.races, f"{holds} holders")
        with self.run.case(f"{name}: effects of an older epoch are refused"):
            for key in (key for key in writes if key.endswith(".head")):
                chain = self.chain(key, writes[key])
                effects += len(chain)
                for before, write in zip(chain, chain[1:]):
                    expect(write.content["epoch"] >= before.content["epoch"],
                           lambda: f"{key}: {write} after {before}")
            expect(effects > 0, "no effect at all")
        late = sum(line["op"] in ("fenced", "no_effect") for lines in beliefs.values() for _, line in lines)
        self.run.note(f"{name}: {holds} holders of {self.locks} locks, {taken} takeovers, {effects} effects, "
                      f"{late} came too late, {self.kills} kills, {self.stops} stops")


def scenario(run):
    names = [name for name in ("minio", "versitygw") if run.args.server in (None, name)]
    fleets = [Fleet(run, getattr(run, name)().start(wait=False), run.args.races) for name in names]
    for fleet in fleets:
        fleet.server.wait_ready(60)
        run.client(fleet.server).create_bucket()
        with run.case(f"{fleet.server.name}: the self-test calls it safe"):
            proof = fleet.prove()
            expect(proof["unsafe"] == "", proof["unsafe"])
            expect(proof["delete_if_match"] == (fleet.server.name == "versitygw"), f"{proof}")
    threads = [threading.Thread(target=fleet.race, daemon=True) for fleet in fleets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fleet in fleets:
        fleet.judge()


if __name__ == "__main__":
    main(scenario, options)
