#!/usr/bin/env python3
"""The router and the published one, dynamo-kv-router's default selector, choose the same worker.

10,000 requests are made from a seed and written to a file, a line each, which both sides are given:

    isl_tokens block_tokens shared weights... overrides workers, then of each worker
    id allowed active_prefill_tokens active_decode_blocks additional_blocks active_requests G1 G2 G3

`weights` are those of prefill, G1, G2, G3, G4 and a running request; with `overrides` the published selector
gets those of prefill, G1 and G4 as overrides of the request, otherwise all as its configuration.  `shared` is how
many leading blocks a store has that all workers read: G4 here, the shared cache there.  What a worker's own G2 and
G3 have is not counted again from G4; there it is, for its shared cache is counted from the end of the device's blocks.
Both mean the same where G2 and G3 have nothing, so a request has blocks there or in G4.

Each side answers with its choice, and with every worker's cost to the last bit.
"""

import json
import os
import struct
import subprocess
import sys

import harness
from harness import expect

sys.path[1:1] = [os.path.join(harness.ROOT, "bench")]

from rows import peer  # noqa: E402

REQUESTS = 10000
DEFAULTS = (1.0, 1.0, 0.75, 0.25, 0.1, 0.0)


def some(rng, bits):
    """Of any length in bits, so that small and huge ones are as frequent."""
    return rng.getrandbits(rng.randint(0, bits) or 1)


class Shape:
    """What the requests of one kind are like."""

    def __init__(self, workers=(2, 48), isl=32768, active=60000, decode=12000, requests=64,
                 blocks=(16, 32, 64, 128, 512)):
        self.workers, self.isl, self.active, self.decode = workers, isl, active, decode
        self.requests, self.blocks = requests, blocks

    def load(self, rng):
        return (rng.randint(0, self.active), rng.randint(0, self.decode), rng.randint(0, 40),
                rng.randint(0, self.requests))


class Huge(Shape):
    """Figures that a double rounds."""

    def load(self, rng):
        return some(rng, 60), some(rng, 60), some(rng, 60), some(rng, 32)


class Idle(Shape):
    def load(self, rng):
        return 0, 0, 0, 0


class Alike(Shape):
    """A few figures that come again and again: many workers cost the same."""

    def load(self, rng):
        return 64 * rng.randint(0, 1), rng.choice((0, 5, 6)), rng.choice((0, 1)), rng.randint(0, 1)


SHAPES = {
    "fleet": (Shape(), 50),
    "idle": (Idle(), 10),
    "alike": (Alike(blocks=(64,), isl=640), 15),
    "huge": (Huge(isl=1 << 50), 10),
    "odd blocks": (Shape(blocks=(1, 7, 48, 100, 1000)), 10),
    "no prompt": (Shape(isl=0), 2),
    "alone": (Shape(workers=(1, 1)), 2),
    "large fleet": (Shape(workers=(1000, 1000)), 0.2),
}


def weights_of(rng):
    if rng.random() < 0.5:
        return DEFAULTS
    return tuple(rng.choice((0.0, 0.5, 1.0, rng.random(), 3 * rng.random(), 1e6 * rng.random()))
                 for _ in DEFAULTS)


class Request:
    def __init__(self, rng):
        self.kind = rng.choices(list(SHAPES), [share for _, share in SHAPES.values()])[0]
        shape = SHAPES[self.kind][0]
        self.isl, self.block = rng.randint(0, shape.isl), rng.choice(shape.blocks)
        length = min(-(-self.isl // self.block), 1 << 20)
        self.weights, self.overrides = weights_of(rng), rng.randint(0, 1)
        self.shared = rng.randint(1, length) if length and rng.random() < 0.3 else 0
        count = rng.randint(*shape.workers)
        alike = self.kind == "alike"
        self.workers = []
        for number in rng.sample(range(1 << 53), count):
            tiers, left = [0, 0, 0], length
            for tier in range(1 if self.shared else 3):
                if rng.random() < 0.6:
                    tiers[tier] = min(left, rng.choice((0, 2))) if alike else rng.randint(0, left)
                    left -= tiers[tier]
            self.workers.append([number, 1, *shape.load(rng), *tiers])
        if rng.random() < 0.15:  # some may not be asked
            for worker in self.workers[1:]:
                worker[1] = rng.randint(0, 1)

    def line(self):
        words = [self.isl, self.block, self.shared, *map(repr, self.weights), self.overrides,
                 len(self.workers)]
        for worker in self.workers:
            words += worker
        return " ".join(map(str, words)) + "\n"


class Answer:
    """A line of a side's answers: the choice, its cost, every allowed worker's cost."""

    def __init__(self, line):
        chosen, cost, *pairs = line.split()
        self.chosen, self.cost = int(chosen), cost
        self.costs = dict(pair.split("=") for pair in pairs)
        lowest = min(self.costs.values(), key=value)
        self.cheapest = {int(worker) for worker, cost in self.costs.items() if cost == lowest}


def value(bits):
    return struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]


def tell(run, name, argv, path):
    answers = os.path.join(run.folder, f"{name}.answers")
    done = subprocess.run(argv, input=f"choose {path} {answers}\n", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120 * run.slow, check=False)
    expect(done.returncode == 0, lambda: f"{name} ended with {done.returncode}: {done.stderr[-500:]}")
    expect(json.loads(done.stdout) == {"choices": REQUESTS}, done.stdout)
    with open(answers, encoding="ascii") as file:
        return [Answer(line) for line in file]


def equal_costs(requests, ours, theirs):
    for at, (request, one, other) in enumerate(zip(requests, ours, theirs, strict=True)):
        allowed = {str(worker[0]) for worker in request.workers if worker[1]}
        expect(set(one.costs) == set(other.costs) == allowed, f"request {at}: other workers")
        wrong = [worker for worker in one.costs if one.costs[worker] != other.costs[worker]]
        expect(not wrong, lambda: f"request {at} ({request.kind}), {len(wrong)} workers, {wrong[0]}: "  # noqa: B023
               f"{value(one.costs[wrong[0]])!r}, theirs {value(other.costs[wrong[0]])!r}")  # noqa: B023


def equal_choices(requests, ours, theirs):
    """How many choices there were, and how many of them between equals."""
    alone = several = 0
    for at, (request, one, other) in enumerate(zip(requests, ours, theirs, strict=True)):
        what = f"request {at} ({request.kind})"
        if len(other.cheapest) == 1:
            alone += 1
            expect(one.chosen == other.chosen, f"{what}: {one.chosen}, theirs {other.chosen}")
            expect(one.cost == other.cost, f"{what}: it costs {one.cost}, theirs {other.cost}")
        else:
            several += 1
            expect(other.chosen in other.cheapest, f"{what}: they choose {other.chosen}")
            expect(one.chosen in other.cheapest, f"{what}: {one.chosen} is not among the cheapest")
            decode = {worker[0]: worker[3] + worker[4] for worker in request.workers}
            least = min(decode[worker] for worker in other.cheapest)
            expect(decode[one.chosen] == least, f"{what}: {one.chosen} is not the least loaded of equals")
    return alone, several


def scenario(run):
    cases = ("every worker's cost is the published selector's, to the last bit",
             "the worker chosen is the one it chooses, or one of those that cost the same")
    try:
        program = peer.build()
    except peer.Missing as missing:
        for name in cases:
            run.skip(name, str(missing))
        return
    requests = [Request(run.rng) for _ in range(REQUESTS)]
    path = os.path.join(run.folder, "requests")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(request.line() for request in requests)
    ours = theirs = None
    with run.case("both sides answer each request"):
        ours = tell(run, "ours", [os.path.join(run.build, "bench", "bench_route")], path)
        theirs = tell(run, "theirs", [program, "select"], path)
    with run.case(cases[0]):
        expect(ours and theirs, "a side gave no answer")
        equal_costs(requests, ours, theirs)
    with run.case(cases[1]):
        expect(ours and theirs, "a side gave no answer")
        alone, several = equal_choices(requests, ours, theirs)
        kinds = {kind: sum(request.kind == kind for request in requests) for kind in SHAPES}
        run.note(f"{REQUESTS} requests, {sum(len(r.workers) for r in requests)} workers, {kinds}, "
                 f"one cheapest {alone}, several {several}, with G4 {sum(r.shared > 0 for r in requests)}")
        expect(min(kinds.values()) > 0 and alone > REQUESTS // 2 and several > REQUESTS // 20,
               "some kind of request is missing")


if __name__ == "__main__":
    sys.exit(harness.main(scenario))
