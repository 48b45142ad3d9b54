#!/usr/bin/env python3
"""The power-cut layer catches programs that forget a sync, and lets a careful one pass.

usage: selftest.py RECORDER.so CARELESS   (KVT_SEED repeats a run)
"""

import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rebuild import Recording  # noqa: E402
from record import Recorder  # noqa: E402

FILES = 20
CUTS = 60


def body(number):
    return bytes([ord("a") + number % 26]) * 5000


def run(recorder_so, careless, mode, work):
    """Store FILES files, remembering when each was acknowledged."""
    recorder = Recorder(recorder_so, work)
    child = subprocess.Popen([careless, recorder.root, mode], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env={**os.environ, **recorder.environment()})
    acknowledged = []
    for number in range(FILES):
        child.stdin.write(b"next\n")
        child.stdin.flush()
        if child.stdout.readline() != b"done %d\n" % number:
            raise RuntimeError(f"{mode}: the store failed at file {number}")
        acknowledged.append(recorder.now())
    child.stdin.close()
    child.wait(10)
    return recorder, acknowledged


def lost_or_torn(recording, acknowledged, rng, work):
    """How many of CUTS cuts lose an acknowledged file, or show one with other bytes."""
    bad = 0
    for number in range(CUTS):
        target = os.path.join(work, f"cut-{number}")
        cut = rng.randint(0, recording.last())
        recording.rebuild(target, cut, None if number % 2 == 0 else rng.getrandbits(32))
        wrong = False
        for index, when in enumerate(acknowledged):
            path = os.path.join(target, str(index))
            if os.path.exists(path):
                with open(path, "rb") as file:
                    wrong |= file.read() != body(index)
            else:
                wrong |= when <= cut
        bad += wrong
    return bad


def main():
    recorder_so, careless = sys.argv[1:3]
    seed = int(os.environ.get("KVT_SEED", random.SystemRandom().getrandbits(32)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    failures = 0
    for mode in ("careful", "no-file-sync", "no-folder-sync", "late-write"):
        with tempfile.TemporaryDirectory(prefix="kvt-powercut-") as work:
            recorder, acknowledged = run(recorder_so, careless, mode, work)
            recording = Recording(recorder.log)
            missed = recording.check_complete(recorder.root)
            bad = lost_or_torn(recording, acknowledged, rng, work)
            ok = not missed and (bad == 0 if mode == "careful" else bad > 0)
            failures += not ok
            print(f"{'ok' if ok else 'FAIL'} {mode}: {bad} of {CUTS} cuts show damage", *missed)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
