"""Real processes on free loopback ports, and the bookkeeping of a scenario.

A scenario is a Python file with `def scenario(run)` that ends in `harness.main(scenario)`.  Each
`with run.case("name"):` is one counted case: an exception inside it is that case's failure, and the
scenario goes on.  The last line printed is `N passed, N failed, N skipped`; the exit code says the same.

Every process dies with the scenario, whatever happens to it.  Logs stay when something failed.
"""

import argparse
import atexit
import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

import s3

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ACCESS, SECRET = "kvtier-test", "kvtier-test-secret"
REAL_TRACE = os.path.join(ROOT, "..", "shared", "traces", "conversation_trace.jsonl")


class Failure(Exception):
    """What a case says when it does not hold."""


def expect(condition, text):
    if not condition:
        raise Failure(text() if callable(text) else text)


def expect_same(left, right, left_name, right_name, limit=5):
    """Two sets are equal, or the message says how much of which differs."""
    left, right = set(left), set(right)
    if left != right:
        only_left, only_right = sorted(left - right), sorted(right - left)
        raise Failure(f"{left_name} has {len(left)}, {right_name} has {len(right)}; "
                      f"only in {left_name}: {len(only_left)} {only_left[:limit]}; "
                      f"only in {right_name}: {len(only_right)} {only_right[:limit]}")


class Process:
    """A program with fixed arguments that can be started, killed and started again."""

    def __init__(self, run, name, argv, env=None, ready=None):
        self.run, self.name, self.argv, self.ready = run, name, argv, ready
        self.env = {**os.environ, **(env or {})}
        self.log = os.path.join(run.folder, f"{name}.log")
        self.child = None
        self.starts = 0

    def start(self, wait=True, seconds=30):
        with open(self.log, "ab") as log:
            # setpriv: the kernel kills the child if this process dies without cleaning up.
            self.child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.argv],
                                          env=self.env, cwd=self.run.folder, stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log)
        self.starts += 1
        if wait:
            self.wait_ready(seconds)
        return self

    def wait_ready(self, seconds=30):
        if self.ready is None:
            return
        deadline = time.monotonic() + seconds * self.run.slow
        why = "never asked"
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                raise Failure(f"{self.name} ended with {self.child.returncode} before it was ready: "
                              f"{self.tail()}")
            why = self.ready()
            if why is None:
                return
            time.sleep(0.03)
        raise Failure(f"{self.name} is not ready after {seconds * self.run.slow:.0f} s: {why}; "
                      f"{self.tail()}")

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def kill(self):
        """kill -9, and wait until it is gone."""
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                self.child.kill()
            self.child.wait()

    def stop(self, seconds=30):
        """SIGTERM; the exit code.  A process that does not stop is killed and fails the case."""
        self.child.terminate()
        try:
            return self.child.wait(seconds * self.run.slow)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.name} did not stop within {seconds * self.run.slow:.0f} s of SIGTERM")

    def wait(self, seconds):
        """The exit code of a process that ends by itself."""
        try:
            return self.child.wait(seconds * self.run.slow)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.name} hangs: still running after {seconds * self.run.slow:.0f} s; "
                          f"{self.tail()}")

    def tail(self, size=1500):
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, os.path.getsize(self.log) - size))
                return "its log ends: " + log.read().decode(errors="replace").strip()
        except OSError:
            return "it has no log"


class Daemon(Process):
    """One of ours, with an admin port."""

    admin = 0
    front = 0
    token = ""

    def url(self, path):
        return f"http://127.0.0.1:{self.admin}{path}"

    def raw(self, path, body=None, token=None, timeout=20):
        """(status, bytes) of one admin request."""
        request = urllib.request.Request(self.url(path), data=body)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout * self.run.slow) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def ask(self, path, body=None, token=None):
        """The JSON answer of one admin request, which must be 200."""
        status, data = self.raw(path, None if body is None else json.dumps(body).encode(), token)
        expect(status == 200, lambda: f"{self.name} {path}: {status} {data[:300]!r}")
        return json.loads(data)

    def status(self):
        return self.ask("/v1/status")

    def pages(self, path, limit=10000):
        """All rows of a JSON-lines answer that is given in pages."""
        rows, cursor = [], None
        join = "&" if "?" in path else "?"
        while True:
            ask = f"{path}{join}limit={limit}" + ("" if cursor is None else f"&cursor={cursor}")
            status, data = self.raw(ask, timeout=60)
            expect(status == 200, lambda: f"{self.name} {ask}: {status} {data[:300]!r}")
            lines = [json.loads(line) for line in data.splitlines() if line.strip()]
            if lines and "next_cursor" in lines[-1] and "hash" not in lines[-1]:
                cursor = lines.pop()["next_cursor"]
            else:
                cursor = 0
            rows += lines
            if cursor in (0, "", "0", None):
                return rows

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.url("/readyz"), timeout=5) as answer:
                return None if answer.status == 200 else f"/readyz says {answer.status}"
        except urllib.error.HTTPError as error:
            return f"/readyz says {error.code}: {error.read()[:300]!r}"
        except OSError as error:
            return f"/readyz: {error}"

    def is_alive(self):
        try:
            with urllib.request.urlopen(self.url("/livez"), timeout=5) as answer:
                return None if answer.status == 200 else f"/livez says {answer.status}"
        except OSError as error:
            return f"/livez: {error}"


class Run:
    def __init__(self, args, name, quiet=False):
        self.args, self.name, self.quiet = args, name, quiet
        self.seed = args.seed if args.seed is not None else secrets.randbits(32)
        self.rng = random.Random(self.seed)
        self.build = os.path.realpath(args.build)
        with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8") as cache:
            self.sanitized = any(line.startswith("KVT_SANITIZE:") and line.strip()[-1] != "="
                                 for line in cache)
        self.slow = 4 if self.sanitized else 1  # factor on every deadline
        self.folder = tempfile.mkdtemp(prefix=f"kvt-{name}-")
        self.processes = []
        self.ports = set()
        self.passed, self.failed, self.skipped = [], [], []
        self.token = secrets.token_hex(16)
        self.file("token", self.token)
        self.file("orders.key", secrets.token_hex(32))
        self.file("front.cred", f"{ACCESS}:{SECRET}")
        self.file("s3.cred", f"{ACCESS}:{SECRET}")
        self.started = time.monotonic()
        atexit.register(self.close)
        if not quiet:
            print(f"{name}: seed {self.seed}, build {self.build}, folder {self.folder}", flush=True)

    # Cases ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def case(self, name):
        began = time.monotonic()
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: B902 - a case's failure, whatever it is
            self.failed.append(name)
            if isinstance(error, Failure):
                text = str(error)
            else:
                text = "".join(traceback.format_exception(error)).strip()
            print(f"not ok {name} ({time.monotonic() - began:.1f} s): {text}", flush=True)
        else:
            self.passed.append(name)
            print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)

    def skip(self, name, why):
        if os.environ.get("CI") == "true":
            self.failed.append(name)
            print(f"not ok {name}: nothing may be skipped here, but {why}", flush=True)
        else:
            self.skipped.append(name)
            print(f"skipped {name}: {why}", flush=True)

    def note(self, text):
        if not self.quiet:
            print(f"# {time.monotonic() - self.started:6.1f} s  {text}", flush=True)

    def finish(self):
        self.close()
        if self.failed:
            print(f"# logs: {self.folder}", flush=True)
        elif not self.args.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        if not self.quiet:
            print(f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped",
                  flush=True)
        return 1 if self.failed else 0

    def close(self):
        for process in self.processes:
            process.kill()

    # Parts ----------------------------------------------------------------------------------------

    def port(self):
        """A free loopback port, below the range from which the kernel lends ports to clients."""
        while True:
            port = random.SystemRandom().randrange(20000, 32000)
            if port in self.ports:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            self.ports.add(port)
            return port

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            os.chmod(path, 0o600)
            file.write(text)
        return path

    def program(self, name):
        folder = {"kvtier-advisor": "advisor", "kvtier-gateway": "gateway", "kvtier-worker": "worker",
                  "kvtier": "cli"}[name]
        return os.path.join(self.build, folder, name)

    def server(self, name):
        done = subprocess.run([os.path.join(ROOT, "scripts", "servers"), name], check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    def add(self, process):
        self.processes.append(process)
        return process

    def nats(self, name="nats"):
        port = self.port()
        config = self.file(f"{name}.conf", f"""
            listen: "127.0.0.1:{port}"
            jetstream {{ store_dir: "{self.folder}/{name}", max_file_store: 8GB }}
            """)
        process = Process(self, name, [self.server("nats-server"), "-c", config],
                          ready=lambda: connects(port))
        process.url = f"nats://127.0.0.1:{port}"
        return self.add(process)

    def minio(self, name="minio"):
        port = self.port()
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        process = Process(self, name,
                          [self.server("minio"), "server", folder, "--quiet",
                           "--address", f"127.0.0.1:{port}"],
                          env={"MINIO_ROOT_USER": ACCESS, "MINIO_ROOT_PASSWORD": SECRET,
                               "MINIO_BROWSER": "off", "MINIO_CI_CD": "on", "HOME": self.folder},
                          ready=lambda: http_ok(f"http://127.0.0.1:{port}/minio/health/ready"))
        process.url = f"http://127.0.0.1:{port}"
        return self.add(process)

    def versitygw(self, name="versitygw"):
        port = self.port()
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        process = Process(self, name,
                          [self.server("versitygw"), "--port", f"127.0.0.1:{port}", "posix", folder],
                          env={"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET},
                          ready=lambda: connects(port))
        process.url = f"http://127.0.0.1:{port}"
        return self.add(process)

    def client(self, server, bucket="kvtier", access=ACCESS, secret=SECRET):
        """An S3 client of a gateway (its data port), MinIO or versitygw."""
        url = server.url if isinstance(server.url, str) else f"http://127.0.0.1:{server.front}"
        return s3.Client(url, access, secret, bucket, timeout=30 * self.slow)

    def flags(self, settings):
        return [f"--{key.replace('.', '-').replace('_', '-')}={value}" for key, value in settings.items()]

    def daemon(self, program, name, settings, env=None, front=False):
        process = Daemon(self, name, [], env)
        process.admin = self.port()
        merged = {"admin.port": process.admin, "admin.token_file": f"{self.folder}/token"}
        if front:
            process.front = self.port()
            merged["front.port"] = process.front
            merged["front.bind"] = "127.0.0.1"
        merged.update(settings)
        process.settings = merged
        process.argv = [self.program(program), *self.flags(merged)]
        process.ready = process.is_ready
        return self.add(process)

    def advisor(self, nats, name="advisor", env=None, **settings):
        return self.daemon("kvtier-advisor", name, {
            "nats.url": nats.url, "state.dir": f"{self.folder}/{name}",
            "orders.key_file": f"{self.folder}/orders.key", **dotted(settings)}, env)

    def gateway(self, nats, name="gw0", s3_server=None, env=None, **settings):
        if s3_server is not None:
            cold = {"cold.kind": "s3", "s3.endpoint": s3_server.url, "s3.path_style": "true",
                    "s3.credentials_file": f"{self.folder}/s3.cred"}
        else:
            cold = {"cold.kind": "directory", "cold.dir": f"{self.folder}/{name}-cold"}
        return self.daemon("kvtier-gateway", name, {
            "name": name, "nats.url": nats.url, "state.dir": f"{self.folder}/{name}",
            "hot.dir": f"{self.folder}/{name}-hot", "front.credentials_file": f"{self.folder}/front.cred",
            "orders.key_file": f"{self.folder}/orders.key", **cold, **dotted(settings)}, env, front=True)

    def worker(self, nats, gateway, name, trace, env=None, **settings):
        return self.daemon("kvtier-worker", name, {
            "name": name, "nats.url": nats.url, "trace": trace,
            "gateway.endpoint": f"http://127.0.0.1:{gateway.front}",
            "gateway.credentials_file": f"{self.folder}/front.cred",
            "g3.dir": f"{self.folder}/{name}-g3", **dotted(settings)}, env)

    def trace(self):
        """The workload: the real hour when it is at hand, else a generated one of the same size."""
        for path in (self.args.trace, os.environ.get("KVT_TRACE"), REAL_TRACE):
            if path and os.path.exists(path):
                self.note(f"workload: {path}")
                return os.path.realpath(path)
        path = os.path.join(self.folder, "trace.jsonl")
        with open(path, "wb") as out:
            subprocess.run([self.program("kvtier"), "workload", "generate", "--seed", str(self.seed),
                            "--requests", "12000", "--duration", "1h"], check=True, stdout=out)
        self.note("workload: generated (no real trace here), 12000 requests in an hour")
        return path


PLAIN = ("acked_log", "ports_file")  # keys that have an underscore themselves


def dotted(settings):
    """Keyword arguments to keys: hot_capacity -> hot.capacity (the first underscore is the dot)."""
    return {key if "." in key or key in PLAIN else key.replace("_", ".", 1): value
            for key, value in settings.items()}


def connects(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return None
    except OSError as error:
        return str(error)


def http_ok(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return None if answer.status == 200 else str(answer.status)
    except OSError as error:
        return str(error)


def wait_until(condition, seconds, what, every=0.2):
    """Wait until `condition()` is None; its last text is the reason of the failure."""
    deadline = time.monotonic() + seconds
    while True:
        why = condition()
        if why is None:
            return
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds:.0f} s: {why}")
        time.sleep(every)


def main(scenario, options=None):
    """Run one scenario from the command line.  `options(parser)` may add arguments."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="build folder with the programs")
    parser.add_argument("--seed", type=int, default=env_seed(), help="repeat a run (or KVT_SEED)")
    parser.add_argument("--trace", help="workload file (or KVT_TRACE)")
    parser.add_argument("--minutes", type=float, help="minutes of the trace to replay")
    parser.add_argument("--keep", action="store_true", help="keep the folder also after success")
    if options:
        options(parser)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run = Run(parser.parse_args(), name)
    with_failures = False
    try:
        scenario(run)
    except Exception as error:  # noqa: B902 - what no case caught is a failure of its own
        with_failures = True
        run.failed.append("scenario")
        text = str(error) if isinstance(error, Failure) else traceback.format_exc()
        print(f"not ok scenario: {text}", flush=True)
    code = run.finish()
    sys.exit(code or int(with_failures))


def env_seed():
    return int(os.environ["KVT_SEED"]) if os.environ.get("KVT_SEED") else None
