"""The published crate's program, built once into the cache, and processes that take commands."""

import hashlib
import json
import os
import shutil
import subprocess

from rows.row import program, say

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")
NAME = "kvtier-peers"
CRATE = "dynamo-kv-router 1.6.1"


def sources():
    yield os.path.join(SOURCE, "Cargo.toml")
    folder = os.path.join(SOURCE, "src")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".rs"):
            yield os.path.join(folder, name)


def folder_of():
    """Its name follows from all it is built from."""
    total = hashlib.sha256()
    for path in sources():
        with open(path, "rb") as file:
            total.update(os.path.basename(path).encode() + b"\0" + file.read() + b"\0")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "kvtier", "tools", f"peers-{total.hexdigest()[:16]}")


class Missing(SystemExit):
    """What the program is made of is not to be had on this machine."""


def run_cargo(command, *arguments):
    return subprocess.run(["cargo", command, "--manifest-path", os.path.join(SOURCE, "Cargo.toml"),
                           *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def build():
    """Path of the program."""
    folder = folder_of()
    path = os.path.join(folder, NAME)
    if os.path.exists(path):
        return path
    if shutil.which("cargo") is None:
        raise Missing(f"bench: {CRATE} is what our index is measured against, and cargo, which "
                      "builds it, is not in PATH; install Rust 1.87 or newer (rustup, or the "
                      "package cargo of your distribution)")
    say(f"building {CRATE} into {folder} (minutes, once)")
    fetched = run_cargo("fetch")
    if fetched.returncode != 0:
        raise Missing(f"bench: {CRATE} cannot be fetched\n{fetched.stdout}")
    target = f"{folder}.{os.getpid()}"
    done = run_cargo("build", "--release", "--target-dir", target)
    if done.returncode == 0:
        os.makedirs(folder, exist_ok=True)
        os.replace(os.path.join(target, "release", NAME), path)
    shutil.rmtree(target, ignore_errors=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {CRATE} cannot be built\n{done.stdout}")
    return path


class Session:
    """A process that answers each command line with one JSON object."""

    def __init__(self, argv, label):
        self.label = label
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            return json.loads(answer)
        except (BrokenPipeError, ValueError):
            self.close()
            raise SystemExit(f"bench: {self.label} gave no good answer to \"{command}\"") from None

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


OURS, CRTC, RADIX, FLOOR = "ours", "CRTC", "RadixTree", "floor"


def start(args, label):
    """A fresh process for one side."""
    if label in (OURS, FLOOR):
        return Session([program(args, "index")], label)
    return Session([build(), {CRTC: "crtc", RADIX: "radix"}[label]], label)


def same(answers, command):
    """All sides must have made the same workload."""
    sums = {label: (answer["chains"], answer["memberships"], answer["checksum"])
            for label, answer in answers.items()}
    if len(set(sums.values())) != 1:
        raise SystemExit(f"bench: \"{command}\" made different workloads: {sums}")
