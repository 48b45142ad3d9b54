#!/usr/bin/env python3
"""Power cuts: what gateway and advisor had synced must be all they need (see tests/powercut/).

One recording is a short run with clients that PUT, overwrite and DELETE while orders move blocks.  Each
cut rebuilds the folders as a power cut would have left them, starts both daemons on them, and asks:
is everything acknowledged there, is anything torn, do catalog, volumes and index agree?"""

import json
import os
import shutil
import sys
import threading
import time

import blocks
import bus
from harness import ROOT, Failure, expect, expect_same, main, wait_until
from system import MIB, compare_tiers, volume

sys.path.insert(0, os.path.join(ROOT, "tests", "powercut"))
from rebuild import Recording  # noqa: E402
from record import Recorder    # noqa: E402

CUTS_PER_RECORDING = 50
IGNORED = ("lock.mdb", "usage")  # written through shared mappings, rebuilt by whoever opens first


def options(parser):
    parser.add_argument("--cuts", type=int, default=24)
    parser.add_argument("--json", action="store_true", help="one JSON object a cut")


class Write:
    """One PUT or DELETE of a key: what it wrote (None: removed), and when it began and was answered."""

    def __init__(self, body, began):
        self.body, self.began, self.acked, self.refused = body, began, None, False


class Client(threading.Thread):
    """Keeps writing until told to stop; `history` has every write of every key of its own."""

    def __init__(self, run, gateway, recorder, number, seed_rng):
        super().__init__(daemon=True)
        self.client, self.recorder, self.number = run.client(gateway), recorder, number
        self.rng = seed_rng
        self.history, self.error, self.stopping = {}, None, threading.Event()

    def run(self):
        try:
            while not self.stopping.is_set():
                self.rng.choices((self.put_batch, self.put_one, self.put_opaque, self.delete, self.read),
                                 (6, 3, 1, 1, 3))[0]()
        except Exception as error:  # noqa: B902 - reported by the case
            self.error = error

    def begin(self, key, body):
        write = Write(body, self.recorder.now())
        self.history.setdefault(key, []).append(write)
        return write

    def new_block(self):
        hash_ = self.rng.getrandbits(64)
        position = self.rng.choice([0, 1, 300])
        key = blocks.key(hash_, position, self.rng.getrandbits(64), namespace=f"cut/{self.number}")
        return key, self.rng.randbytes(self.rng.choice([100, 4096, 5000, 20000]))

    def put_batch(self):
        items = [self.new_block() for _ in range(self.rng.randrange(1, 12))]
        writes = [self.begin(key, body) for key, body in items]
        for write, status in zip(writes, self.client.batch_put(items)):
            self.end(write, status == "OK")

    def put_one(self):
        key, body = self.new_block()
        write = self.begin(key, body)
        self.end(write, self.client.put(key, body, {"if-none-match": "*"}).status == 200)

    def put_opaque(self):
        """A name that is no block's: the last writer wins."""
        key = f"notes/{self.number}/{self.rng.randrange(4)}"
        body = self.rng.randbytes(3000)
        write = self.begin(key, body)
        self.end(write, self.client.put(key, body).status == 200)

    def delete(self):
        if self.history:
            key = self.rng.choice(list(self.history))
            write = self.begin(key, None)
            self.end(write, self.client.delete(key).status in (200, 204, 404))

    def read(self):
        keys = self.rng.sample(list(self.history), min(8, len(self.history)))
        for key, (status, _crc, body) in zip(keys, self.client.batch_get(keys) if keys else ()):
            self.check(key, status, body, None)

    def end(self, write, accepted):
        if accepted:
            write.acked = self.recorder.now()
        else:
            write.refused = True

    def check(self, key, status, body, cut):
        """Is this answer one that a cut (None: no cut, now) allows?"""
        last, allowed = None, []
        for write in self.history[key]:
            if cut is not None and write.began >= cut:
                break
            if write.acked is not None and (cut is None or write.acked <= cut):
                last, allowed = write, []  # it holds: what was before cannot come back
            else:
                allowed.append(write.body)  # under way: it may hold or not
        allowed.append(last.body if last else None)
        got = body if status == "OK" else None
        if got in allowed:
            return
        before = [write.body for write in self.history[key]]
        what = ("is lost" if got is None else
                "is an older content again" if got in before else f"has {len(got)} bytes nobody wrote")
        raise Failure(f"{key} {what} (status {status}, written {len(self.history[key])} times)")


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


def settings(root):
    gateway = {"state.dir": f"{root}/gateway", "hot.dir": f"{root}/hot", "cold.dir": f"{root}/cold",
               "hot.capacity": MIB, "report.interval": "100ms"}
    advisor = {"state.dir": f"{root}/advisor", "policy.mode": "enforce", "policy.interval": "100ms",
               "policy.promote_after": 1}
    return gateway, advisor


class Taken:
    """A finished recording."""

    def __init__(self, run, number, seconds):
        work = os.path.join(run.folder, f"recording{number}")
        os.makedirs(work)
        recorder = Recorder(os.path.join(run.build, "tests", "powercut", "powercut_recorder.so"), work)
        gateway_settings, advisor_settings = settings(recorder.root)
        nats = run.nats(f"nats-r{number}").start()
        env = recorder.environment()
        gateway = run.gateway(nats, "gw0", env=env, **gateway_settings)
        advisor = run.advisor(nats, "advisor", env=env, **advisor_settings)
        gateway.start()
        advisor.start()
        self.started = recorder.now()
        seeds = [run.rng.getrandbits(64) for _ in range(3)]
        self.clients = [Client(run, gateway, recorder, i, type(run.rng)(seeds[i])) for i in (0, 1)]
        self.events = Events(nats, type(run.rng)(seeds[2]))
        for thread in (*self.clients, self.events):
            thread.start()
        time.sleep(seconds)
        self.events.stopping.set()
        for client in self.clients:
            client.stopping.set()
        for thread in (*self.clients, self.events):
            thread.join(30)
        for client in self.clients:
            expect(client.error is None, f"a client failed while recording: {client.error!r}")
        orders = gateway.status()["orders"]["executed"]
        gateway.kill()
        advisor.kill()
        nats.kill()
        self.recording = Recording(recorder.log)
        missed = self.recording.check_complete(recorder.root, IGNORED)
        expect(not missed, f"the recorder missed {len(missed)} things: {missed[:5]}")
        writes = sum(len(h) for c in self.clients for h in c.history.values())
        run.note(f"recording {number}: {len(self.recording.records)} operations, {writes} writes, "
                 f"{orders} orders executed")
        expect(orders > 0, "no order moved anything while recording")


def check_cut(run, taken, cut, torn, target):
    """Start both daemons on what the cut left; a Failure says what is not as promised."""
    taken.recording.rebuild(target, cut, torn)
    gateway_settings, advisor_settings = settings(target)
    nats = run.nats(f"nats-{os.path.basename(target)}").start()
    gateway = run.gateway(nats, "gw0", **gateway_settings)
    advisor = run.advisor(nats, "advisor", **{**advisor_settings, "policy.mode": "off"})
    gateway.log = advisor.log = f"{target}.log"
    try:
        advisor.start(wait=False)
        gateway.start()
        advisor.wait_ready()
        check_index(advisor, taken)
        check_reads(run.client(gateway), taken, cut)
        check_agreement(run, gateway, advisor)
        for daemon in (gateway, advisor):
            expect(daemon.stop() == 0, f"{daemon.name} does not stop with 0: {daemon.tail()}")
    except Failure as failure:
        raise Failure(f"{failure}; {gateway.tail()}") from None
    finally:
        for process in (gateway, advisor, nats):
            process.kill()
            run.processes.remove(process)


def check_reads(client, taken, cut):
    for one in taken.clients:
        keys = [key for key, history in one.history.items() if history[0].began < cut]
        for at in range(0, len(keys), 200):
            part = keys[at:at + 200]
            for key, (status, _crc, body) in zip(part, client.batch_get(part)):
                one.check(key, status, body, cut)


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
            rows = gateway.pages("/v1/objects?tier=cold")
            expect(status["cold"]["used_bytes"] == sum(row["length"] for row in rows),
                   "the cold tier's bytes are not the sum of its objects")
        except Failure as failure:
            return str(failure)
        return None

    wait_until(differ, 20 * run.slow, "volumes, catalog and advisor agree", every=0.3)


def scenario(run):
    if run.sanitized:
        run.note("the recorder and the sanitizers cannot be preloaded together: nothing to do")
        return
    left, number = run.args.cuts, 0
    while left > 0:
        with run.case(f"recording {number} is complete"):
            taken = None
            taken = Taken(run, number, 6)
        if taken is None:
            return
        for index in range(min(left, CUTS_PER_RECORDING)):
            cut = run.rng.randint(taken.started, taken.recording.last())
            torn = run.rng.getrandbits(32) if index % 2 else None
            name = f"recording {number}, cut {index} at {cut}, " + (f"torn {torn}" if torn else "strict")
            target = os.path.join(run.folder, f"cut{number}-{index}")
            failed = len(run.failed)
            with run.case(name):
                check_cut(run, taken, cut, torn, target)
            if len(run.failed) == failed:
                shutil.rmtree(target, ignore_errors=True)
            if run.args.json:
                print(json.dumps({"cut": name, "ok": len(run.failed) == failed}), flush=True)
        left -= CUTS_PER_RECORDING
        number += 1


if __name__ == "__main__":
    main(scenario, options)
