"""Events on their way from NATS into the index."""

from rows.row import Bench, Row, pairs_of, program

ROWS = [Row("event batches from NATS, decoded, applied and durable in LMDB", "events/s",
            "the same messages received and dropped")]


def measure(args):
    argv = [program(args, "events_in"), *(["--quick"] if args.quick else [])]
    yield ROWS[0].line("events-in", pairs_of(argv))


BENCHES = {"events-in": Bench(ROWS, measure)}
