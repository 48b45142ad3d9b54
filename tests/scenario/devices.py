#!/usr/bin/env python3
"""Instances of an engine whose ranks have G1 on a device: a CUDA driver without a GPU (tests/unit/kvbm/fake/fake_cuda.c) that
shares memory between processes as a real one does, and crashes whoever takes device memory for the host's."""

import os
import random
import signal
import time

from harness import expect, main, wait_until
from instances import (Killer, engine, expect_nothing_held, expect_right, expect_said_once, served, stopped, write_trace)


def options(parser):
    parser.add_argument("--conversations", type=int, default=24, help="each of 4 turns of 8 blocks")
    parser.add_argument("--kills", type=int, default=4, help="processes killed while the trace is served")


def driver(run, name, library):
    """The environment in which the CUDA driver is `library`; None: one that cannot be loaded."""
    folder = os.path.join(run.folder, name)
    os.mkdir(folder)
    path = os.path.join(folder, "libcuda.so.1")
    if library is None:
        with open(path, "wb"):
            pass
    else:
        os.symlink(library, path)
    return {"LD_LIBRARY_PATH": folder}


def expect_devices(process, *counts):
    """So many ranks of each instance have G1 on a device, as their leaders hear twice a second."""
    def check():
        found = tuple(one["devices"] for one in process.status()["instances"])
        return None if found == counts else f"{found} ranks, not {counts}"

    wait_until(check, 20, f"{process.name} says where G1 is", every=0.1)


def expect_word(process, word, count):
    with open(process.log, encoding="utf-8") as file:
        found = [line for line in file if word in line]
    expect(len(found) == count, f"{len(found)} lines with {word!r}, not {count}: {process.tail()}")


def expect_broadcast(process, status, way, why):
    """All that went to ranks that hold the same went that way, and each instance says why."""
    expect(status["total"][f"broadcast_{way}"] > 0, f"nothing went by {way}: {status['total']}")
    expect(status["total"]["broadcast_ipc"] + status["total"]["broadcast_fabric"]
           == status["total"][f"broadcast_{way}"], f"not all went by {way}: {status['total']}")

    def check():
        said = [one.get("broadcast") for one in process.status()["instances"]]
        well = all(one and one["way"] == way and why in one["why"] for one in said)
        return None if well else f"{said}, not {way}: {why}"

    wait_until(check, 20, f"{process.name} says how blocks go, and why", every=0.1)


class Soon(Killer):
    """Without servers a trace is over soon."""

    pause = (0.1, 0.5)


class Stopper(Soon):
    """Each rank stands still for a while before it is killed: whatever it takes part in is under way."""

    def kill(self, pid):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.05, 0.3))
        os.kill(pid, signal.SIGKILL)


def killed(run, name, killer, trace, requests, **more):
    one = engine(run, name, trace, instances=2, tp=2, gpu="require", **more).start(seconds=60)
    at_work = killer(one, run.args.kills, random.Random(run.seed))
    at_work.thread.start()
    status = served(one, 120)
    at_work.thread.join()
    run.note(f"killed {at_work.killed}: {status['total']}")
    expect(len(at_work.killed) > 0 and status["total"]["lives"] > 2, f"killed {at_work.killed}")
    expect_right(status, requests)
    expect_devices(one, 2, 2)
    expect_nothing_held(one)
    stopped(one)
    return status


def scenario(run):
    rng = random.Random(run.seed)
    fake = {"KVBM_FAKE_CUDA_DEVICES": "3",
            **driver(run, "fake", os.path.join(run.build, "tests/unit/kvbm/libkvbm_fake_cuda.so"))}
    none = driver(run, "none", None)
    trace, requests = write_trace(run, "trace", run.args.conversations, rng)
    with run.case("a device that is required and not there is said once"):
        settings = {"instances": 2, "tp": 2, "gpu": "require", "env": none}
        expect_said_once(run, 0, settings, "cuda: no driver: libcuda.so.1", trace)
    for gpu, env, devices in (("auto", none, 0), ("off", fake, 0), ("auto", fake, 2), ("require", fake, 2)):
        what = "no driver" if env is none else "a driver"
        with run.case(f"gpu={gpu} with {what}: {devices} of 2 ranks have G1 on a device, and every byte is right"):
            one = engine(run, f"{gpu}-{what.replace(' ', '-')}", trace, env=env, instances=2, tp=2, gpu=gpu,
                         **{"instance.roles": "split"})
            status = served(one.start(seconds=60))
            expect_right(status, requests, hops=2)
            expect(status["instances"][1]["hits_peer"] * 4 > status["instances"][1]["blocks"], "nothing was pulled from the other instance")
            expect_devices(one, devices, devices)
            expect_word(one, "G1 is on Fake GPU", 2 * devices)
            for number, ranks in enumerate((2, 1, 1) if devices else (0, 0, 0)):  # in turn
                expect_word(one, f"(device {number} of 3)", ranks)
            expect_word(one, "not_pinned", 0)
            expect_nothing_held(one)
            stopped(one)
    with run.case("host memory that the driver does not pin is said, and every byte is right"):
        one = engine(run, "not-pinned", trace, env={**fake, "KVBM_FAKE_CUDA_FAIL": "cuMemHostRegister_v2"}, instances=2,
                     tp=2, gpu="require")
        expect_right(served(one.start(seconds=60)), requests)
        expect_word(one, "not_pinned", 4)
        stopped(one)
    for function, reason, end in (("cuMemAlloc_v2", "cuda: cuMemAlloc: ", "cannot be started"),
                                  ("cuStreamSynchronize", "the device of G1 has failed", "without a request served")):
        with run.case(f"a device that fails ({function}) serves nothing, and its rank says so"):
            one = engine(run, function, trace, env={**fake, "KVBM_FAKE_CUDA_FAIL": function}, instances=1, tp=2)
            code = one.start(wait=False).wait(60)
            with open(one.log, encoding="utf-8") as file:
                log = file.read()
            expect(code != 0 and reason in log and end in log and "wrong bytes" not in log, f"exit {code}: {log[-2000:]}")
    more, count = write_trace(run, "more", run.args.conversations * 8, rng)
    with run.case("the same while leaders and ranks are killed"):
        killed(run, "killed", Soon, more, count, env=fake)
    for name, env, settings, way, why in (
            ("ipc", fake, {}, "ipc", "all ranks have the device memory of rank 0"),
            ("refused", {**fake, "KVBM_FAKE_CUDA_FAIL": "cuIpcOpenMemHandle_v2"}, {}, "fabric", "cuIpcOpenMemHandle"),
            ("not-shared", {**fake, "KVBM_FAKE_CUDA_FAIL": "cuIpcGetMemHandle"}, {}, "fabric", "cuIpcGetMemHandle"),
            ("not-wanted", fake, {"engine.broadcast": "fabric"}, "fabric", "nothing else is wanted"),
            ("host", none, {}, "fabric", "G1 is no device's memory")):
        with run.case(f"ranks that hold the same ({name}) get blocks by {way}, and say why"):
            one = engine(run, f"same-{name}", trace, env=env, instances=2, tp=2, replicated="true", **settings)
            status = served(one.start(seconds=60))
            expect_right(status, requests)
            expect_broadcast(one, status, way, why)
            expect_nothing_held(one)
            stopped(one)
    with run.case("ranks that hold the same are killed while blocks go from device to device"):
        status = killed(run, "same-killed", Stopper, more, count, env=fake, replicated="true")
        expect(status["total"]["broadcast_ipc"] > 0, f"{status['total']}")


if __name__ == "__main__":
    main(scenario, options)
