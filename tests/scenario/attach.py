#!/usr/bin/env python3
"""Engines in processes of their own, in C and in Python, over the tiers of one worker: every byte is compared,
and what the advisor knows is what the pools have, also after engines and the worker were killed.

Library, package and example come out of an installed copy."""

import json
import os
import subprocess
import sys
import time

import harness
from harness import expect, expect_same, wait_until
from system import place

EXAMPLE = os.path.join(harness.ROOT, "kvbm", "example", "attached.c")
ENGINE = os.path.join(harness.ROOT, "tests", "scenario", "attach_engine.py")
BLOCK = 64 << 10
SIZES = {"block.size": "64KiB", "g1.size": "512KiB", "g2.size": "4MiB", "g3.size": "8MiB"}
LOST_LIMIT = 5  # seconds until an engine knows that its worker has gone


def options(parser):
    parser.add_argument("--cc", default="cc", help="the compiler an engine's author has")
    parser.add_argument("--rounds", type=int, default=150, help="prompts of each engine in Python")


def find(prefix, name):
    found = [os.path.join(at, name) for at, folders, files in os.walk(prefix) if name in files + folders]
    expect(len(found) == 1, f"one {name} is installed, not {found}")
    return found[0]


def install(run):
    prefix = os.path.join(run.folder, "prefix")
    for component in ("libkvbm", "kvtier-publisher", "kvtier-python"):
        subprocess.run(["cmake", "--install", run.build, "--prefix", prefix, "--component", component], check=True,
                       stdout=subprocess.DEVNULL)
    return prefix


def build(run, prefix):
    folder = os.path.dirname(find(prefix, "libkvbm.pc"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libkvbm"], check=True, stdout=subprocess.PIPE,
                           text=True, env={**os.environ, "PKG_CONFIG_PATH": folder}).stdout.split()
    path = os.path.join(run.folder, "attached")
    subprocess.run([run.args.cc, "-std=c11", "-Wall", "-Wextra", "-Werror", EXAMPLE, "-o", path, *flags,
                    f"-Wl,-rpath,{os.path.dirname(folder)}"], check=True)
    return path


class Engine:
    """A process whose first line says that its work is done."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})

    def said(self):
        line = self.process.stdout.readline().strip()
        expect(line, f"an engine ended with {self.process.poll()} and said nothing")
        return line

    def leave(self):
        self.process.stdin.close()
        expect(self.process.wait(30) == 0, f"the engine ended with {self.process.returncode}")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Stage:
    def __init__(self, run):
        self.run = run
        self.prefix = install(run)
        self.example = build(run, self.prefix)
        self.package = os.path.dirname(os.path.dirname(find(self.prefix, "attach.py")))
        self.nats = run.nats().start()
        self.advisor = run.advisor(self.nats).start()
        self.gateway = run.gateway(self.nats).start()
        self.socket = os.path.join(run.folder, "engines.sock")
        self.worker = run.worker(self.nats, self.gateway, "host.a", "", **{"attach.socket": self.socket,
                                                                         "events.g1": "true", **SIZES}).start()

    def in_c(self, salt, blocks):
        return Engine([self.example, self.socket, salt, str(blocks)])

    def in_python(self, seed):
        return Engine([sys.executable, ENGINE, self.socket, str(seed), str(self.run.args.rounds)],
                      {"PYTHONPATH": self.package})

    def engines(self):
        return self.worker.status()["engines"]["present"]

    def metric(self, name):
        for line in self.worker.raw("/metrics")[1].decode().splitlines():
            if line.startswith(name + " "):
                return int(line.split()[1])
        raise harness.Failure(f"the worker shows no {name}")

    def check_metrics(self, said):
        """What engines did is what they say, or more: the one in C says nothing of it."""
        def differ():
            try:
                expect(self.metric("kvtier_worker_engines") == 3, "3 engines are not shown")
                for move in ("offloaded", "onboarded"):
                    shown = self.metric(f'kvtier_worker_engine_blocks_total{{move="{move}"}}')
                    least = sum(row[move] for row in said)
                    expect(shown >= least, f"{shown} blocks {move}, engines say {least}")
            except harness.Failure as failure:
                return str(failure)
            return None

        wait_until(differ, 5 * self.run.slow, "metrics are those of the engines", every=0.2)

    def held(self):
        return {place(row) for row in self.worker.pages("/v1/index/dump")}

    def check(self, registered):
        """Advisor = worker = pools; `registered`: blocks in the memory of each engine that is there."""
        def differ():
            held = self.held()
            known = {place(row) for row in self.advisor.pages("/v1/index/dump") if row["tier"] != "G4"}
            pools = {pool["tier"]: pool["registered"] for pool in self.worker.status()["workers"][0]["pools"]}
            ranks = {}
            for _holder, rank, tier, *_ in held:
                if tier != "G1":
                    pools[tier] -= 1
                elif rank > 0:
                    ranks[rank] = ranks.get(rank, 0) + 1
            try:
                expect_same(known, held, "the advisor", "the worker")
                expect(pools["G2"] == 0 and pools["G3"] == 0, f"pools and index are {pools} apart")
                expect(sorted(ranks.values()) == sorted(registered), f"engines have {ranks}, they say {registered}")
            except harness.Failure as failure:
                return str(failure)
            return None

        wait_until(differ, 30 * self.run.slow, "the advisor knows what the pools have", every=0.5)


def scenario(run):
    with run.case("library, example and package out of an installed copy"):
        stage = Stage(run)
    if run.failed:
        return

    with run.case("an engine in C and two in Python, every byte compared"):
        pythons = [stage.in_python(run.seed + i) for i in range(2)]
        first = stage.in_c("prompt", 40)
        line = first.said()
        expect(line == "0 of 40 blocks were there", f"the first engine says {line!r}")
        said = [json.loads(engine.said()) for engine in pythons]
        for row in said:
            expect(row["given"] > 0 and row["made"] > 0 and row["refused"] == 0, f"an engine says {row}")
            expect(row["onboarded"] > 0 and row["offloaded"] > 0, f"an engine says {row}")
        expect(stage.engines() == 3, f"{stage.engines()} engines are there, not 3")
        stage.check_metrics(said)
        stage.check([40] + [row["registered"] for row in said])
        run.note(f"blocks given: {[row['given'] for row in said]}, made: {[row['made'] for row in said]}")

    with run.case("an engine that is killed holds nothing, and what it made is there"):
        first.kill()
        wait_until(lambda: None if stage.engines() == 2 else "it is still there", 10 * run.slow, "the engine is gone")
        stage.check([row["registered"] for row in said])
        second = stage.in_c("prompt", 48)
        line = second.said()
        expect(line == "40 of 48 blocks were there", f"the second engine says {line!r}")
        stage.check([48] + [row["registered"] for row in said])

    with run.case("an advisor that comes later asks, also for what engines have"):
        stage.advisor.stop()
        stage.advisor = run.advisor(stage.nats, name="later").start()
        stage.check([48] + [row["registered"] for row in said])

    with run.case("engines that leave hold nothing"):
        second.leave()
        pythons[1].leave()
        wait_until(lambda: None if stage.engines() == 1 else "they are still there", 10 * run.slow, "they left")
        stage.check([said[0]["registered"]])

    with run.case("an engine knows that its worker was killed, and attaches to the next"):
        stage.worker.kill()
        lost = json.loads(pythons[0].said())
        expect(lost["lost"] and lost["code"] == "UNAVAILABLE", f"the engine says {lost}")
        expect(lost["seconds"] < LOST_LIMIT * run.slow, f"it took {lost['seconds']} s")
        stage.worker.start()  # the socket of the dead one is there
        third = stage.in_c("prompt", 8)
        third.said()
        stage.check([8])
        began = time.monotonic()
        stage.worker.stop()
        expect(time.monotonic() - began < 15 * run.slow, "the worker waits for engines")
        third.kill()


if __name__ == "__main__":
    sys.exit(harness.main(scenario, options))
