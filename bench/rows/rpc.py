"""Calls to another process, against bare ZeroMQ."""

from rows.row import Bench, Row, pairs_of, program

BARE = "as many bytes to and fro between a bare DEALER and a bare ROUTER"
WAYS = {"worker": ("a job that does nothing, given to a worker of another process", "<= 1.3"),
        "run": ("a call, by a thread that waits in it", "<= 1.3"),
        "start": ("a call that is begun, then waited for", None)}
CALLS = {(way, net): Row(f"{what}, 256 bytes over {net}", "us", BARE, goal)
         for way, (what, goal) in WAYS.items() for net in ("ipc", "tcp")}
LOCAL = Row("a job that does nothing, given to a worker of another process over ipc", "us",
            "the same job, given to a worker of this process")


def measure(args):
    calls, pairs = (500, 3) if args.quick else (3000, 15)
    bench = program(args, "rpc")
    for (way, net), row in CALLS.items():
        # Where the threads of a process come to lie, they stay: a new one for each pair.
        found = [pair for _ in range(pairs)
                 for pair in pairs_of([bench, net, way, "256", str(calls), "1"])]
        yield row.line("rpc", found)
        if (way, net) == ("worker", "ipc"):
            local = pairs_of([bench, "local", str(calls), str(pairs)])
            yield LOCAL.line("rpc", [(remote, own) for (remote, _), (own, _) in zip(found, local)])


BENCHES = {"rpc": Bench([*CALLS.values(), LOCAL], measure)}
