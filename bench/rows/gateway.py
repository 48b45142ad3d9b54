"""The gateway as an S3 server: against loopback TCP, against MinIO, against a proxy that does nothing."""

import contextlib
import statistics
import subprocess
import types

import harness
from rows.row import Bench, Row, program

KIB, MIB = 1 << 10, 1 << 20
SIZES = (64 * KIB, 512 * KIB, 2 * MIB, 8 * MIB)
IN_FLIGHT = (1, 4, 16)
STEADY = 4           # in flight where a row has one number of them
LEVEL = 128 * MIB    # bytes of different objects of a size
MOVED = 512 * MIB    # bytes a measurement moves
COUNT_MAX = 2048     # objects and requests of a measurement, at most
RAW = "a loopback socket that sends the same files (sendfile, no HTTP)"
MINIO = "the same requests to MinIO directly"
SPLICE = "the same requests to MinIO through a proxy that only splices"


def words(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


class Sides:
    """Servers of one bench, all on this machine, and the client that loads them."""

    def __init__(self, args, name):
        self.args = args
        self.run = harness.Run(types.SimpleNamespace(build=args.build, seed=1, keep=False, trace=None),
                               f"bench-{name}", quiet=True)
        self.program = program(args, "gateway")
        self.pairs = 3 if args.quick else 7
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run.finish()

    def servers(self):
        """NATS and a MinIO with the bucket."""
        nats, minio = self.run.nats().start(), self.run.minio().start()
        self.run.client(minio).create_bucket()
        return nats, minio

    def floor(self, *argv):
        """The port of a floor server that runs until the bench ends."""
        self.count += 1
        process = self.run.add(harness.Process(self.run, f"floor{self.count}",
                                               [self.program, *map(str, argv)])).start(wait=False)
        harness.wait_until(lambda: None if port_of(process) else "no port yet", 60,
                           f"bench_gateway {argv[0]}", every=0.05)
        return port_of(process)

    def amounts(self, size):
        """(objects, requests) of a measurement."""
        part = 8 if self.args.quick else 1
        return (max(STEADY, min(LEVEL // size, COUNT_MAX // 2) // part),
                max(IN_FLIGHT[-1], min(MOVED // size, COUNT_MAX) // part))

    def load(self, verb, port, prefix, size, in_flight=STEADY, bucket="kvtier", more=()):
        """Bytes a second; put and check take each object once."""
        objects, requests = self.amounts(size)
        if verb in ("put", "check"):
            requests = objects
        line = self.ask(verb, port, bucket, harness.ACCESS, harness.SECRET, prefix, size, objects,
                        requests, in_flight, *more)
        return float(line[1])

    def ask(self, *argv):
        done = subprocess.run([self.program, *map(str, argv)], stdout=subprocess.PIPE, text=True,
                              timeout=900, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: bench_gateway {' '.join(map(str, argv[:3]))} failed")
        return done.stdout.split()

    def interleaved(self, ours, anchor):
        """Pairs of two measurements that run right after each other; who goes first changes."""
        pairs = []
        for number in range(self.pairs):
            first, second = (ours, anchor) if number % 2 == 0 else (anchor, ours)
            left, right = first(), second()
            pairs.append((left, right) if number % 2 == 0 else (right, left))
        return pairs


def port_of(process):
    with contextlib.suppress(OSError), open(process.log, encoding="utf-8") as log:
        for line in log:
            if line.startswith("port ") and line.endswith("\n"):
                return int(line.split()[1])
    return None


def port(server):
    return int(server.url.rsplit(":", 1)[1])


# ---- rows ----------------------------------------------------------------------------------------

GET_ROWS = {size: Row(f"hot GETs of {words(size)}, 1, 4 and 16 in flight (the worst of the three)",
                      "B/s", RAW, ">= 0.5" if size == 2 * MIB else None,
                      ">= 0.7" if size == 2 * MIB else None) for size in SIZES}


def measure_get(args):
    with Sides(args, "gateway-get") as sides:
        nats = sides.run.nats().start()
        gateway = sides.run.gateway(nats, hot_capacity=8 << 30).start()
        for size, row in GET_ROWS.items():
            prefix = f"get{size}"
            raw = sides.floor("raw", sides.run.folder, size, sides.amounts(size)[0])
            sides.load("put", gateway.front, prefix, size)
            sides.load("check", gateway.front, prefix, size)
            found = {}
            for in_flight in IN_FLIGHT:
                found[in_flight] = sides.interleaved(
                    lambda: sides.load("get", gateway.front, prefix, size, in_flight),
                    lambda: sides.load("raw-get", raw, prefix, size, in_flight))
            each = {level: statistics.median(o / a for o, a in pairs) for level, pairs in found.items()}
            worst = min(each, key=each.get)
            yield row.line("gateway-get", found[worst], in_flight=worst,
                           ratios={str(level): round(ratio, 4) for level, ratio in each.items()})


MINIO_GOALS = {64 * KIB: ">= 3", 512 * KIB: ">= 3", 2 * MIB: ">= 1.2", 8 * MIB: ">= 0.9"}
HOT_ROWS = {size: Row(f"hot GETs of {words(size)}, {STEADY} in flight", "B/s", MINIO, goal)
            for size, goal in MINIO_GOALS.items()}
COLD_ROWS = {size: Row(f"cold GETs of {words(size)}, {STEADY} in flight", "B/s", SPLICE, ">= 0.85")
             for size in SIZES}


def measure_get_minio(args):
    with Sides(args, "gateway-get-minio") as sides:
        nats, minio = sides.servers()
        hot = sides.run.gateway(nats, "hot", s3_server=minio, hot_capacity=8 << 30).start()
        cold = sides.run.gateway(nats, "cold", s3_server=minio, hot_capacity=0).start()
        splice = sides.floor("splice", port(minio))
        for rows, gateway, anchor in ((HOT_ROWS, hot, port(minio)), (COLD_ROWS, cold, splice)):
            for size, row in rows.items():
                # Each side reads objects that came to the store by its own way.
                ours, theirs = f"{gateway.name}{size}", f"direct-{gateway.name}{size}"
                for where, prefix in ((gateway.front, ours), (port(minio), theirs)):
                    sides.load("put", where, prefix, size)
                    sides.load("check", where, prefix, size)
                yield row.line("gateway-get-minio", sides.interleaved(
                    lambda: sides.load("get", gateway.front, ours, size),
                    lambda: sides.load("get", anchor, theirs, size)))


PUT_ROWS = {size: Row(f"write-through PUTs of {words(size)}, {STEADY} in flight", "B/s", SPLICE,
                      ">= 0.85") for size in SIZES}
BACK_ROWS = {size: Row(f"write-back PUTs of {words(size)}, {STEADY} in flight", "B/s", MINIO, ">= 2")
             for size in SIZES}


def put_pairs(sides, size, gateway, anchor):
    """Every object is new to its side."""
    def put(where, side):
        sides.count += 1
        return sides.load("put", where, f"{side}{size}-{sides.count}", size)
    return sides.interleaved(lambda: put(gateway.front, gateway.name), lambda: put(anchor, "direct"))


def measure_put(args):
    with Sides(args, "gateway-put") as sides:
        nats, minio = sides.servers()
        through = sides.run.gateway(nats, "through", s3_server=minio, hot_capacity=8 << 30).start()
        splice = sides.floor("splice", port(minio))
        for size, row in PUT_ROWS.items():
            yield row.line("gateway-put", put_pairs(sides, size, through, splice))
        back = sides.run.gateway(nats, "back", s3_server=minio, hot_capacity=8 << 30,
                                 write_mode="back").start()
        for size, row in BACK_ROWS.items():
            yield row.line("gateway-put", put_pairs(sides, size, back, port(minio)))


SEGMENT = 16 * MIB   # packed.segment_size
PACKED_ROWS = {size: Row(f"cold GETs of {words(size)} from segments, {STEADY} in flight", "B/s",
                         "the same of blocks with objects of their own", ">= 0.8")
               for size in (64 * KIB, 512 * KIB)}


def pack(sides, gateway, space, objects):
    """Nearly all of a namespace: a small rest waits for more."""
    gateway.ask("/v1/compact", {"namespace": space}, token=sides.run.token)

    def unpacked():
        row = next(row for row in gateway.status()["packing"] if row["namespace"] == space)
        return None if row["pending"] == 0 and row["blocks"] >= 0.9 * objects else str(row)
    harness.wait_until(unpacked, 300, f"{space} is packed")


def packed_floor(sides, store, size):
    """What the store alone makes of it: parts of objects as large as segments ÷ objects of that size."""
    sides.load("put", store, "whole", SEGMENT)
    sides.load("put", store, f"direct{size}", size)
    return statistics.median(ours / plain for ours, plain in sides.interleaved(
        lambda: sides.load("get-part", store, "whole", size, more=(SEGMENT, 0)),
        lambda: sides.load("get", store, f"direct{size}", size)))


def measure_get_packed(args):
    with Sides(args, "gateway-get-packed") as sides:
        nats, minio = sides.servers()
        spaces = {size: f"packed{size}" for size in PACKED_ROWS}
        gateway = sides.run.gateway(nats, s3_server=minio, hot_capacity=0, **{
            "packed.namespaces": ",".join(spaces.values()), "packed.age": "0s",
            "packed.interval": "1d"}).start()
        for size, row in PACKED_ROWS.items():
            for prefix in (spaces[size], f"plain{size}"):
                sides.load("put", gateway.front, prefix, size)
            pack(sides, gateway, spaces[size], sides.amounts(size)[0])
            for prefix in (spaces[size], f"plain{size}"):
                sides.load("check", gateway.front, prefix, size)
            pairs = sides.interleaved(
                lambda: sides.load("get", gateway.front, spaces[size], size),
                lambda: sides.load("get", gateway.front, f"plain{size}", size))
            yield row.line("gateway-get-packed", pairs,
                           store_ratio=round(packed_floor(sides, port(minio), size), 4))


LIST_ROW = Row("LIST of 100,000 keys (20,000 with --quick), pages of 1,000", "keys/s", MINIO, ">= 1")


def measure_list(args):
    keys = 20000 if args.quick else 100000
    with Sides(args, "gateway-list") as sides:
        nats, minio = sides.servers()
        gateway = sides.run.gateway(nats, s3_server=minio, hot_capacity=0).start()
        sides.ask("put", gateway.front, "kvtier", harness.ACCESS, harness.SECRET, "list", 64, keys, keys,
                  32)
        seen = set()

        def ask(where):
            _, count, total, rate = sides.ask("list", where, "kvtier", harness.ACCESS, harness.SECRET,
                                              "list")
            seen.add((int(count), total))
            return float(rate)
        pairs = sides.interleaved(lambda: ask(gateway.front), lambda: ask(port(minio)))
        if len(seen) != 1 or seen.pop()[0] != keys:
            raise SystemExit(f"bench: {keys} keys were put, and the listings differ")
        yield LIST_ROW.line("gateway-list", pairs, keys=keys)


BENCHES = {
    "gateway-get": Bench(list(GET_ROWS.values()), measure_get),
    "gateway-get-minio": Bench([*HOT_ROWS.values(), *COLD_ROWS.values()], measure_get_minio),
    "gateway-put": Bench([*PUT_ROWS.values(), *BACK_ROWS.values()], measure_put),
    "gateway-get-packed": Bench(list(PACKED_ROWS.values()), measure_get_packed),
    "gateway-list": Bench([LIST_ROW], measure_list),
}
