"""Calls to another process, against bare ZeroMQ."""

from rows.row import Bench, Row, pairs_of, program

BARE = "as many bytes to and fro between a bare DEALER and a bare ROUTER"
CALLS = {(way, net, size): Row(f"call of {size} bytes over {net}, {how}", "us", BARE, goal)
         for way, how, goal in (("run", "by a thread that waits in it", "<= 1.3"),
                                ("start", "begun, then waited for", None))
         for net in ("ipc", "tcp") for size in (256, 16384)}
LOCAL = Row("call of 256 bytes over ipc, by a thread that waits in it", "us",
            "a job that does nothing, given to a worker of this process")


def measure(args):
    calls, pairs = (500, 3) if args.quick else (3000, 15)
    bench = program(args, "rpc")
    for (way, net, size), row in CALLS.items():
        # Where the threads of a process come to lie, they stay: a new one for each pair.
        found = [pair for _ in range(pairs)
                 for pair in pairs_of([bench, net, way, str(size), str(calls), "1"])]
        yield row.line("rpc", found)
        if (way, net, size) == ("run", "ipc", 256):
            local = pairs_of([bench, "local", str(calls), str(pairs)])
            yield LOCAL.line("rpc", [(remote, own) for (remote, _), (own, _) in zip(found, local)])


BENCHES = {"rpc": Bench([*CALLS.values(), LOCAL], measure)}
