"""libg4 as an S3 client: CPU, conditions, and how many requests a block costs."""

import collections
import filecmp
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import threading

import harness
from rows.gateway import MIB, SIZES, Sides, STEADY, port, words
from rows.row import Bench, Row, program

KVBM_REQUESTS = 5  # of KVBM a block: HEAD, PUT lock, PUT data, PUT meta, DELETE lock
CPU_BYTES = 256 * MIB
COUNT_MAX = 1024
VERBS = {"up": "files into MinIO", "down": "objects of MinIO into files"}
CLIENTS = {"boto3 (crt)": "<= 0.3", "mc": "<= 0.6"}
CPU_ROWS = {(size, verb, client): Row(
    f"libg4 ÷ {client}: {words(size)}, {VERBS[verb]}, {STEADY} in flight", "CPU s/GB", client, goal)
            for size in SIZES for verb in VERBS for client, goal in CLIENTS.items()}


def tool(name):
    return subprocess.run([os.path.join(harness.ROOT, "scripts", "clients"), name], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


class Clients:
    """The same files up and down by three clients."""

    def __init__(self, sides, minio):
        self.sides, self.minio, self.turn = sides, minio, 0
        base = "/dev/shm" if os.path.isdir("/dev/shm") else sides.run.folder
        self.folder = os.path.join(base, os.path.basename(sides.run.folder))
        os.makedirs(self.folder)
        self.g4 = program(sides.args, "g4")
        self.python = os.path.join(tool("python"), "bin", "python")
        self.mc = tool("mc")
        self.home = os.path.join(sides.run.folder, "mc")
        self.mc_run("alias", "set", "store", minio.url, harness.ACCESS, harness.SECRET)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def mc_run(self, *argv):
        """CPU seconds of one mc."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([self.mc, "--config-dir", self.home, "--quiet", *argv],
                              stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: mc {argv[0]} failed")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def files(self, size):
        """Files of random bytes, and their number."""
        part = 8 if self.sides.args.quick else 1
        count = max(8, min(CPU_BYTES // size, COUNT_MAX) // part)
        folder = os.path.join(self.folder, f"in{size}")
        os.makedirs(folder)
        rng = random.Random(size)
        for number in range(count):
            with open(os.path.join(folder, f"{number:06}"), "wb") as out:
                out.write(rng.randbytes(size))
        return folder, count

    def work(self, client, verb, folder, prefix, count):
        """CPU seconds a GB."""
        if client == "mc":
            # What a start costs is not the work's: an empty listing is taken off.
            idle = self.mc_run("ls", "store/kvtier/none/")
            pair = [folder + "/", f"store/kvtier/{prefix}/"]
            spent = self.mc_run("cp", "--recursive", *(pair if verb == "up" else pair[::-1])) - idle
            return max(spent, 1e-6) / (count * os.path.getsize(os.path.join(folder, "000000"))) * 1e9
        argv = [verb, self.minio.url, "kvtier", harness.ACCESS, harness.SECRET, folder, prefix,
                str(count), str(STEADY)]
        if client == "bare":
            argv[:2], argv[-1] = [f"bare-{verb}", str(port(self.minio))], "1"
        script = os.path.join(harness.ROOT, "bench", "g4", "boto3_crt.py")
        head = [self.python, script] if client.startswith("boto3") else [self.g4]
        done = subprocess.run([*head, *argv], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: {client} {verb} failed")
        _, moved, spent = done.stdout.split()
        return float(spent) / int(moved) * 1e9

    def one(self, client, verb, size, source, count):
        self.turn += 1
        if verb == "up":
            return self.work(client, verb, source, f"{size}-{self.turn}", count)
        folder = os.path.join(self.folder, f"out{self.turn}")
        os.makedirs(folder)
        spent = self.work(client, verb, folder, f"{size}-from", count)
        names = [f"{number:06}" for number in range(count)]
        same, _, _ = filecmp.cmpfiles(source, folder, names, shallow=False)
        if len(same) != count:
            raise SystemExit(f"bench: {client} brought {count - len(same)} files back wrong")
        shutil.rmtree(folder)
        return spent


def measure_cpu(args):
    with Sides(args, "g4-cpu") as sides:
        minio = sides.run.minio().start()
        sides.run.client(minio).create_bucket()
        clients = Clients(sides, minio)
        try:
            for size in SIZES:
                source, count = clients.files(size)
                clients.work("libg4", "up", source, f"{size}-from", count)
                for verb in VERBS:
                    for client in CLIENTS:
                        bare = []

                        def ours():
                            bare.append(clients.one("bare", verb, size, source, count))
                            return clients.one("libg4", verb, size, source, count)
                        pairs = sides.interleaved(
                            ours, lambda: clients.one(client, verb, size, source, count))
                        least = [floor / theirs for floor, (_, theirs) in zip(bare, pairs)]
                        yield CPU_ROWS[size, verb, client].line(
                            "g4-cpu", pairs, bare=statistics.median(bare),
                            bare_ratio=round(statistics.median(least), 4))
                shutil.rmtree(source)
        finally:
            clients.close()


CONDITIONAL_ROWS = {size: Row(f"conditional PUT of {words(size)}, one in flight, p50", "us",
                              "a plain PUT of the same size", "<= 1.1") for size in SIZES}


def measure_conditional(args):
    with Sides(args, "g4-conditional") as sides:
        minio = sides.run.minio().start()
        sides.run.client(minio).create_bucket()
        for size, row in CONDITIONAL_ROWS.items():
            count = max(10, min(CPU_BYTES // size, 400) // (8 if args.quick else 1))
            pairs = []
            for number in range(sides.pairs):
                done = subprocess.run([program(args, "g4"), "conditional", minio.url, "kvtier",
                                       harness.ACCESS, harness.SECRET, "-", f"{size}-{number}",
                                       str(count), str(size)], stdout=subprocess.PIPE, text=True,
                                      check=False)
                if done.returncode != 0:
                    raise SystemExit("bench: bench_g4 conditional failed")
                pairs.append(tuple(map(float, done.stdout.split()[1:])))
            yield row.line("g4-conditional", pairs)


class Counter:
    """A proxy in front of a store that counts the requests it passes on, by method; apart from them
    those whose target does not name `prefix`: looks at whether the store is there."""

    def __init__(self, upstream):
        self.upstream, self.lock, self.prefix = upstream, threading.Lock(), "?"
        self.counts, self.others = collections.Counter(), 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.upstream))
            threading.Thread(target=self.requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self.answers, args=(server, client), daemon=True).start()

    @staticmethod
    def answers(server, client):
        while data := server.recv(1 << 18):
            client.sendall(data)
        client.close()

    def requests(self, client, server):
        """Heads are read, bodies of the length they say are passed on."""
        lines = client.makefile("rb")
        while first := lines.readline():
            head, length = [first], 0
            while (line := lines.readline()) not in (b"\r\n", b""):
                head.append(line)
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                if line.lower().startswith(b"transfer-encoding:"):
                    raise SystemExit("bench: the counting proxy met a chunked body")
            method, target = first.decode().split()[:2]
            with self.lock:
                if self.prefix in target:
                    self.counts[method] += 1
                else:
                    self.others += 1
            server.sendall(b"".join([*head, b"\r\n"]))
            while length > 0:
                data = lines.read(min(length, 1 << 18))
                length -= len(data)
                server.sendall(data)
        server.shutdown(socket.SHUT_WR)

    def count(self, prefix, work):
        """(requests of `prefix` by method, others) while work() runs."""
        with self.lock:
            self.prefix, self.counts, self.others = prefix, collections.Counter(), 0
        work()
        with self.lock:
            return self.counts, self.others


FIVE = "KVBM's five requests a block"
REQUEST_ROWS = [Row("requests a new block of 512 KiB, libg4 to MinIO", "requests", FIVE, "<= 0.2"),
                Row("requests a new block of 512 KiB, gateway (write-through) to MinIO", "requests",
                    FIVE, "<= 0.2")]


def measure_requests(args):
    size, count = 512 * 1024, 128 if args.quick else 512
    with Sides(args, "g4-requests") as sides:
        nats, minio = sides.servers()
        counter = Counter(port(minio))
        through = sides.run.gateway(nats, s3_server=counter, hot_capacity=8 << 30).start()
        folder = os.path.join(sides.run.folder, "files")
        os.makedirs(folder)
        for number in range(count):
            with open(os.path.join(folder, f"{number:06}"), "wb") as out:
                out.write(os.urandom(size))

        def libg4(prefix):
            done = subprocess.run([program(args, "g4"), "up", counter.url, "kvtier", harness.ACCESS,
                                   harness.SECRET, folder, prefix, str(count), str(STEADY)],
                                  stdout=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                raise SystemExit("bench: bench_g4 up failed")

        def gateway(prefix):
            sides.ask("put", through.front, "kvtier", harness.ACCESS, harness.SECRET, prefix, size,
                      count, count, STEADY)
        for row, store in zip(REQUEST_ROWS, (libg4, gateway)):
            pairs, seen, others = [], collections.Counter(), 0
            for turn in range(3):
                prefix = f"{store.__name__}-{turn}"
                counts, beside = counter.count(prefix, lambda: store(prefix))
                seen, others = seen + counts, others + beside
                pairs.append((sum(counts.values()) / count, KVBM_REQUESTS))
            yield row.line("g4-requests", pairs, requests=dict(seen), others=others, blocks=3 * count)


BENCHES = {
    "g4-cpu": Bench(list(CPU_ROWS.values()), measure_cpu),
    "g4-conditional": Bench(list(CONDITIONAL_ROWS.values()), measure_conditional),
    "g4-requests": Bench(REQUEST_ROWS, measure_requests),
}
