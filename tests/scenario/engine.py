#!/usr/bin/env python3
"""An engine links libkvtier-publisher out of an installed copy, and the advisor sees what it holds.

The library is installed into a folder of its own; the example is built with what pkg-config says there, once
with the shared library and once with the static one, and runs against a real nats-server and advisor."""

import json
import os
import subprocess

import bus
import harness
import publisher
from harness import expect, wait_until

EXAMPLE = os.path.join(harness.ROOT, "wire", "example", "publisher_example.c")
SPACE = "engine/llama"
BLOCKS = 300
STEP = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def options(parser):
    parser.add_argument("--cc", default="cc", help="the compiler an engine's author has")


def install(run):
    """The component of the library alone, as a package of it would be."""
    prefix = os.path.join(run.folder, "prefix")
    subprocess.run(["cmake", "--install", run.build, "--prefix", prefix, "--component", "kvtier-publisher"],
                   check=True, stdout=subprocess.DEVNULL)
    found = [os.path.join(at, name) for at, _, names in os.walk(prefix) for name in names]
    pc = [path for path in found if path.endswith("kvtier-publisher.pc")]
    expect(len(pc) == 1, f"one kvtier-publisher.pc is installed, not {pc}")
    return os.path.dirname(pc[0])


def build(run, folder, static):
    """A program by what an engine's author types."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", *(["--static"] if static else []),
                            "kvtier-publisher"], check=True, stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": folder}).stdout.split()
    libraries = os.path.dirname(folder)
    if static:
        flags = [os.path.join(libraries, "libkvtier-publisher.a") if flag == "-lkvtier-publisher" else flag
                 for flag in flags]
    path = os.path.join(run.folder, "engine-static" if static else "engine-shared")
    subprocess.run([run.args.cc, "-std=c11", "-Wall", "-Wextra", "-Werror", EXAMPLE, "-o", path, *flags,
                    f"-Wl,-rpath,{libraries}"], check=True)
    return path


def exported(folder):
    shared = os.path.join(os.path.dirname(folder), "libkvtier-publisher.so")
    names = subprocess.run(["nm", "-D", "--defined-only", shared], check=True, stdout=subprocess.PIPE, text=True)
    return [line.split()[-1].split("@")[0] for line in names.stdout.splitlines() if " T " in line]


class Engine:
    def __init__(self, path, nats, worker):
        self.process = subprocess.Popen([path, nats.url, SPACE, worker, str(BLOCKS)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        expect(line == "ranks of the last block on disk: 1", f"{worker} says {line!r}")

    def leave(self):
        self.process.stdin.close()
        expect(self.process.wait(30) == 0, f"the engine ended with {self.process.returncode}")


def held(worker):
    """What the example holds once it waits: (holder, tier, hash, position)."""
    every = [(STEP * (i + 1) & MASK, i) for i in range(BLOCKS)]
    return ({(worker, "G2", f"{h:016x}", i) for h, i in every[:BLOCKS // 2]}
            | {(worker, "G3", f"{h:016x}", i) for h, i in every})


def differs(advisor, truth):
    """Why the advisor does not have exactly this; None when it has."""
    status, data = advisor.raw("/v1/index/dump?limit=10000")
    if status != 200:
        return f"the dump says {status}"
    rows = [json.loads(line) for line in data.decode().splitlines()]
    seen = {(row["holder"], row["tier"], row["hash"], row["position"]) for row in rows if "hash" in row}
    return None if seen == truth else f"{len(seen - truth)} too many, {len(truth - seen)} missing"


def expect_seen(run, advisor, truth, what):
    wait_until(lambda: differs(advisor, truth), 30 * run.slow, what)


def scenario(run):
    with run.case("it builds out of an installed copy, shared and static"):
        folder = install(run)
        shared, static = build(run, folder, False), build(run, folder, True)
        foreign = [name for name in exported(folder) if not name.startswith("kvt_")]
        expect(not foreign, f"the library exports {foreign[:5]}")
        with open(EXAMPLE, encoding="utf-8") as file:
            expect(len(file.readlines()) <= 60, "the example is longer than 60 lines")
        needed = subprocess.run(["ldd", static], check=True, stdout=subprocess.PIPE, text=True).stdout
        expect("kvtier" not in needed, "the static program needs no library of ours")
    if run.failed:
        return

    nats = run.nats().start()
    advisor = run.advisor(nats).start()
    with run.case("the advisor sees what both hold"):
        engines = [Engine(shared, nats, "engine.shared"), Engine(static, nats, "engine.static")]
        truth = held("engine.shared") | held("engine.static")
        expect_seen(run, advisor, truth, "the advisor sees both")

    with run.case("an advisor that comes later asks them"):
        advisor.stop()
        nats.kill()
        subprocess.run(["rm", "-r", f"{run.folder}/nats"], check=True)
        nats.start()
        fresh = run.advisor(nats, name="fresh").start()
        expect_seen(run, fresh, truth, "the fresh advisor sees both")

    with run.case("a publisher that leaves its name as it is is asked, too"):
        client = bus.Nats(nats.url)
        plain = publisher.Publisher(client, "not.encoded", namespace="plain", seed=run.seed)
        plain.publish(plain.store_chain())
        told = plain.places()
        while plain.places() == told:  # what comes and goes again would leave nothing to miss
            plain.lose(2)
        plain.heartbeat()
        tiers = [(f"G{tier}", rank) for tier, rank, _name in plain.locations]

        def unlike():
            rows = {(row["tier"], row["dp_rank"], row["hash"]) for row in fresh.pages("/v1/index/dump")
                    if row["holder"] == "not.encoded"}
            want = {(*tiers[at], f"{block:016x}") for at, block in plain.held}
            if rows != want:
                return f"it has {len(want)} blocks, the advisor knows {len(rows)}"
            return None if sum(plain.asked.values()) > 0 else "it was not asked"

        wait_until(unlike, 30 * run.slow, "the advisor asked it")
        plain.publish([plain.event(publisher.BYE, 0, 0)])
        client.close()

    with run.case("who leaves holds nothing"):
        engines[0].leave()
        expect_seen(run, fresh, held("engine.static"), "the first has left")
        engines[1].leave()
        expect_seen(run, fresh, set(), "both have left")


harness.main(scenario, options)
