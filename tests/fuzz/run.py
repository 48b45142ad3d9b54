#!/usr/bin/env python3
"""Run every fuzz target for some CPU-minutes, one at a time, with the corpus it has grown so far.

Needs a build for libFuzzer: cmake --preset fuzz && cmake --build --preset fuzz.
What a target found of interest stays in BUILD/fuzz/corpus, what broke it in BUILD/fuzz/crashes.
"""

import argparse
import os
import re
import resource
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STALL = 5  # seconds: less is not worth a start


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--minutes", type=float, default=1, help="CPU-minutes of each target")
    parser.add_argument("--seed", type=int, default=0, help="libFuzzer's; 0: a fresh one")
    parser.add_argument("--only", help="names with this in them")
    return parser.parse_args()


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def fuzz(binary, name, args):
    """CPU seconds, inputs tried, and the output of a run that broke something (or None)."""
    grown = os.path.join(args.build, "fuzz", "corpus", name)
    crashes = os.path.join(args.build, "fuzz", "crashes")
    os.makedirs(grown, exist_ok=True)
    os.makedirs(crashes, exist_ok=True)
    began, inputs = spent(), 0
    while args.minutes * 60 - (spent() - began) > STALL:
        left = int(args.minutes * 60 - (spent() - began)) + 1
        done = subprocess.run(
            [binary, f"-max_total_time={left}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048",
             "-print_final_stats=1", f"-seed={args.seed}", f"-artifact_prefix={crashes}/{name}-",
             grown, os.path.join(HERE, "corpus", name)],
            capture_output=True, text=True, errors="replace", check=False)
        found = re.search(r"stat::number_of_executed_units: *(\d+)", done.stderr)
        inputs += int(found[1]) if found else 0
        if done.returncode != 0:
            return spent() - began, inputs, done.stderr
    return spent() - began, inputs, None


def main():
    args = parse()
    folder = os.path.join(args.build, "tests", "fuzz")
    names = [name for name in sorted(os.listdir(os.path.join(HERE, "corpus")))
             if args.only is None or args.only in name]
    passed = failed = 0
    for name in names:
        binary = os.path.join(folder, f"fuzz_{name}")
        if not os.access(binary, os.X_OK):
            print(f"not ok - {name}: {binary} is missing: cmake --preset fuzz", flush=True)
            failed += 1
            continue
        seconds, inputs, broken = fuzz(binary, name, args)
        verdict = "ok" if broken is None else "not ok"
        print(f"{verdict} - {name}: {seconds / 60:.1f} CPU-minutes, {inputs} inputs", flush=True)
        if broken is not None:
            print("\n".join(broken.splitlines()[-60:]), flush=True)
        passed, failed = passed + (broken is None), failed + (broken is not None)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
