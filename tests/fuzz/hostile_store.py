#!/usr/bin/env python3
"""The S3 store, the batch client and the credentials' requests against a store that lies, for CPU-minutes.

usage: hostile_store.py --build DIR [--minutes N] [--seed S] [--at-once N]     (or KVT_SEED)
"""

import argparse
import os
import re
import subprocess
import sys


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--minutes", type=float, default=1, help="CPU-minutes of all processes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=12, help="processes: each waits for stalls most of its time")
    return parser.parse_args()


def main():
    args = parse()
    binary = os.path.join(args.build, "tests", "unit", "g4", "g4_hostile_store_test")
    seconds = max(1, round(args.minutes * 60 / args.at_once))
    runs = [subprocess.Popen([binary, str(seconds)], env={**os.environ, "KVT_SEED": str(args.seed * 1000 + i)},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            for i in range(args.at_once)]
    passed = failed = 0
    for i, run in enumerate(runs):
        text, _ = run.communicate()
        told = re.search(r"^\d+ requests, .*$", text, re.MULTILINE)
        ok = run.returncode == 0 and told is not None
        print(f"{'ok' if ok else 'not ok'} - seed {args.seed * 1000 + i}, {seconds} CPU-seconds: "
              f"{told[0] if told else 'ended early'}", flush=True)
        if not ok:
            print("\n".join(text.splitlines()[-60:]), flush=True)
        passed, failed = passed + ok, failed + (not ok)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
