#!/usr/bin/env python3
"""Power cuts: what gateway and advisor had synced must be all they need (see tests/powercut/).

One recording is a short run with clients that PUT, overwrite and DELETE while orders move blocks, in one
of the two write modes.  Each cut rebuilds the folders as a power cut would have left them, starts both
daemons on them, and asks: is everything acknowledged there, is anything torn, do catalog, volumes and
index agree, does the bucket get what it was owed?"""

import json
import os
import shutil
import sys
import threading
import time

import bus
from harness import ROOT, Failure, expect, expect_same, main, wait_until
from system import MIB, compare_tiers, volume
from writers import Writer

sys.path.insert(0, os.path.join(ROOT, "tests", "powercut"))
from rebuild import Recording  # noqa: E402
from record import Recorder    # noqa: E402

CUTS_PER_RECORDING = 50
MODES = ("through", "back")
IGNORED = ("lock.mdb", "usage")  # written through shared mappings, rebuilt by whoever opens first


def options(parser):
    parser.add_argument("--cuts", type=int, default=24)
    parser.add_argument("--mode", choices=MODES, help="only this write mode")
    parser.add_argument("--json", action="store_true", help="one JSON object a cut")


class Events(threading.Thread):
    """A publisher of its own, so that the advisor's database has more to lose."""

    def __init__(self, nats, rng):
        super().__init__(daemon=True)
        self.bus, self.rng, self.stopping = bus.Nats(nats.url), rng, threading.Event()
        self.hashes = []  # event n stored hashes[n - 1]

    def run(self):
        while not self.stopping.wait(0.02):
            new = [self.rng.getrandbits(64) for _ in range(self.rng.randrange(1, 30))]
            self.bus.publish("kvtier.v1.events.cut.0.cutter", bus.pack(
                [1, "cut", "cutter", 1, len(self.hashes) + 1, int(time.time() * 1000), [[2, 0, "ram"]],
                 [[1, 0, h, h, 4096] for h in new]]),
                {"Nats-Msg-Id": f"cutter:1:{len(self.hashes) + 1}"})
            self.hashes += new
        self.bus.close()


def settings(root, mode):
    gateway = {"write.mode": mode, "write.uploads": 1,
               "state.dir": f"{root}/gateway", "hot.dir": f"{root}/hot", "cold.dir": f"{root}/cold", "hot.capacity": MIB, "report.interval": "100ms"}
    advisor = {"state.dir": f"{root}/advisor", "policy.mode": "enforce", "policy.interval": "100ms",
               "policy.promote_after": 1}
    return gateway, advisor


class Taken:
    """A finished recording."""

    def __init__(self, run, number, mode, seconds):
        self.mode = mode
        work = os.path.join(run.folder, f"recording{number}")
        os.makedirs(work)
        recorder = Recorder(os.path.join(run.build, "tests", "powercut", "powercut_recorder.so"), work)
        gateway_settings, advisor_settings = settings(recorder.root, mode)
        nats = run.nats(f"nats-r{number}").start()
        env = recorder.environment()
        gateway = run.gateway(nats, "gw0", env=env, **gateway_settings)
        advisor = run.advisor(nats, "advisor", env=env, **advisor_settings)
        gateway.start()
        advisor.start()
        self.started = recorder.now()
        seeds = [run.rng.getrandbits(64) for _ in range(3)]
        self.clients = [Writer(run, gateway, recorder.now, i, type(run.rng)(seeds[i])) for i in (0, 1)]
        self.events = Events(nats, type(run.rng)(seeds[2]))
        for thread in (*self.clients, self.events):
            thread.start()
        time.sleep(seconds)
        # On a busy machine it takes longer until there was something to cut.
        wait_until(lambda: self.lacks(gateway.status()), 60 * run.slow, "what is to be recorded")
        self.events.stopping.set()
        for client in self.clients:
            client.stopping.set()
        for thread in (*self.clients, self.events):
            thread.join(30)
        for client in self.clients:
            expect(client.error is None, f"a client failed while recording: {client.error!r}")
        status = gateway.status()
        orders, added = status["orders"]["executed"], status["backlog"]["added"]
        for daemon in (gateway, advisor):
            # Not killed: a write that is done and not yet logged would be missing from the recording.
            expect(daemon.stop() == 0, f"{daemon.name} does not stop with 0: {daemon.tail()}")
        nats.kill()
        self.recording = Recording(recorder.log)
        missed = self.recording.check_complete(recorder.root, IGNORED)
        expect(not missed, f"the recorder missed {len(missed)} things: {missed[:5]}")
        writes = sum(len(h) for c in self.clients for h in c.history.values())
        run.note(f"recording {number}: {len(self.recording.records)} operations, {writes} writes, "
                 f"{orders} orders executed, {added} blocks acknowledged before their upload")
        expect((added > 0) == (mode == "back"), f"{added} blocks were acknowledged before their upload")

    def lacks(self, status):
        if status["orders"]["executed"] == 0:
            return "no order moved anything"
        if self.mode == "back" and status["backlog"]["added"] == 0:
            return "nothing was acknowledged before its upload"
        return None


def check_cut(run, taken, cut, torn, target):
    """Start both daemons on what the cut left; a Failure says what is not as promised."""
    taken.recording.rebuild(target, cut, torn)
    gateway_settings, advisor_settings = settings(target, taken.mode)
    nats = run.nats(f"nats-{os.path.basename(target)}").start()
    gateway = run.gateway(nats, "gw0", **gateway_settings)
    advisor = run.advisor(nats, "advisor", **{**advisor_settings, "policy.mode": "off"})
    gateway.log = advisor.log = f"{target}.log"
    try:
        advisor.start(wait=False)
        gateway.start()
        advisor.wait_ready()
        check_index(advisor, taken)
        for client in taken.clients:
            client.read_back(run.client(gateway), cut)
        check_agreement(run, gateway, advisor)
        for daemon in (gateway, advisor):
            expect(daemon.stop() == 0, f"{daemon.name} does not stop with 0: {daemon.tail()}")
    except Failure as failure:
        raise Failure(f"{failure}; {gateway.tail()}") from None
    finally:
        for process in (gateway, advisor, nats):
            process.kill()
            run.processes.remove(process)


def check_index(advisor, taken):
    """The database holds exactly the first L events of our publisher, L being what it says itself."""
    publishers = [p for p in advisor.ask("/v1/publishers")["publishers"] if p["worker"] == "cutter"]
    last = publishers[0]["last_seq"] if publishers else 0
    held = {row["hash"] for row in advisor.pages("/v1/index/dump") if row["namespace"] == "cut"
            and row["holder"] == "cutter"}
    expect_same(held, {f"{h:016x}" for h in taken.events.hashes[:last]}, "the advisor",
                f"the publisher up to its sequence {last}")


def check_agreement(run, gateway, advisor):
    def differ():
        try:
            compare_tiers(advisor, {gateway: set(volume(gateway.settings["hot.dir"]))},
                          set(volume(gateway.settings["cold.dir"])))
            status = gateway.status()
            expect(status["catalog"]["intents"] == 0, f"{status['catalog']['intents']} open intents")
            expect(status["backlog"]["blocks"] == 0, f"{status['backlog']['blocks']} blocks wait for their upload")
            expect(status["backlog"]["lost"] == 0, f"{status['backlog']['lost']} blocks are said to be lost")
            rows = gateway.pages("/v1/objects?tier=cold")
            expect(status["cold"]["used_bytes"] == sum(row["length"] for row in rows),
                   "the cold tier's bytes are not the sum of its objects")
        except (Failure, FileNotFoundError) as failure:  # a file may be swept while it is looked at
            return str(failure)
        return None

    wait_until(differ, 20 * run.slow, "volumes, catalog and advisor agree", every=0.3)


def scenario(run):
    if run.sanitized:
        run.note("the recorder and the sanitizers cannot be preloaded together: nothing to do")
        return
    modes = (run.args.mode,) if run.args.mode else MODES
    left, number = run.args.cuts, 0
    each = min(CUTS_PER_RECORDING, -(-left // len(modes)))
    while left > 0:
        mode = modes[number % len(modes)]
        with run.case(f"recording {number}, write-{mode}, is complete"):
            taken = None
            taken = Taken(run, number, mode, 6)
        if taken is None:
            return
        for index in range(min(left, each)):
            cut = run.rng.randint(taken.started, taken.recording.last())
            torn = run.rng.getrandbits(32) if index % 2 else None
            name = f"recording {number}, write-{mode}, cut {index} at {cut}, " + (f"torn {torn}" if torn else "strict")
            target = os.path.join(run.folder, f"cut{number}-{index}")
            failed = len(run.failed)
            with run.case(name):
                check_cut(run, taken, cut, torn, target)
            if len(run.failed) == failed:
                shutil.rmtree(target, ignore_errors=True)
            if run.args.json:
                print(json.dumps({"cut": name, "ok": len(run.failed) == failed}), flush=True)
        left -= each
        number += 1


if __name__ == "__main__":
    main(scenario, options)
