"""Blocks between the block manager's tiers."""

import statistics
import subprocess

from rows.row import Bench, Row, pairs_of, program

LOOP = "a bare O_DIRECT loop, one block at a time in as many threads as the tier has operations in flight"
DISK = {
    "h2disk": Row("H2Disk MB/s, 2 MiB blocks, checksums included", "MB/s", LOOP, ">= 0.9"),
    "disk2h": Row("Disk2H MB/s, 2 MiB blocks, checksums checked", "MB/s", LOOP, ">= 0.9"),
    "ram": Row("RAM tier MB/s, 2 MiB blocks", "MB/s", "memcpy of the same blocks", ">= 0.95"),
}
HOPS = "two hops (disk, host, device) pipelined by layer: seconds ÷ slower hop alone"
SLOWER = "the slower of the two hops by itself, whole blocks"
PIPELINE = {
    (): Row(f"{HOPS}; the device is memory", "s", SLOWER, "<= 1.15"),
    ("--even",): Row(f"{HOPS}; the device is behind a link as slow as the disk", "s", SLOWER,
                     "<= 1.15"),
}


def quick(args):
    return ["--quick"] if args.quick else []


def measure_disk(args):
    for way, row in DISK.items():
        yield row.line("host-disk", pairs_of([program(args, "host_disk"), way, *quick(args)]))


def measure_pipeline(args):
    """`in_turn_ratio` is of both hops one after the other: what a pipeline without overlap takes."""
    for flags, row in PIPELINE.items():
        done = subprocess.run([program(args, "layer_pipeline"), *flags, *quick(args)],
                              stdout=subprocess.PIPE, text=True, timeout=900, check=False)
        found = {"pair": [], "hops": []}
        for line in done.stdout.splitlines():
            word, *figures = line.split()
            found[word].append(tuple(map(float, figures)))
        if done.returncode != 0 or not found["pair"]:
            raise SystemExit(f"bench: bench_layer_pipeline failed with {done.returncode}")
        in_turn = statistics.median(sum(hops) / max(hops) for hops in found["hops"])
        yield row.line("layer-pipeline", found["pair"], in_turn_ratio=round(in_turn, 4))


BENCHES = {
    "host-disk": Bench(list(DISK.values()), measure_disk),
    "layer-pipeline": Bench(list(PIPELINE.values()), measure_pipeline),
}
