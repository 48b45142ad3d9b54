#!/usr/bin/env python3
"""Instances of an engine, each a leader and a process a rank, over a real MinIO, gateway, NATS and advisor: what one
has computed another pulls, ranks and leaders are killed and started again, and no byte is wrong."""

import json
import os
import random
import signal
import threading
import time

from harness import expect, main, wait_until

TURNS, LENGTH = 4, 8


def options(parser):
    parser.add_argument("--conversations", type=int, default=60, help="each of 4 turns of 8 blocks")
    parser.add_argument("--kills", type=int, default=8, help="processes killed while the trace is served")


def write_trace(run, name, conversations, rng):
    """Turns of conversations in a random order, each behind the ones before it; what is asked for was there before."""
    turns = [one for one in range(conversations) for _ in range(TURNS)]
    rng.shuffle(turns)
    said, lines = {}, []
    for at, one in enumerate(turns):
        said[one] = said.get(one, [7, 8, 9]) + [1000 * (one + 1) + len(said.get(one, [])) + k for k in range(LENGTH)]
        lines.append(json.dumps({"timestamp": at, "input_length": 512 * len(said[one]), "output_length": 1,
                                 "hash_ids": said[one]}))
    return run.file(f"{name}.jsonl", "\n".join(lines) + "\n"), len(lines)


def engine(run, name, trace, gateway=None, nats=None, **more):
    objects = {} if gateway is None else {"gateway.endpoint": f"http://127.0.0.1:{gateway.front}",
                                          "gateway.credentials_file": f"{run.folder}/front.cred",
                                          "gateway.retry": "10s"}
    return run.daemon("kvtier-worker", name, {
        "name": name, "trace": trace, "nats.url": nats.url if nats else "", "gateway.endpoint": "", "stay": "true",
        "block.size": "64KiB", "g1.size": "16MiB", "g2.size": "16MiB", "g3.size": "32MiB", "g3.dir": run.folder,
        "engine.folder": os.path.join(run.folder, f"{name}.d"), **objects, **more})


def served(process, seconds=120):
    def check():
        status = process.status()
        return None if status["finished"] else f"{status['served']} of {status['fed']} served"

    wait_until(check, seconds, f"{process.name} has served its trace", every=0.2)
    return process.status()


def expect_right(status, requests, hops=1):
    expect(status["served"] == requests, f"{status['served']} of {requests} served")
    expect(status["total"]["wrong_bytes"] == 0, f"{status['total']}")
    expect(status["total"]["compared"] > 0 and status["total"]["requests"] >= requests * hops, f"{status['total']}")


class Killer:
    """Kills one process of an instance after the other."""

    def __init__(self, process, count, rng):
        self.process, self.count, self.rng, self.killed = process, count, rng, []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while len(self.killed) < self.count:
            time.sleep(self.rng.uniform(0.3, 1.2))
            status = self.process.status()
            if status["finished"]:
                return
            alive = [one for one in status["instances"] if one["up"]]
            if not alive:
                continue
            one = self.rng.choice(alive)
            what, pid = ("leader", one["leader"]) if len(self.killed) % 4 == 1 else ("rank", self.rng.choice(one["ranks"]))
            if pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.killed.append(f"{what} of {one['instance']}")


def stopped(process):
    code = process.stop()
    expect(code == 0, f"{process.name} exits {code}: {process.tail()}")


def scenario(run):
    rng = random.Random(run.seed)
    nats = run.nats().start()
    server = run.minio().start(seconds=60)
    run.client(server).create_bucket()
    run.advisor(nats).start(seconds=60)
    gateway = run.gateway(nats, s3_server=server).start(seconds=60)
    with run.case("two instances of two ranks serve a trace, and pull from each other"):
        trace, requests = write_trace(run, "first", run.args.conversations, rng)
        one = engine(run, "pair", trace, gateway, nats, instances=2, tp=2).start(seconds=60)
        status = served(one)
        run.note(f"{status['total']}")
        expect_right(status, requests)
        expect(status["total"]["lives"] == 2, "an instance was started again")
        expect(status["total"]["hits_peer"] > 0, "nothing was pulled from the other instance")
        stopped(one)
    with run.case("the same while leaders and ranks are killed"):
        trace, requests = write_trace(run, "second", run.args.conversations * 3, rng)
        one = engine(run, "killed", trace, gateway, nats, instances=2, tp=2).start(seconds=60)
        killer = Killer(one, run.args.kills, rng)
        killer.thread.start()
        status = served(one, 240)
        killer.thread.join()
        run.note(f"killed {killer.killed}: {status['total']}")
        expect(len(killer.killed) > 1 and status["total"]["lives"] > 2, f"killed {killer.killed}")
        expect_right(status, requests)
        stopped(one)
    for tp, replicated in (("4,2", "false"), ("2,4", "false"), ("2,3", "true")):
        with run.case(f"TP {tp.replace(',', ' prefills, TP ')} decodes what it pulls"
                      + (" (ranks hold the same)" if replicated == "true" else "")):
            trace, requests = write_trace(run, f"tp{tp}", run.args.conversations, rng)
            one = engine(run, f"split-{tp.replace(',', '-')}", trace, instances=2, tp=tp, replicated=replicated,
                         **{"instance.roles": "split"})
            one.start(seconds=60)
            status = served(one)
            run.note(f"{status['total']}")
            expect_right(status, requests, hops=2)
            decode = status["instances"][1]
            expect(decode["computed"] * 4 < decode["blocks"] and decode["hits_peer"] * 4 > decode["blocks"],
                   f"the decode instance computed instead of pulling: {decode}")
            stopped(one)


if __name__ == "__main__":
    main(scenario, options)
