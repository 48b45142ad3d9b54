"""Starts the drivers of the producers and speaks with them.  Python's standard library only."""

import contextlib
import json
import os
import queue
import subprocess
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))


class ProducerError(Exception):
    """What a producer or its driver said."""


def ask_script(name):
    done = subprocess.run([os.path.join(ROOT, "scripts", "producers"), name], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ProducerError(f"scripts/producers {name}: {done.stderr.strip()}")
    return done.stdout.strip()


class Producer:
    """One driver process.  `tell` sends a command and returns its answer."""

    def __init__(self, script, arguments, folders, env=None, log=None, seconds=60):
        self.seconds = seconds
        self.name = f"{script} {' '.join(arguments[:1])}"
        path = os.pathsep.join([HERE, *folders])
        self.log = log
        with (open(log, "ab") if log else contextlib.nullcontext(subprocess.DEVNULL)) as errors:
            # setpriv: the kernel kills the driver if we die without cleaning up.
            self.child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", ask_script("python"), "-u",
                 os.path.join(HERE, script), *arguments],
                env={**os.environ, "DYN_LOG": "warn", "PYTHONPATH": path, **LOOPBACK, **(env or {})},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.hello = self.hear()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def hear(self):
        try:
            line = self.lines.get(timeout=self.seconds)
        except queue.Empty:
            raise ProducerError(f"{self.name} does not answer") from None
        if line is None:
            raise ProducerError(f"{self.name} ended with {self.child.wait()}; see {self.log}")
        answer = json.loads(line)
        if not answer["ok"]:
            raise ProducerError(f"{self.name}: {answer['error'].strip()}")
        return answer

    def tell(self, do, **arguments):
        try:
            self.child.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.child.stdin.flush()
        except OSError as error:
            raise ProducerError(f"{self.name} is gone: {error}") from None
        return self.hear()

    def kill(self):
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            with contextlib.suppress(OSError):
                pipe.close()

    __enter__ = lambda self: self  # noqa: E731

    def __exit__(self, *_):
        self.kill()


# Where the producers' own sockets are, which they would otherwise put on every interface.
LOOPBACK = {"DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_EVENT_PLANE_HOST": "127.0.0.1"}


def runtime(version, endpoint, **more):
    return Producer("runtime.py", [version, endpoint], [ask_script(f"dynamo-{version}")], **more)


def engine(name, **more):
    return Producer("engine.py", [ask_script(name)], [ask_script("tools")], **more)


def mocker(version, endpoint, folder, **more):
    return Producer("mocker.py", [version, endpoint, folder], [ask_script(f"dynamo-{version}")], **more)


def consolidator(name, pub_port, ack_port, env=None, **more):
    folder = ask_script(name)
    libraries = os.pathsep.join(os.path.join(folder, part)
                                for part in (".nixl_cu13.mesonpy.libs", "nixl_cu13.libs"))
    return Producer("consolidator.py", [], [folder, ask_script("tools")], env={
        "LD_LIBRARY_PATH": libraries, "DYN_KVBM_LEADER_ZMQ_HOST": "127.0.0.1",
        "DYN_KVBM_LEADER_ZMQ_PUB_PORT": str(pub_port), "DYN_KVBM_LEADER_ZMQ_ACK_PORT": str(ack_port),
        "DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS": "16", "DYN_KVBM_METRICS": "false",
        "DYN_KVBM_LEADER_WORKER_INIT_TIMEOUT_SECS": "20", **(env or {})}, **more)
