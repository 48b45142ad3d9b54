"""Orderings and the simulator that judges them, on the recorded trace and on generated shapes."""

import os
import subprocess

import harness
from rows.row import Bench, Row, program

HITS_GOALS = {1: (38, 44), 5: (58, 62), 10: (79, 82), 20: (94, 96)}
COST_GOALS = {1: 9.6, 5: 6.6, 10: 4.8, 20: 3.0}
GUARD_POINTS = 1
CPU_NS, CPU_NS_STRETCH = 1000, 300
BLOCK_BYTES = 32
READS_PER_S = 1e6
SEEDS = 3
RUNS = 9
KNOWN, KNOWN_QUICK = 20_000_000, 2_000_000
TIER_GIB = 3  # of memory for each of two tiers
PLAN_S, LOOK_S, LOAD_S = 10, 0.05, 60
PLAN_RUNS = 3

HITS = {size: Row(f"conversation, tier of {size} % of its blocks: prefix hits of the default "
                  "ordering", "% of the bound", f"the goal, {goal} %", goal=">= 1",
                  stretch=f">= {stretch / goal:.4f}")
        for size, (goal, stretch) in HITS_GOALS.items()}
COST = {size: Row(f"conversation, hot tier of {size} %: cost a read of the default ordering, "
                  "promotion by price, cold read = 10", "hot reads", f"the goal, {goal}",
                  goal="<= 1")
        for size, goal in COST_GOALS.items()}
GUARD = Row("worst point below lru over all sizes from 1 to 50 %", "points of the bound",
            f"the goal, {GUARD_POINTS} point", goal="<= 1")
CPU = Row("default ordering in the simulator: CPU time a read", "ns", f"the goal, {CPU_NS} ns",
          goal="<= 1", stretch=f"<= {CPU_NS_STRETCH / CPU_NS}")
BYTES = Row("default ordering: memory a known block", "B", f"the goal, {BLOCK_BYTES} B", goal="<= 1")
SPEED = Row("one ordering, one size: reads simulated a CPU second", "reads/s",
            "the goal, 1 M reads/s", goal=">= 1")

PLAN = {"plan_s": Row("20 M known blocks (2 M with --quick), both tiers full: until all that has to go is "
                      "ordered", "s", f"the goal, {PLAN_S} s", goal="<= 1"),
        "longest_look_s": Row("the longest look at all tiers meanwhile", "s",
                              f"the goal, {LOOK_S} s", goal="<= 1"),
        "load_s": Row("reading the blocks at a start", "s", f"the goal, {LOAD_S} s", goal="<= 1"),
        "rerank_s": Row("until both tiers are in the order of another policy", "s",
                        f"the goal, twice {LOAD_S} s", goal="<= 1"),
        "rerank_longest_look_s": Row("the longest look meanwhile", "s", f"the goal, {LOOK_S} s",
                                     goal="<= 1"),
        "memory_bytes": Row("memory of the planner with 20 M known blocks", "B",
                            f"its bound, twice {TIER_GIB} GiB", goal="<= 1")}
PLAN_ANCHORS = {"plan_s": PLAN_S, "longest_look_s": LOOK_S, "load_s": LOAD_S,
                "rerank_s": 2 * LOAD_S, "rerank_longest_look_s": LOOK_S,
                "memory_bytes": 2 * TIER_GIB << 30}


def trace_of(args):
    path = args.trace or os.environ.get("KVT_TRACE") or harness.REAL_TRACE
    if not os.path.exists(path):
        raise SystemExit("bench: a recorded trace is needed; name one with --trace FILE or KVT_TRACE")
    return path


def ask(args, *words):
    done = subprocess.run([program(args, "policy"), *map(str, words)], stdout=subprocess.PIPE,
                          text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: bench_policy {' '.join(map(str, words))} failed")
    return [line.split(" ", 2) if words[0] == "shapes" else line.split()
            for line in done.stdout.splitlines()]


def points(args, *words):
    """{size: figures} of the program's "point" lines."""
    found = {int(row[1]): [float(figure) for figure in row[2:]]
             for row in ask(args, *words) if row and row[0] == "point"}
    if not found:
        raise SystemExit("bench: bench_policy printed no point")
    return found


def measure_hits(args):
    for size, (ours, lru) in points(args, "hits", trace_of(args)).items():
        yield HITS[size].line("policy-hits", [(ours, HITS_GOALS[size][0])], lru=lru)


def measure_cost(args):
    for size, (ours, lru, bound) in points(args, "cost", trace_of(args)).items():
        yield COST[size].line("policy-cost", [(ours, COST_GOALS[size])], lru=lru, bound=bound)


def measure_guard(args):
    """One line a workload; those that are made differ by seed as well."""
    for shape, traced, text in ask(args, "shapes"):
        seeds = 1 if args.quick or shape == "recorded" else SEEDS
        worst = max((lru - ours, size, seed) for seed in range(1, seeds + 1)
                    for size, (ours, lru) in points(args, "guard", trace_of(args), shape,
                                                    seed).items())
        line = GUARD.line("policy-guard", [(round(worst[0], 4), GUARD_POINTS)], size_percent=worst[1],
                          seed=worst[2], workload=text, of_trace=traced == "1")
        line["what"] = f"{shape}: {line['what']}"
        yield line


def cpu_points(args):
    runs = 3 if args.quick else RUNS
    return [next(iter(points(args, "cpu", trace_of(args)).values())) for _ in range(runs)]


def measure_cpu(args):
    found = cpu_points(args)
    yield CPU.line("policy-cpu", [(ns, CPU_NS) for ns, _ in found])
    yield BYTES.line("policy-cpu", [(size, BLOCK_BYTES) for _, size in found])


def measure_simulate(args):
    yield SPEED.line("simulate", [(round(1e9 / ns), READS_PER_S) for ns, _ in cpu_points(args)])


def measure_plan(args):
    runs = []
    for _ in range(1 if args.quick else PLAN_RUNS):
        done = subprocess.run([program(args, "planner"), str(KNOWN_QUICK if args.quick else KNOWN),
                               f"{TIER_GIB}GiB"], stdout=subprocess.PIPE, text=True, timeout=1800,
                              check=False)
        if done.returncode != 0:
            raise SystemExit("bench: bench_planner failed")
        runs.append({name: float(value) for name, value in
                     (line.split() for line in done.stdout.splitlines())})
    for name, row in PLAN.items():
        yield row.line("policy-plan", [(run[name], PLAN_ANCHORS[name]) for run in runs],
                       blocks=int(runs[0]["blocks"]),
                       ordered=int(runs[0]["hot_ordered"] + runs[0]["cold_ordered"]))


BENCHES = {
    "policy-plan": Bench(list(PLAN.values()), measure_plan),
    "policy-hits": Bench(list(HITS.values()), measure_hits),
    "policy-cost": Bench(list(COST.values()), measure_cost),
    "policy-guard": Bench([GUARD], measure_guard),
    "policy-cpu": Bench([CPU, BYTES], measure_cpu),
    "simulate": Bench([SPEED], measure_simulate),
}
