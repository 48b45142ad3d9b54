"""Blocks between the block manager's tiers."""

from rows.row import Bench, Row, pairs_of, program

LOOP = "a bare O_DIRECT loop, one block at a time in as many threads as the tier has operations in flight"
DISK = {
    "h2disk": Row("H2Disk MB/s, 2 MiB blocks, checksums included", "MB/s", LOOP, ">= 0.9"),
    "disk2h": Row("Disk2H MB/s, 2 MiB blocks, checksums checked", "MB/s", LOOP, ">= 0.9"),
    "ram": Row("RAM tier MB/s, 2 MiB blocks", "MB/s", "memcpy of the same blocks", ">= 0.95"),
}
PIPELINE = Row("two hops (disk, host, device) pipelined by layer: seconds ÷ slower hop alone", "s",
               "the slower of the two hops by itself, whole blocks", "<= 1.15")


def quick(args):
    return ["--quick"] if args.quick else []


def measure_disk(args):
    for way, row in DISK.items():
        yield row.line("host-disk", pairs_of([program(args, "host_disk"), way, *quick(args)]))


def measure_pipeline(args):
    yield PIPELINE.line("layer-pipeline",
                        pairs_of([program(args, "layer_pipeline"), *quick(args)]))


BENCHES = {
    "host-disk": Bench(list(DISK.values()), measure_disk),
    "layer-pipeline": Bench([PIPELINE], measure_pipeline),
}
