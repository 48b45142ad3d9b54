"""A line of scripts/bench's output, and what all subjects need to make one."""

import os
import re
import statistics
import subprocess
import sys


class Row:
    """One figure: what is measured, against what, and how good it must be."""

    def __init__(self, what, unit, anchor=None, goal=None, stretch=None):
        self.what, self.unit, self.anchor = what, unit, anchor
        self.goal, self.stretch = goal, stretch

    def line(self, name, pairs, anchor=None, **more):
        """The JSON object of pairs (ours, anchor) that were measured right after each other."""
        ratios = [ours / floor for ours, floor in pairs]
        ratio = statistics.median(ratios)
        return {"name": name, "what": self.what, "ours": statistics.median(p[0] for p in pairs),
                "anchor": statistics.median(p[1] for p in pairs),
                "anchor_name": anchor or self.anchor, "unit": self.unit, "ratio": round(ratio, 4),
                "runs": len(pairs), "ratio_min": round(min(ratios), 4),
                "ratio_max": round(max(ratios), 4), "goal": self.goal, "stretch": self.stretch,
                "holds": holds(self.goal, ratio), **more}


class Bench:
    """One name of scripts/bench: its rows, and measure(args), which yields their lines."""

    def __init__(self, rows, measure):
        self.rows, self.measure = rows, measure


def holds(goal, ratio):
    """Does the ratio meet a goal such as ">= 2.5"?  None without a goal."""
    if goal is None:
        return None
    sign, value = re.fullmatch(r"(>=|<=)\s*([0-9.]+)", goal).groups()
    return ratio >= float(value) if sign == ">=" else ratio <= float(value)


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def program(args, name):
    path = os.path.join(args.build, "bench", f"bench_{name}")
    if not os.path.exists(path):
        raise SystemExit(f"bench: {path} is not built; run cmake --preset release && "
                         "cmake --build --preset release")
    return path


def pairs_of(argv, seconds=900):
    """(ours, anchor) of every "pair" line a bench program prints."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: {os.path.basename(argv[0])} failed with {done.returncode}")
    found = [tuple(map(float, line.split()[1:3])) for line in done.stdout.splitlines()
             if line.startswith("pair ")]
    if not found:
        raise SystemExit(f"bench: {os.path.basename(argv[0])} printed no pair")
    return found
