#!/usr/bin/env python3
"""`kvtier policy simulate` agrees with simulators that share no code with it.

On a generated workload with a few lines of Python here: lru, fifo, and the bound by next uses.  On the
recorded trace with figures of another simulator, whose lru agrees with published ones.  And what the
default ordering promises holds there."""

import heapq
import json
import os
import subprocess
import sys

import harness
from harness import expect

# Blocks of the tier -> prefix hits, of all reads, conversation trace.
SIZES = (1827, 5483, 9139, 18279, 36558, 54837, 91395)
KNOWN = {
    "best": (0.246, 0.348, 0.366, 0.366, 0.366, 0.366, 0.366),
    "lru": (0.052, 0.126, 0.196, 0.279, 0.345, 0.358, 0.363),
    "fifo": (0.051, 0.119, 0.176, 0.248, 0.313, 0.337, 0.356),
    "lfu": (0.058, 0.095, 0.128, 0.195, 0.307, 0.349, 0.363),
    "arc": (0.065, 0.133, 0.210, 0.284, 0.320, 0.349, 0.363),
    "s3fifo": (0.078, 0.151, 0.214, 0.291, 0.333, 0.354, 0.363),
    "prefix": (0.055, 0.135, 0.206, 0.288, 0.340, 0.356, 0.363),
}
# Ties of equal counts are broken in another way there.
SLACK = {"prefix": 0.0011}
ROUNDING = 0.0005
KNOWN_BLOCKS = 182790


def simulate(run, trace, *flags):
    done = subprocess.run([run.program("kvtier"), "policy", "simulate", trace, "--promotion", "always",
                           "-o", "json", *flags], stdout=subprocess.PIPE, check=True, timeout=600)
    return json.loads(done.stdout)


def requests_of(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["hash_ids"] for line in lines]


def queue_hits(requests, capacity, touches):
    """lru, or fifo where a read does not touch: a dict keeps its order of insertion."""
    tier, hits = {}, 0
    for chain in requests:
        for block in chain:
            if block not in tier:
                break
            hits += 1
        for block in reversed(chain):
            if block in tier:
                if touches:
                    tier[block] = tier.pop(block)
                continue
            while len(tier) >= capacity:
                del tier[next(iter(tier))]
            tier[block] = True
    return hits


def best_hits(requests, capacity):
    """What is needed last leaves, the deepest first; what would leave at once does not come."""
    later = [[0] * len(chain) for chain in requests]
    seen = {}
    for i in range(len(requests) - 1, -1, -1):
        for depth, block in enumerate(requests[i]):
            later[i][depth] = seen.get(block, len(requests))
        for block in requests[i]:
            seen[block] = i
    tier, heap, hits = {}, [], 0
    for i, chain in enumerate(requests):
        for depth, block in enumerate(chain):
            key = (-later[i][depth], -depth)
            if block in tier:
                hits += 1
                del tier[block]
            if later[i][depth] == len(requests):
                continue
            tier[block] = key
            heapq.heappush(heap, (*key, block))
            while len(tier) > capacity:
                *old, victim = heapq.heappop(heap)
                if tier.get(victim) == tuple(old):
                    del tier[victim]
    return hits


def compare_generated(run):
    path = os.path.join(run.folder, "generated.jsonl")
    subprocess.run([run.program("kvtier"), "workload", "generate", "--seed", str(run.seed), "--requests",
                    "3000", "--out", path], check=True)
    requests = requests_of(path)
    blocks = len({block for chain in requests for block in chain})
    sizes = [blocks * percent // 100 for percent in (1, 4, 15, 50)]
    for row in simulate(run, path, "--orderings", "lru,fifo", "--sizes", ",".join(map(str, sizes)))["runs"]:
        wanted = queue_hits(requests, row["blocks"], row["ordering"] == "lru")
        expect(row["prefix_hits"] == wanted,
               f"{row['ordering']}, {row['blocks']} blocks: {row['prefix_hits']} hits, {wanted} here")
        if row["ordering"] == "lru":
            wanted = best_hits(requests, row["blocks"])
            expect(row["best_hits"] == wanted,
                   f"best, {row['blocks']} blocks: {row['best_hits']} hits, {wanted} here")


def compare_recorded(answer):
    expect(answer["blocks"] == KNOWN_BLOCKS, f"another trace: it has {answer['blocks']} blocks")
    for row in answer["runs"]:
        at = SIZES.index(row["blocks"])
        for name, hits in ((row["ordering"], row["prefix_hits"]), ("best", row["best_hits"])):
            if name in KNOWN:
                off = abs(hits / answer["reads"] - KNOWN[name][at])
                expect(off <= SLACK.get(name, ROUNDING) + 1e-9,
                       f"{name}, {row['blocks']} blocks: {hits / answer['reads']:.4f}, "
                       f"{KNOWN[name][at]} is known")


def scenario(run):
    with run.case("lru, fifo and the bound are those of another simulator"):
        compare_generated(run)
    trace = run.args.trace or os.environ.get("KVT_TRACE") or harness.REAL_TRACE
    cases = ("seven known curves of the recorded trace", "rhi is above lru there, up to a tenth of a point")
    if not os.path.exists(trace):
        for name in cases:
            run.skip(name, "there is no recorded trace; KVT_TRACE names one")
        return
    answer = simulate(run, trace, "--sizes", ",".join(map(str, SIZES)))
    with run.case(cases[0]):
        compare_recorded(answer)
    with run.case(cases[1]):
        hits = {(row["ordering"], row["blocks"]): row["of_best_percent"] for row in answer["runs"]}
        for size in SIZES:
            expect(hits["rhi", size] >= hits["lru", size] - 0.1,
                   f"{size} blocks: {hits['rhi', size]} below {hits['lru', size]}")


if __name__ == "__main__":
    sys.exit(harness.main(scenario))
