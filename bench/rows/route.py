"""Our choice of a worker against the published selector's, one thread each, 1,000 workers.

Both sides take the same commands (bench/README.md), make the same requests from a seed, and must choose the same
workers at temperature 0.  A pair is one run of each, right after each other, in turn the first.

`route-hour` gives the recorded trace to workers in several ways; bench/route/fleet.h says what the model is."""

import json
import statistics
import subprocess

from rows.peer import CRATE, Session, build
from rows.policy import trace_of
from rows.row import Bench, Row, program

SEED, WORKERS, REQUESTS, RUNNING = 7, 1000, 4, 8
ANCHOR = f"DefaultWorkerSelector of {CRATE}"
WHOLE = f"ActiveSequencesMultiWorker and DefaultWorkerSelector of {CRATE}"
KINDS = {  # command: what, anchor, goals of rate and p99
    ("select", 0): ("costs and choice from ready caches and loads", ANCHOR, ">= 5", "<= 0.2"),
    ("select", 0.5): ("costs and choice at temperature 0.5 from ready caches and loads", ANCHOR, ">= 5", "<= 0.2"),
    ("decide", 0): ("loads projected from 8,000 running requests, costs and choice", WHOLE, None, None),
}
RATES = {kind: Row(f"{what}, {WORKERS} workers", "decisions/s", anchor, goal=goal)
         for kind, (what, anchor, goal, _) in KINDS.items()}
P99S = {kind: Row(f"{what}, {WORKERS} workers: p99 of its CPU time", "ns", anchor, goal=goal)
        for kind, (what, anchor, _, goal) in KINDS.items()}


def begin(sides):
    """The same requests on both sides."""
    for command in (f"ready {WORKERS} {REQUESTS} {SEED}", f"busy {RUNNING}"):
        sums = {label: side.ask(command)["checksum"] for label, side in sides.items()}
        if len(set(sums.values())) != 1:
            raise SystemExit(f"bench: \"{command}\" made different requests: {sums}")


def run(sides, counts, kind, pairs):
    """[(ours, theirs)] of the answers of each pair."""
    found = []
    for pair in range(pairs):
        answers = {}
        for label in sorted(sides, reverse=pair % 2 == 1):
            answers[label] = sides[label].ask(f"{kind[0]} {counts[label]} {kind[1]}")
        chosen = [answer["chosen"] for answer in answers.values()]
        if kind[1] == 0 and chosen[0] != chosen[1]:
            raise SystemExit(f"bench: {kind[0]}: different workers are chosen: {chosen}")
        found.append((answers["ours"], answers["theirs"]))
    return found


def measure(args):
    counts = {"ours": 20000, "theirs": 4000} if args.quick else {"ours": 50000, "theirs": 10000}
    with Session([program(args, "route")], "ours") as ours, \
            Session([build(), "select"], "theirs") as theirs:
        sides = {"ours": ours, "theirs": theirs}
        begin(sides)
        for kind in KINDS:
            run(sides, {label: count // 10 for label, count in counts.items()}, kind, 1)  # warm
            found = run(sides, counts, kind, 3 if args.quick else 7)
            cpu = [one["cpu_rate"] / other["cpu_rate"] for one, other in found]
            yield RATES[kind].line("route", [(one["rate"], other["rate"]) for one, other in found],
                                   cpu_ratio=round(statistics.median(cpu), 4))
            p50 = [one["p50_ns"] / other["p50_ns"] for one, other in found]
            yield P99S[kind].line("route", [(one["p99_ns"], other["p99_ns"]) for one, other in found],
                                  p50_ratio=round(statistics.median(p50), 4))


HOUR = Row("the recorded trace, given to 8, 16 and 32 workers in several ways: hits, balance, waiting",
           "% of blocks")


def measure_hour(args):
    """No time of ours is measured: the same on any machine."""
    done = subprocess.run([program(args, "route_hour"), "json", trace_of(args)], stdout=subprocess.PIPE,
                          text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: bench_route_hour failed with {done.returncode}")
    yield from map(json.loads, done.stdout.splitlines())


BENCHES = {"route": Bench([row for kind in KINDS for row in (RATES[kind], P99S[kind])], measure),
           "route-hour": Bench([HOUR], measure_hour)}
