"""A pool's book-keeping, against a list and a table without a lock or a state."""

import statistics
import subprocess

from rows.row import Bench, Row, pairs_of, program

BLOCKS, CHAINS = 65536, (16, 64)
WORK = "take, name, register, find and give back"
SIDES = ((1, 1), (2, 1), (2, 2))  # threads: ours, the anchor's
ANCHORS = {1: "one list and table of names, one thread",
           2: "two threads, each with a list and a table of its own"}
ROWS = {(chain, ours, bare): Row(
            f"{WORK} chains of {chain} blocks, {ours} thread{'s' if ours > 1 else ''}", "blocks/s",
            ANCHORS[bare], goal=">= 0.5")
        for chain in CHAINS for ours, bare in SIDES}


def figures(args, *words):
    """{"pair": [(ours, anchor)], "cpu": ...} of a run of bench_pool."""
    done = subprocess.run([program(args, "pool"), *map(str, words)], stdout=subprocess.PIPE,
                          text=True, timeout=900, check=False)
    found = {"pair": [], "cpu": []}
    for line in done.stdout.splitlines():
        word, ours, anchor = line.split()
        found[word].append((float(ours), float(anchor)))
    if done.returncode != 0 or not found["pair"]:
        raise SystemExit(f"bench: bench_pool failed with {done.returncode}")
    return found


def measure(args):
    length, pairs = (200, 3) if args.quick else (1000, 7)
    for (chain, ours, bare), row in ROWS.items():
        found = figures(args, ours, bare, BLOCKS, chain, length, pairs)
        cpu = found["cpu"]
        yield row.line("pool-ops", found["pair"], blocks=BLOCKS,
                       cpu_ratio=round(statistics.median(o / a for o, a in cpu), 4),
                       cpu_ns=round(1e9 / statistics.median(o for o, _ in cpu), 1),
                       anchor_cpu_ns=round(1e9 / statistics.median(a for _, a in cpu), 1))


RINGS = {hashes: Row(f"match of {hashes} hashes that are there, asked over the rings, worker asleep", "us",
                     "the same question to a pool of the same process") for hashes in (64, 512)}


def measure_ring(args):
    calls, pairs = (1000, 3) if args.quick else (10000, 9)
    for hashes, row in RINGS.items():
        yield row.line("ring", pairs_of([program(args, "ring"), str(hashes), str(calls), str(pairs)]))


BENCHES = {"pool-ops": Bench(list(ROWS.values()), measure),
           "ring": Bench(list(RINGS.values()), measure_ring)}
