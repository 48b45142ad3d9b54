"""What is durable: making it so, and reading it back after a restart."""

import statistics
import subprocess

from rows.row import Bench, Row, program

RESTART = {
    "A": Row("rebuild events/s ÷ live apply events/s: chains of 64 half shared, 28 M (block, holder) "
             "pairs", "pairs/s", "the same events as they come, given to RAM from their groups' logs",
             ">= 1", ">= 3"),
    "C": Row("rebuild events/s ÷ live apply events/s: one block an event, 10 M (block, holder) pairs",
             "pairs/s", "the same events as they come, given to RAM from their groups' logs",
             ">= 1", ">= 3"),
}
READY = Row("20 M blocks ready in seconds (chains of 64 half shared)", "s",
            "seconds that RAM takes for the same events as they come")
INGEST = {
    "rows": Row("committed events/s, one block each, default durability, RAM follows", "events/s",
                "a bare LMDB loop: the same events as 16 B + 16 B rows, key-sorted in the same "
                "transactions, same flags and syncs", ">= 0.8"),
    "append": Row("committed events/s, one block each, against appending the same bytes", "events/s",
                  "a bare LMDB loop that appends as many bytes, same transactions, flags and syncs"),
}
SECONDS = 3600


def lines_of(args, name, *words):
    """What a bench program prints, by the first word of each line."""
    argv = [program(args, name), *words, *(["--quick"] if args.quick else [])]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    lines = {}
    for line in done.stdout.splitlines():
        word, *figures = line.split()
        lines.setdefault(word, []).append(tuple(map(float, figures)))
    if done.returncode != 0 or not lines:
        raise SystemExit(f"bench: {name} failed with {done.returncode}")
    return lines


def median_ratio(pairs):
    return round(statistics.median(ours / anchor for ours, anchor in pairs), 4)


def measure_restart(args):
    for load, row in RESTART.items():
        lines = lines_of(args, "index_restart", load)
        runs, log, snapshots = lines["store"][0]
        yield row.line("index-restart", lines["pair"], cpu_ratio=median_ratio(lines["cpu"]),
                       snapshot_bytes=int(runs), log_bytes=int(log), snapshots=int(snapshots))
        if load == "A":
            cpu = [ready[0] * pair[0] / cpu[0]
                   for ready, pair, cpu in zip(lines["ready"], lines["pair"], lines["cpu"])]
            yield READY.line("index-restart", [figures[:2] for figures in lines["ready"]],
                             blocks=int(lines["ready"][0][2]),
                             cpu_seconds=round(statistics.median(cpu), 2))


def measure_ingest(args):
    lines = lines_of(args, "lmdb_ingest")
    for way, row in INGEST.items():
        yield row.line("lmdb-ingest", [figures[:2] for figures in lines[way]],
                       cpu_ratio=median_ratio([figures[2:] for figures in lines[way]]))


BENCHES = {
    "lmdb-ingest": Bench(list(INGEST.values()), measure_ingest),
    "index-restart": Bench([*RESTART.values(), READY], measure_restart),
}
