#!/usr/bin/env python3
"""A clean clone builds, installs into a prefix, and the installed programs work from there."""

import json
import os
import re
import shutil
import signal
import subprocess


from harness import ROOT, Failure, expect, main, wait_until


def call(argv, seconds, cwd=None, env=None):
    done = subprocess.run(argv, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=seconds)
    expect(done.returncode == 0, f"{' '.join(argv)} exits {done.returncode}: {done.stdout[-1500:]}")
    return done.stdout


def scenario(run):
    clone, prefix = os.path.join(run.folder, "clone"), os.path.join(run.folder, "prefix")
    build = os.path.join(run.folder, "build")
    with run.case("a clean clone builds and installs"):
        call(["git", "clone", "-q", "--no-hardlinks", ROOT, clone], 60)
        call(["cmake", "-S", clone, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
              "-DCMAKE_C_FLAGS=-O1", "-DKVT_TESTS=OFF", f"-DCMAKE_INSTALL_PREFIX={prefix}"], 120)
        call(["cmake", "--build", build], 900)
        call(["cmake", "--install", build], 60)
    bin_ = os.path.join(prefix, "bin")
    with run.case("every installed program answers --version and --help"):
        for name in ("kvtier", "kvtier-worker", "kvtier-advisor", "kvtier-gateway"):
            expect(name.split("-")[0] in call([f"{bin_}/{name}", "--version"], 20), f"{name} --version")
            expect("usage" in call([f"{bin_}/{name}", "--help"], 20).lower(), f"{name} --help")
    with run.case("headers, manual pages, examples and units are installed"):
        found = {os.path.relpath(os.path.join(at, name), prefix)
                 for at, _, names in os.walk(prefix) for name in names}
        for pattern in (r"include/kvtier/event\.h$", r"man1/kvtier\.1", r"\.service$", r"\.yaml$"):
            expect(any(re.search(pattern, name) for name in found), f"nothing installed fits {pattern}")
        for name in found:
            path = os.path.join(prefix, name)
            if not os.path.islink(path) and not name.startswith("bin/"):
                with open(path, "rb") as file:
                    expect(clone.encode() not in file.read(), f"{name} names the source folder")
    shutil.rmtree(build, ignore_errors=True)
    with run.case("kvtier dev and a worker run from the prefix"):
        dev_and_worker(run, bin_)
    with run.case("scripts/demo --quick succeeds from the clone"):
        out = call([os.path.join(clone, "scripts", "demo"), "--quick"], 600, cwd=clone)
        expect(re.search(r"^\s+wrong bytes\s+0$", out, re.MULTILINE), f"wrong bytes: {out[-1500:]}")


def dev_and_worker(run, bin_):
    env = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}:/usr/sbin"}
    state = os.path.join(run.folder, "dev")
    log = os.path.join(run.folder, "dev.log")
    with open(log, "wb") as out:
        dev = subprocess.Popen([f"{bin_}/kvtier", "dev", "--state", state], env=env,
                               stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        def ready():
            with open(log, encoding="utf-8", errors="replace") as lines:
                expect(dev.poll() is None, f"kvtier dev ended: {lines.read()[-1500:]}")
            return None if os.path.exists(f"{state}/dev.json") else "no dev.json yet"

        wait_until(ready, 30, "kvtier dev is ready")
        trace = os.path.join(run.folder, "small.jsonl")
        with open(trace, "wb") as out:
            subprocess.run([f"{bin_}/kvtier", "workload", "generate", "--requests", "200", "--seed", "1"],
                           check=True, stdout=out, env=env)
        report = os.path.join(run.folder, "worker.json")
        call([f"{bin_}/kvtier-worker", "--config", f"{state}/worker.yaml", f"--trace={trace}", "--speed=max", "--block-size=16KiB",
              "--g2-size=1MiB", "--g3-size=2MiB", f"--g3-dir={run.folder}/g3", f"--report={report}",
              "--admin-port=0"], 120, env=env)
        with open(report, encoding="utf-8") as file:
            workers = json.load(file)["workers"]
        expect(sum(w["requests"] for w in workers) == 200, f"requests: {workers}")
        expect(sum(w["wrong_bytes"] for w in workers) == 0, "wrong bytes")
        expect(sum(w["offloaded_g3_g4"] for w in workers) > 0, "nothing reached G4")
    finally:
        dev.send_signal(signal.SIGINT)
        try:
            code = dev.wait(20)
        except subprocess.TimeoutExpired:
            dev.kill()
            raise Failure("kvtier dev does not stop on Ctrl-C") from None
    expect(code == 0, f"kvtier dev exits {code}")



if __name__ == "__main__":
    main(scenario)
