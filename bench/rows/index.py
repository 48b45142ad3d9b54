"""Our index against those of the published crate, and against what the machine can do.

Every side is a process that takes the same commands (bench/README.md).  A pair is one run of each,
right after each other, in turn the first; the sum of all last sequence hashes shows that all were
asked the same.
"""

import contextlib
import os
import statistics

import harness
from rows.peer import CRATE, CRTC, FLOOR, OURS, RADIX, same, start
from rows.row import Bench, Row

SEED = 42
MEMBERSHIPS = 16_000_000
POINTS = 1 << 24
WORKERS = 64


def count_of(args):
    return 3 if args.quick else 7


def memberships_of(args):
    return MEMBERSHIPS // 8 if args.quick else MEMBERSHIPS


def turns(labels, pair):
    """Who goes first changes from pair to pair."""
    shift = pair % len(labels)
    return labels[shift:] + labels[:shift]


def begin(sessions, command):
    """The same command to all, and the same workload from all."""
    answers = {label: session.ask(command) for label, session in sessions.items()}
    same(answers, command)
    return answers


def faster(runs, key="rate"):
    """Of the peers that were measured the one with the better median."""
    peers = [label for label in (CRTC, RADIX) if label in runs]
    return max(peers, key=lambda label: statistics.median(run[key] for run in runs[label]))


def write_line(name, row, runs):
    """A row of rates; the anchor is the faster of the peers in this run."""
    best = faster(runs)
    pairs = [(ours["rate"], peer["rate"]) for ours, peer in zip(runs[OURS], runs[best])]
    peers = {label: round(statistics.median(run["rate"] for run in runs[label]))
             for label in (CRTC, RADIX)}
    cpu = [(ours["blocks"] / ours["cpu_s"]) / (peer["blocks"] / peer["cpu_s"])
           for ours, peer in zip(runs[OURS], runs[best])]
    return row.line(name, pairs, f"{best} of {CRATE}", peers=peers,
                    cpu_ratio=round(statistics.median(cpu), 4))


# ---- index-apply ----

SIDES = [OURS, CRTC, RADIX]

CHAINS = Row("chains of 64 half shared: stores, refill after full removal, one writer thread",
             "blocks/s", goal=">= 2", stretch=">= 3")
FIRST = Row("chains of 64 half shared: stores, first fill (page faults included)", "blocks/s")
SINGLE = Row("one block an event: stores, 1,024 chains open at once, refill", "blocks/s",
             goal=">= 6", stretch=">= 10")
REMOVAL = Row("removal: chains of 64 half shared, a chain an event from its leaf", "blocks/s",
              goal=">= 2.5", stretch=">= 4")
TRACE = Row("the real trace ×16: conversation, length 4, 4 copies, 64 workers; stores", "blocks/s",
            goal=">= 2", stretch=">= 3")

AGAIN = Row("the real trace again, after removal of all it stored; stores", "blocks/s")


def trace_of(args):
    for path in (args.trace, os.environ.get("KVT_TRACE")):
        if path:
            if not os.path.exists(path):
                raise SystemExit(f"bench: there is no trace {path}")
            return path
    if not os.path.exists(harness.REAL_TRACE):
        raise SystemExit("bench: a recorded trace is needed; name one with --trace FILE or KVT_TRACE")
    return harness.REAL_TRACE


def measure_chains(args):
    """Each run in a process of its own: first fill, removal, refill."""
    runs = {step: {label: [] for label in SIDES} for step in ("first", "remove", "refill")}
    command = f"load A {memberships_of(args)} {SEED}"
    for pair in range(count_of(args)):
        answers = {}
        for label in turns(SIDES, pair):
            with start(args, label) as side:
                answers[label] = side.ask(command)
                runs["first"][label].append(side.ask("fill"))
                runs["remove"][label].append(side.ask("remove"))
                runs["refill"][label].append(side.ask("fill"))
        same(answers, command)
    return runs


def measure_single(args):
    """The processes stay; what they hold is removed and stored again."""
    runs = {label: [] for label in SIDES}
    with contextlib.ExitStack() as stack:
        sides = {label: stack.enter_context(start(args, label)) for label in SIDES}
        begin(sides, f"load C {memberships_of(args)} {SEED}")
        for side in sides.values():
            side.ask("fill")
        for pair in range(count_of(args)):
            for label in turns(SIDES, pair):
                sides[label].ask("remove")
                runs[label].append(sides[label].ask("fill"))
    return runs


def measure_trace(args, path):
    runs = {step: {label: [] for label in SIDES} for step in ("first", "refill")}
    command = f"trace 4 4 {WORKERS} {SEED} {path}"
    for pair in range(count_of(args)):
        answers = {}
        for label in turns(SIDES, pair):
            with start(args, label) as side:
                answers[label] = side.ask(command)
                runs["first"][label].append(side.ask("replay"))
                side.ask("forget")
                runs["refill"][label].append(side.ask("replay"))
        same(answers, command)
    return runs


def measure_apply(args):
    path = trace_of(args)
    chains = measure_chains(args)
    yield write_line("index-apply", CHAINS, chains["refill"])
    yield write_line("index-apply", FIRST, chains["first"])
    yield write_line("index-apply", SINGLE, measure_single(args))
    yield write_line("index-apply", REMOVAL, chains["remove"])
    trace = measure_trace(args, path)
    yield write_line("index-apply", TRACE, trace["first"])
    yield write_line("index-apply", AGAIN, trace["refill"])


# ---- index-apply-limit ----

LIMIT = Row("chains of 64 half shared: stores, refill after full removal", "blocks/s",
            "a bare loop: one prefetched random insert of 16 B a block, table of twice as many slots",
            goal=">= 0.5", stretch=">= 0.7")


def measure_limit(args):
    pairs = []
    with start(args, OURS) as ours, start(args, FLOOR) as floor:
        begin({OURS: ours, FLOOR: floor}, f"load A {memberships_of(args)} {SEED}")
        ours.ask("fill")
        floor.ask("floor")
        for _ in range(count_of(args)):
            ours.ask("remove")
            pairs.append((ours.ask("fill")["rate"], floor.ask("floor")["rate"]))
    yield LIMIT.line("index-apply-limit", pairs)


# ---- index-find and index-fanout ----

SHAPES = {
    "full": ("<= 1", "<= 0.5"),
    "cutoff": ("<= 1", "<= 0.5"),
    "branch": ("<= 0.2", "<= 0.1"),
}
PERCENTILES = ("p50", "p99")
FIND_POINTS = [(128, 64), (1024, 64), (128, 1000)]
FANOUT_POINT = (128, 7000)
FIND_BEST = 64
FANOUT_BEST = 16


def find_row(point, shape, percentile, busy, goal, stretch):
    writer = ", while a writer runs at half its capacity" if busy else ""
    return Row(f"{percentile} of ({point[0]}, {point[1]}) {shape}{writer}", "ns", goal=goal,
               stretch=stretch)


def find_rows(points, shapes, busy_too):
    return {(point, shape, busy): {percentile: find_row(point, shape, percentile, busy, *goals)
                                   for percentile in PERCENTILES}
            for point in points for shape, goals in shapes.items()
            for busy in ((False, True) if busy_too else (False,))}


FIND_ROWS = find_rows(FIND_POINTS, SHAPES, True)
FANOUT_ROWS = find_rows([FANOUT_POINT], {"full": ("<= 0.2", "<= 0.05"),
                                         "branch": ("<= 0.2", "<= 0.05")}, False)


def find_lines(name, rows, runs):
    """Both percentiles; the anchor is the better of the peers, for each by itself."""
    for percentile in PERCENTILES:
        key = f"{percentile}_ns"
        peers = {label: statistics.median(run[key] for run in runs[label])
                 for label in (CRTC, RADIX) if label in runs}
        best = min(peers, key=peers.get)
        pairs = [(ours[key], peer[key]) for ours, peer in zip(runs[OURS], runs[best])]
        yield rows[percentile].line(name, pairs, f"{best} of {CRATE}", peers=peers)


def find_pairs(args, sides, best, busy):
    """Lookups of every side in turn; queries differ from pair to pair."""
    count = 4000 if args.quick else 20000
    runs = {label: [] for label in sides}
    for pair in range(count_of(args)):
        for label in turns(list(sides), pair):
            if busy:
                sides[label].ask("writer 50")
            runs[label].append(sides[label].ask(f"find {pair * count} {count} {best}"))
            if busy:
                sides[label].ask("writer 50")
    return runs


def measure_point(args, name, rows, labels, point, shape, best):
    with contextlib.ExitStack() as stack:
        sides = {label: stack.enter_context(start(args, label)) for label in labels}
        begin(sides, f"points {point[0]} {point[1]} {shape} "
                     f"{POINTS // 8 if args.quick else POINTS} {SEED}")
        for side in sides.values():
            side.ask("fill")
        yield from find_lines(name, rows[point, shape, False],
                              find_pairs(args, sides, best, False))
        if (point, shape, True) in rows:
            # RadixTree cannot be read while it is written.
            sides = {label: side for label, side in sides.items() if label != RADIX}
            yield from find_lines(name, rows[point, shape, True],
                                  find_pairs(args, sides, best, True))


def measure_find(args):
    for point in FIND_POINTS:
        for shape in SHAPES:
            yield from measure_point(args, "index-find", FIND_ROWS, SIDES, point, shape, FIND_BEST)


def measure_fanout(args):
    for shape in ("full", "branch"):
        yield from measure_point(args, "index-fanout", FANOUT_ROWS, [OURS, CRTC], FANOUT_POINT,
                                 shape, FANOUT_BEST)


# ---- index-memory ----

MEMORY = {
    "A": Row("A (half shared): RSS bytes per (holder, block)", "B", "the goal, 27 B",
             goal="<= 1", stretch="<= 0.5185"),
    "B": Row("B (nothing shared): RSS bytes per (holder, block)", "B",
             "the goal, 36 B", goal="<= 1", stretch="<= 0.75"),
}
MEMORY_GOALS = {"A": 27, "B": 36}


def bytes_each(args, label, load):
    """Resident memory a fill adds to a fresh process.  Always the full load: a small one would
    divide what is there anyway by few."""
    with start(args, label) as side:
        loaded = side.ask(f"load {load} {MEMBERSHIPS} {SEED}")
        return side.ask("fill")["rss"] / loaded["memberships"]


def measure_memory(args):
    for load, row in MEMORY.items():
        pairs = [(round(bytes_each(args, OURS, load), 2), MEMORY_GOALS[load])
                 for _ in range(3)]
        peers = {} if args.quick else {CRTC: round(bytes_each(args, CRTC, load), 2)}
        yield row.line("index-memory", pairs, peers=peers)


def flat(rows):
    return [row for pair in rows.values() for row in pair.values()]


BENCHES = {
    "index-apply": Bench([CHAINS, FIRST, SINGLE, REMOVAL, TRACE, AGAIN], measure_apply),
    "index-apply-limit": Bench([LIMIT], measure_limit),
    "index-find": Bench(flat(FIND_ROWS), measure_find),
    "index-fanout": Bench(flat(FANOUT_ROWS), measure_fanout),
    "index-memory": Bench(list(MEMORY.values()), measure_memory),
}
