#!/usr/bin/env python3
"""The main job: real traffic through workers, JetStream, advisor, gateway and a real MinIO."""

import harness
from system import System


def scenario(run):
    minutes = run.args.minutes or (2 if run.sanitized else 20)
    run.note(f"the first {minutes:g} minutes of the trace, 4 worker processes, 64 KiB blocks")
    system = System(run, minutes)
    with run.case("the trace is replayed to its end"):
        system.caps.start()
        system.start_workers()
        system.wait_finished(600)
        system.settle()
        system.caps.stop()
    with run.case("zero wrong bytes"):
        run.note(f"{system.check_bytes()} blocks were read back and checked")
    with run.case("the advisor's index equals what the workers hold"):
        system.check_workers()
    with run.case("bucket, hot volume, catalog and advisor agree"):
        system.check_tiers()
    with run.case("caps are never exceeded by more than a batch"):
        run.note(f"most used: {system.caps.most}")
        system.check_caps()
    with run.case("every kind of work was done"):
        gateway = system.gateway.status()
        workers = [one for worker in system.workers for one in worker.status()["workers"]]
        work = {"orders executed": gateway["orders"]["executed"],
                "orders seen on the bus": system.orders_seen,
                "hits in G2 and G3": sum(one["hits_g2"] + one["hits_g3"] for one in workers),
                **{name: sum(one[name] for one in workers) for name in (
                    "hits_g4", "computed", "offloaded_g2_g3", "offloaded_g3_g4")}}
        if minutes >= 20:
            work["blocks deleted by order"] = len(system.deleted)
        run.note(str(work))
        idle = [name for name, count in work.items() if not count]
        harness.expect(not idle, f"nothing happened of: {', '.join(idle)}")
    with run.case("every acknowledged PUT is there or was deleted by an order"):
        system.check_acknowledged()
    with run.case("every program stops on SIGTERM with exit 0"):
        for process in (*system.workers, system.gateway, system.advisor):
            code = process.stop()
            harness.expect(code == 0, f"{process.name} exits {code}: {process.tail()}")


if __name__ == "__main__":
    harness.main(scenario)
