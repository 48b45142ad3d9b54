"""Events on their way from NATS to readers of the index."""

import statistics
import subprocess

from rows.row import Bench, Row, program

ROWS = {
    "off": Row("LMDB off: NATS message of one event to visible to readers, places in RAM alone",
               "events/s", "a bare subscriber that frees the message", ">= 0.9"),
    "single": Row("LMDB on with default durability: NATS message of one event to visible to readers",
                  "events/s", "a bare subscriber that frees the message", ">= 0.7"),
    "packed": Row("40 packed ÷ single: NATS messages of 40 events to visible to readers, LMDB on",
                  "events/s", "ours with one event a message", ">= 3"),
}


def runs_of(args, way):
    """Pairs of events a second, and the CPU nanoseconds an event beside each."""
    argv = [program(args, "events_in"), way, *(["--quick"] if args.quick else [])]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=900, check=False)
    rows = [line.split() for line in done.stdout.splitlines()]
    pairs = [tuple(map(float, row[1:3])) for row in rows if row and row[0] == "pair"]
    cpu = [tuple(map(float, row[1:3])) for row in rows if row and row[0] == "cpu"]
    if done.returncode != 0 or not pairs or len(pairs) != len(cpu):
        raise SystemExit(f"bench: events_in {way} failed with {done.returncode}")
    return pairs, cpu


def measure(args):
    for way, row in ROWS.items():
        pairs, cpu = runs_of(args, way)
        yield row.line("events-in", pairs, cpu_ns_an_event=round(statistics.median(c[0] for c in cpu)),
                       anchor_cpu_ns_an_event=round(statistics.median(c[1] for c in cpu)))


BENCHES = {"events-in": Bench(list(ROWS.values()), measure)}
