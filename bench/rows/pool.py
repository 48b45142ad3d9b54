"""A pool's book-keeping, against a list and a table without a lock or a state."""

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


def measure(args):
    length, pairs = ("200", "3") if args.quick else ("1000", "7")
    for (chain, ours, bare), row in ROWS.items():
        found = pairs_of([program(args, "pool"), str(ours), str(bare), str(BLOCKS), str(chain),
                          length, pairs])
        line = row.line("pool-ops", found, blocks=BLOCKS)
        yield {**line, "ns": round(1e9 * ours / line["ours"], 1),
               "anchor_ns": round(1e9 * bare / line["anchor"], 1)}


BENCHES = {"pool-ops": Bench(list(ROWS.values()), measure)}
