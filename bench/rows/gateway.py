"""The gateway against a bare HTTP server that does only what durability demands."""

import argparse
import tempfile

import harness
from rows.row import Bench, Row, pairs_of, program

MIB = 1 << 20
FLOOR_PUT = "a bare HTTP server that only writes, syncs, links and syncs the folder"
FLOOR_GET = "a bare HTTP server that only sends the file"


def pairs(args, name, body_size, objects, connections):
    """A gateway of its own, directory store and hot volume on this disk."""
    options = argparse.Namespace(build=args.build, seed=1, keep=False, trace=None)
    run = harness.Run(options, f"bench-{name}", quiet=True)
    nats = run.nats().start()
    daemon = run.gateway(nats, hot_capacity=8 * 1024 * MIB).start()
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        found = pairs_of([program(args, name), str(daemon.front), "kvtier", harness.ACCESS,
                          harness.SECRET, folder, str(body_size),
                          str(objects // 8 if args.quick else objects),
                          "3" if args.quick else "7", str(connections)])
    run.finish()
    return found


def bench(name, program_name, whats, anchor):
    """`whats`: (what, body size, objects) of each row."""
    rows = [Row(what, "B/s", anchor) for what, _, _ in whats]

    def measure(args):
        for row, (_, body_size, objects) in zip(rows, whats):
            yield row.line(name, pairs(args, program_name, body_size, objects, 4))
    return Bench(rows, measure)


BENCHES = {
    "gateway-put": bench("gateway-put", "gateway_put", [
        ("acknowledged PUTs of 256 KiB, 4 connections, directory store with hot volume",
         256 * 1024, 1024),
        ("acknowledged PUTs of 2 MiB, 4 connections, directory store with hot volume",
         2 * MIB, 256)], FLOOR_PUT),
    "gateway-get": bench("gateway-get", "gateway_get", [
        ("GETs of 256 KiB from the hot volume, 4 connections, checked", 256 * 1024, 1024),
        ("GETs of 2 MiB from the hot volume, 4 connections, checked", 2 * MIB, 256)], FLOOR_GET),
}
