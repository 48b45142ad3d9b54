#!/usr/bin/env python3
"""The advisor killed with -9 at random instants under load, beside one that is never killed."""

import os
import random
import threading
import time

import bus
import keys
import harness
from harness import expect, wait_until
from publisher import Publisher, differences

PUBLISHERS = 6
READ_BLOCKS = 400  # blocks in G4 that reports speak of: stored first, never removed


def options(parser):
    parser.add_argument("--kills", type=int, help="how many (default 25; 8 under sanitizers)")


class Load:
    """Events of several publishers, and a gateway's reports of reads, until it is stopped."""

    def __init__(self, run, nats):
        self.run, self.nats = run, bus.Nats(nats.url)
        self.publishers = [Publisher(self.nats, f"w{i}", seed=run.seed) for i in range(PUBLISHERS)]
        self.gateway = Publisher(self.nats, "gw-sim")
        self.incarnation, self.reports = time.time_ns() // 1000, 0
        self.reads = {}
        self.master = keys.master_of(run)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def settle_reads(self):
        """The blocks that reports count are there before the first report."""
        gateway = self.gateway
        gateway.locations = [[4, 0, "hot@gw-sim"]]
        events, parent = [], 0
        for position in range(READ_BLOCKS):
            block = random.Random(f"read/{position}").getrandbits(64) | 1
            events.append(gateway.event(1, 0, block, parent, position))
            self.reads[block] = 0
            parent = block
        gateway.publish(events)
        for publisher in self.publishers:
            publisher.publish(publisher.step())

    def report(self):
        self.reports += 1
        accesses = []
        for block in self.run.rng.sample(sorted(self.reads), 20):
            count = self.run.rng.randrange(1, 4)
            self.reads[block] += count
            accesses.append([block, 0, count, 4096 * count])
        data = bus.pack([1, "gw-sim", "sim", self.reports, self.incarnation, int(time.time() * 1000), True,
                         [["hot@gw-sim", 1 << 20, 1 << 30, 10], ["cold@sim", 1 << 20, 0, 10]], accesses, []])
        self.nats.publish("kvtier.v1.reports.gw-sim", keys.seal_report(self.master, "gw-sim", data),
                          {"Nats-Msg-Id": f"gw-sim:{self.incarnation}:{self.reports}"})

    def work(self):
        turn = 0
        while not self.stopping.is_set():
            for publisher in self.publishers:
                events = [event for _ in range(4) for event in publisher.step()]
                publisher.publish(events)
            turn += 1
            if turn % 5 == 0:
                self.report()
            if turn % 50 == 0:
                # The gateway too: who is silent for a minute is asked, by who was there all the time.
                for publisher in (*self.publishers, self.gateway):
                    publisher.heartbeat()
            time.sleep(0.01)

    def stop(self):
        self.stopping.set()
        self.thread.join()
        expect(self.nats.flush(), "NATS does not answer")


def rows(advisor):
    """Everything that must be equal: places, cursors, statistics."""
    dump = sorted((row["namespace"], row["hash"], row["holder"], row["dp_rank"], row["tier"], row["parent"],
                   row["position"], row["size"], row["ranks"]) for row in advisor.pages("/v1/index/dump"))
    cursors = sorted((row["worker"], row["incarnation"], row["last_seq"], row["gaps"], row["resyncs"],
                      row["state"]) for row in advisor.ask("/v1/publishers")["publishers"])
    return dump, cursors


def caught_up(advisor):
    try:
        lag = advisor.status()["events"]["lag"]
    except OSError as error:
        return str(error)
    return advisor.is_ready() if lag == 0 else f"{lag} behind"


def scenario(run):
    kills = run.args.kills or (8 if run.sanitized else 25)
    nats = run.nats().start()
    # The load ends before all is compared, which takes long on a busy machine: no silence is asked about.
    patient = {"publishers.silent_after": "10m"}
    killed = run.advisor(nats, "killed", **patient)
    steady = run.advisor(nats, "steady", **patient).start()
    load = Load(run, nats)
    wait_until(lambda: steady.is_ready(), 20 * run.slow, "the advisor is ready")
    killed.start()
    load.settle_reads()
    for advisor in (killed, steady):
        wait_until(lambda: caught_up(advisor) or differences(advisor, load.publishers),
                   20 * run.slow, f"{advisor.name} has the first blocks")
    with run.case(f"{kills} times kill -9 of the advisor under load"):
        load.thread.start()
        for number in range(kills):
            # Often while it still loads, sometimes long after.
            time.sleep(run.rng.choice([0.0, 0.05, 0.1, 0.2, 0.4]) * run.rng.random() * 2 * run.slow)
            killed.kill()
            killed.start(wait=number % 10 == 0, seconds=60)
        load.stop()
    with run.case("it comes back, and both have read everything"):
        for advisor in (killed, steady):
            wait_until(lambda: caught_up(advisor), 60 * run.slow, f"{advisor.name} has read everything")
            wait_until(lambda: differences(advisor, load.publishers), 30 * run.slow,
                       f"{advisor.name} has the truth")
    with run.case("index and cursors equal those of the advisor that was never killed"):
        left, right = rows(killed), rows(steady)
        run.note(f"{len(left[0])} places, {len(left[1])} publishers, {load.reports} reports, "
                 f"{sum(p.next_seq - 1 for p in load.publishers)} events")
        expect(left[0] == right[0], lambda: "places differ: "
               f"{len(set(left[0]) - set(right[0]))} too many, {len(set(right[0]) - set(left[0]))} missing")
        expect(left[1] == right[1], lambda: f"cursors differ: {left[1]} and {right[1]}")
    with run.case("nothing was applied twice: no gap, no resync, every read counted once"):
        asked = {publisher.name: publisher.asked for publisher in load.publishers}
        expect(all(count == 0 for each in asked.values() for count in each.values()),
               f"publishers were asked: {asked}")
        for block, count in load.reads.items():
            for advisor in (killed, steady):
                hits = advisor.ask(f"/v1/blocks/{block:016x}?namespace=sim")["hits"]
                expect(hits == count, f"{advisor.name}: block {block:016x} has {hits} hits, not {count}")
    with run.case("both stop with 0"):
        for advisor in (killed, steady):
            expect(advisor.stop() == 0, f"{advisor.name}: {advisor.tail()}")
    expect(os.path.exists(killed.log), "it wrote no log")


if __name__ == "__main__":
    harness.main(scenario, options)
