#!/usr/bin/env python3
"""The disk tier after power cuts and kills: every block found is whole, none is stale, none that was
acknowledged is missing.

usage: tier.py --build DIR [--cuts N] [--kills N] [--seed S]     (or KVT_SEED)
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rebuild import Recording  # noqa: E402
from record import Recorder  # noqa: E402

BLOCKS, NAMES, STEPS = 10, 14, 120


class Model:
    """What is in which block, as acknowledged, and what the step under way may change."""

    def __init__(self):
        self.blocks = {}     # block -> (name, version)
        self.version = 0

    def step(self, rng):
        """The next line to send, and the blocks it writes: {block: (name, version) or None}."""
        if self.blocks and rng.random() < 0.2:
            block = rng.choice(sorted(self.blocks))
            return f"forget {block}", {block: None}
        change = {}
        taken = set()
        for block in rng.sample(range(BLOCKS), rng.randint(1, 3)):
            name = rng.randint(1, NAMES)
            if name in taken:
                continue
            taken.add(name)
            self.version += 1
            change[block] = (name, self.version)
        words = " ".join(f"{name} {version} {block}" for block, (name, version) in change.items())
        return f"store {words}", change

    def apply(self, change):
        for block, content in change.items():
            if content is None:
                self.blocks.pop(block, None)
            else:
                self.take_name(content[0])
                self.blocks[block] = content

    def take_name(self, name):
        """Nobody is found under it any more: whoever is written over later does not give way to an older one."""
        for block in [block for block, content in self.blocks.items() if content[0] == name]:
            del self.blocks[block]

    def judge(self, found, change):
        """What is wrong with `found` ({name: version}) when `change` was under way; None: nothing."""
        must = {name: version for block, (name, version) in self.blocks.items() if block not in change}
        may = {}
        for block in change:
            for content in (self.blocks.get(block), change[block]):
                if content is not None:
                    may.setdefault(content[0], set()).add(content[1])
        for name, version in found.items():
            if version != must.get(name) and version not in may.get(name, ()):
                return f"{name} is found with version {version}"
            if version < must.get(name, 0):
                return f"{name} is found with version {version}, and {must[name]} was acknowledged"
        missing = sorted(set(must) - set(found))
        return f"{missing} are missing" if missing else None


def check(tier, folder, how):
    done = subprocess.run([tier, folder, "check", how], stdout=subprocess.PIPE, text=True, timeout=60,
                          check=True)
    found = {}
    lines = done.stdout.splitlines()
    if not lines or lines[-1] != "end":
        raise RuntimeError(f"check ended early: {lines}")
    for line in lines[:-1]:
        word, name, *version = line.split()
        if word != "found" or int(name) in found:
            raise AssertionError(line)
        found[int(name)] = int(version[0])
    return found


class Tier:
    def __init__(self, argv, environment=None):
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      env=environment)

    def send(self, line):
        """True when it was acknowledged, False when the process is gone."""
        try:
            self.child.stdin.write(line.encode() + b"\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            return False
        return self.child.stdout.readline() == b"done\n"

    def end(self):
        self.child.stdin.close()
        self.child.wait(30)
        self.child.stdout.close()


def power_cuts(recorder_so, tier, cuts, rng, work):
    recorder = Recorder(recorder_so, work)
    child = Tier([tier, recorder.root, "run", "threads"],
                 {**os.environ, **recorder.environment()})
    model = Model()
    steps = []   # (number before, number after, change)
    for _ in range(STEPS):
        line, change = model.step(rng)
        before = recorder.now()
        if not child.send(line):
            raise RuntimeError(f"the tier failed at {line!r}")
        steps.append((before, recorder.now(), change))
        model.apply(change)
    child.end()
    recording = Recording(recorder.log)
    for number in range(cuts):
        cut = rng.randint(steps[0][0], recording.last())
        torn = None if number % 3 == 0 else rng.getrandbits(32)
        target = os.path.join(work, f"cut-{number}")
        recording.rebuild(target, cut, torn)
        model, under_way = Model(), {}
        for before, after, change in steps:
            if after <= cut:
                model.apply(change)
            elif before < cut:
                under_way = change
        wrong = model.judge(check(tier, target, rng.choice(["verify", "trust"])), under_way)
        if wrong:
            raise AssertionError(f"cut {cut}, torn {torn}: {wrong}")
        for file in os.listdir(target):
            os.unlink(os.path.join(target, file))
        os.rmdir(target)
    return len(steps)


def kills(tier, count, rng, work):
    folder = os.path.join(work, "killed")
    os.makedirs(folder)
    model = Model()
    acknowledged = 0
    for _ in range(count):
        child = Tier([tier, folder, "run", rng.choice(["auto", "threads"])])
        fate = threading.Timer(rng.uniform(0.002, 0.12), child.child.send_signal, (signal.SIGKILL,))
        fate.start()
        change = {}
        while True:
            line, change = model.step(rng)
            if not child.send(line):
                break
            model.apply(change)
            acknowledged += 1
        fate.join()
        child.child.wait(30)
        child.child.stdout.close()
        try:
            child.child.stdin.close()
        except BrokenPipeError:
            pass
        found = check(tier, folder, rng.choice(["verify", "trust"]))
        wrong = model.judge(found, change)
        if wrong:
            raise AssertionError(f"kill: {wrong}")
        # Go on from what is known: the step under way may have come through in part, and a name that it took
        # is no longer found elsewhere.
        subprocess.run([tier, folder, "run", "auto"], check=True, stdout=subprocess.DEVNULL,
                       input="".join(f"forget {block}\n" for block in change), text=True)
        for content in filter(None, change.values()):
            if found.get(content[0]) == content[1]:
                model.take_name(content[0])
        model.apply(dict.fromkeys(change))
    return acknowledged


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cuts", type=int, default=150)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    seed = args.seed
    if seed is None:
        seed = int(os.environ.get("KVT_SEED", random.SystemRandom().getrandbits(48)))
    print(f"KVT_SEED={seed}", flush=True)
    rng = random.Random(seed)
    recorder, tier = (os.path.join(args.build, "tests", "powercut", name)
                      for name in ("powercut_recorder.so", "powercut_tier"))
    failed = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as work:
        for what, play in ((f"{args.cuts} power cuts",
                            lambda: power_cuts(recorder, tier, args.cuts, rng, work)),
                           (f"{args.kills} kills", lambda: kills(tier, args.kills, rng, work))):
            began = time.monotonic()
            try:
                steps = play()
                print(f"ok {what}, {steps} steps acknowledged, {time.monotonic() - began:.1f} s")
            except (AssertionError, RuntimeError, OSError, subprocess.SubprocessError) as wrong:
                print(f"not ok {what}: {wrong}")
                failed += 1
    print(f"{2 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
