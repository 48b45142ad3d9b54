"""Blocks of another process, pulled with all checks.

`memcpy_cpu_ratio` of near rows: bytes a second of the pulling thread's CPU, against a bare memcpy of as
many blocks in the same process; it says something on a busy machine, too."""

import os
import shutil
import socket
import statistics
import subprocess
import time

from rows.row import Bench, Row, program

KIB, MIB = 1 << 10, 1 << 20
TLS = {"near": "sysv,posix,self", "far": "tcp"}
HOT = "ucx_perftest ucp_get of one buffer of the same size, again and again"
ROWS = {  # rail, block, blocks, bytes of one get of the anchor, and how many of these in flight
    ("near", 2 * MIB, 64, 128 * MIB, 1): Row(
        "pull MB/s, shared memory, 64 blocks of 2 MiB", "MB/s",
        "ucx_perftest ucp_get of as many bytes as the blocks have together", goal=">= 0.9"),
    ("near", 2 * MIB, 1, 2 * MIB, 1): Row(
        "pull MB/s, shared memory, one block of 2 MiB again and again", "MB/s", HOT, goal=">= 0.9"),
    ("far", 2 * MIB, 32, 2 * MIB, 16): Row(
        "pull MB/s, TCP, 32 blocks of 2 MiB", "MB/s", f"{HOT}, 16 in flight", goal=">= 0.9"),
    ("near", 128 * KIB, 1024, 128 * MIB, 1): Row(
        "pull MB/s, shared memory, 1,024 blocks of 128 KiB", "MB/s",
        "ucx_perftest ucp_get of as many bytes as the blocks have together"),
    ("near", 128 * KIB, 1, 128 * KIB, 1): Row(
        "pull MB/s, shared memory, one block of 128 KiB again and again", "MB/s", HOT),
    ("far", 128 * KIB, 256, 128 * KIB, 16): Row(
        "pull MB/s, TCP, 256 blocks of 128 KiB", "MB/s", f"{HOT}, 16 in flight"),
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def perftest(rail, size, flight, total):
    """10^6 bytes a second of bare gets of `size`."""
    if shutil.which("ucx_perftest") is None:
        raise SystemExit("bench: ucx_perftest is missing: scripts/install-deps --test")
    port = free_port()
    argv = ["ucx_perftest", "-p", str(port), "-t", "ucp_get", "-s", str(size), "-O", str(flight),
            "-n", str(max(total // size, 4)), "-w", "4"]
    env = {**os.environ, "UCX_TLS": TLS[rail]}
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(50):
                time.sleep(0.1)  # it does not say when it listens
                done = subprocess.run([*argv, "localhost"], env=env, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, timeout=300,
                                      check=False)
                last = [line for line in done.stdout.splitlines() if line.startswith("Final:")]
                if done.returncode == 0 and last:
                    return size / float(last[-1].split()[4])  # microseconds a get, of them all
            raise SystemExit("bench: ucx_perftest gives no figures")
        finally:
            server.kill()


def pull(args, rail, size, blocks, milliseconds):
    done = subprocess.run([program(args, "session_pull"), rail, str(size), str(blocks),
                           str(milliseconds)], stdout=subprocess.PIPE, text=True, timeout=300,
                          check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: bench_session_pull failed with {done.returncode}")
    return {word: [*map(float, figures)]
            for word, *figures in (line.split() for line in done.stdout.splitlines())}


def measure(args):
    pairs, milliseconds = (3, 300) if args.quick else (7, 1000)
    for (rail, size, blocks, get, flight), row in ROWS.items():
        # About as long as ours: a short run may have a processor to itself where a long one has not.
        total = {"far": 256 * MIB, "near": 4 << 30 if blocks > 1 else 16 << 30}[rail]
        found, cpu = [], []
        for _ in range(pairs):
            ours = pull(args, rail, size, blocks, milliseconds)
            found.append((ours["mbs"][0],
                          perftest(rail, get, flight, total // (4 if args.quick else 1))))
            cpu += [ours["cpu"][0] / ours["cpu"][1]] if "cpu" in ours else []
        yield row.line("session-pull", found,
                       **({"memcpy_cpu_ratio": round(statistics.median(cpu), 4)} if cpu else {}))


BENCHES = {"session-pull": Bench(list(ROWS.values()), measure)}
