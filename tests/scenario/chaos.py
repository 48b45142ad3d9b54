#!/usr/bin/env python3
"""The main job while its programs are killed with -9, one at a time, and started again."""

import time

import harness
from system import System


def options(parser):
    parser.add_argument("--kills", type=int, help="how many (default 24; 8 under sanitizers)")


def scenario(run):
    minutes = run.args.minutes or (2 if run.sanitized else 10)
    kills = run.args.kills or (8 if run.sanitized else 24)
    system = System(run, minutes)
    # Each kind of program is killed equally often, give or take one, in a random order.
    kinds = [system.advisor, system.gateway, "worker", system.nats, system.minio]
    victims = [kinds[i % len(kinds)] for i in range(kills)]
    run.rng.shuffle(victims)
    with run.case(f"{kills} times kill -9, and the trace is replayed to its end"):
        system.caps.start()
        system.start_workers()
        for victim in victims:
            time.sleep(run.rng.uniform(1.0, 3.5))
            victim = run.rng.choice(system.workers) if victim == "worker" else victim
            down = run.rng.choice([0.0, 0.2, 1.5])
            run.note(f"kill -9 {victim.name}, down for {down} s; %d of %d requests" % system.progress())
            victim.kill()
            time.sleep(down)
            # NATS and MinIO may be away when one of ours comes back: it must start and wait.
            victim.start(wait=victim in (system.nats, system.minio), seconds=60)
        for process in (system.advisor, system.gateway, *system.workers):
            process.wait_ready(60)
        system.wait_finished(600)
        system.settle(120)
        system.caps.stop()
    with run.case("zero wrong bytes"):
        system.check_bytes()
    with run.case("the advisor's index equals what the workers hold"):
        system.check_workers()
    with run.case("bucket, hot volume, catalog and advisor agree"):
        system.check_tiers()
    with run.case("caps are never exceeded by more than a batch"):
        system.check_caps()
    with run.case("no acknowledged PUT is lost"):
        system.check_acknowledged()


if __name__ == "__main__":
    harness.main(scenario, options)
