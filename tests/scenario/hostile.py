#!/usr/bin/env python3
"""Everything wrong that others can send, and everything around us that can be missing or full.

Two answers are right: a clear error while the daemon carries on, or a clear exit.  Never a hang."""

import http.client
import json
import os
import re
import socket
import subprocess
import time

import blocks
import bus
from harness import ACCESS, Failure, expect, main, wait_until
from system import MIB

SECONDS = 20  # a start that cannot succeed must have said so by then


# Input ----------------------------------------------------------------------------------------------

def raw_http(port, data, seconds=3):
    """Send bytes, return what comes back until the peer closes or falls silent."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as sock:
        sock.settimeout(seconds)
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while True:
                chunk = sock.recv(65536)
                if not chunk:
                    break
                got += chunk
        except OSError:
            pass
    return got


def rubbish_http(rng):
    yield b"\x00\x01\x02\x03" * 100
    yield b"GET\r\n\r\n"
    yield b"GET / HTTP/9.9\r\n\r\n"
    yield b"GET /" + b"A" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n"
    yield b"POST /v1/match HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n{"
    yield b"POST /v1/match HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n"
    yield b"PUT /kvtier/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n"
    yield b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    yield b"GET /%00%ff%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for _ in range(30):
        yield rng.randbytes(rng.randrange(1, 2000))


def hostile_http(run, daemons):
    for daemon in daemons:
        for port in filter(None, (daemon.admin, daemon.front)):
            with run.case(f"{daemon.name} port {'front' if port == daemon.front else 'admin'}: "
                          "rubbish HTTP"):
                for data in rubbish_http(run.rng):
                    answer = raw_http(port, data)
                    expect(not re.match(rb"HTTP/1\.\d 2", answer), f"{data[:60]!r} gives {answer[:60]!r}")
                    expect(b"root:" not in answer, "a file of this machine came back")
                expect(daemon.is_alive() is None, "it no longer answers")


def hostile_admin(run, advisor, gateway):
    with run.case("advisor: malformed questions are 400 with a code"):
        for path in ("/v1/match", "/v1/find_matches"):
            for body in (b"", b"{", b"[]", b"null", b'{"namespace": 5, "hashes": []}',
                         b'{"namespace": "", "hashes": "no"}', b'{"namespace": "", "hashes": [{}]}',
                         b'{"namespace": "", "hashes": ["xyz"]}', b"\xff\xfe", b"[" * 100000):
                status, data = advisor.raw(path, body)
                expect(400 <= status < 500, f"{path} {body[:40]!r}: {status} {data[:100]!r}")
                expect(json.loads(data)["error"]["code"], f"{path} {body[:40]!r}: no code")
    with run.case("mutating requests need the token"):
        for daemon, path, body in ((advisor, "/v1/policy/mode", {"mode": "off"}),
                                   (gateway, "/v1/verify", {"key": "0/0:x"})):
            for token in (None, "", "wrong", run.token[:-1], run.token + "x"):
                status, _ = daemon.raw(path, json.dumps(body).encode(), token)
                expect(status in (401, 403), f"{path} with token {token!r}: {status}")
    with run.case("foreign Host and Origin are refused"):
        for name, value in (("Host", "evil.example"), ("Origin", "http://evil.example")):
            connection = http.client.HTTPConnection("127.0.0.1", advisor.admin, timeout=10)
            headers = {"Host": f"127.0.0.1:{advisor.admin}", name: value}
            connection.request("GET", "/v1/status", headers=headers)
            status = connection.getresponse().status
            connection.close()
            expect(status in (400, 403, 421), f"{name}: {value} gives {status}")


def hostile_front(run, gateway):
    client = run.client(gateway)
    with run.case("gateway: wrong credentials, signature and time are refused"):
        for access, secret in ((ACCESS, "wrong"), ("nobody", "wrong"), ("", "")):
            stranger = run.client(gateway, access=access, secret=secret)
            expect(stranger.get("0/0:1").status in (400, 403), f"{access!r} may read")
            expect(stranger.put("0/0:1", b"x").status in (400, 403), f"{access!r} may write")
        answer = raw_http(gateway.front, f"GET /kvtier/0/0:1 HTTP/1.1\r\nHost: 127.0.0.1:{gateway.front}"
                                         "\r\n\r\n".encode())
        expect(re.match(rb"HTTP/1\.1 40[03]", answer), f"unsigned: {answer[:60]!r}")
    with run.case("gateway: malformed batches are refused, the connection's next request works"):
        good = blocks.key(run.rng.getrandbits(64))
        body = b"x" * 100
        good_put = b"".join([b"\1\0\0\0", len(good).to_bytes(2, "little"), b"\0\0",
                             blocks.crc32c(body).to_bytes(4, "little"), bytes(8),
                             len(body).to_bytes(8, "little"), good.encode(), body])
        for verb, data in [("put", good_put[:n]) for n in (0, 1, 4, 10, 40, len(good_put) - 1)] + [
                ("put", good_put + b"trailing"), ("put", b"\xff\xff\xff\xff" + good_put[4:]),
                ("get", b"\x01\x00\x00\x00"), ("get", b"\xff\xff\xff\x7f"),
                ("has", b"\x01\x00\x00\x00\xff\xffabc"), ("has", run.rng.randbytes(500)),
                ("nothing", b"\0\0\0\0")]:
            answer = client.request("POST", f"/_kvtier/v1/{verb}/kvtier", body=data, unsigned=True)
            expect(400 <= answer.status < 500 or answer.status == 501,
                   f"{verb} {data[:12]!r}: {answer.status}")
        expect(client.batch_put([(good, body)]) == ["OK"], "a good batch is refused afterwards")
    with run.case("gateway: a body that does not fit its crc is CORRUPT and not stored"):
        key = blocks.key(run.rng.getrandbits(64))
        wrong = b"".join([b"\1\0\0\0", len(key).to_bytes(2, "little"), b"\0\0\x01\x02\x03\x04", bytes(8),
                          (5).to_bytes(8, "little"), key.encode(), b"hello"])
        status = int.from_bytes(client.batch("put", wrong), "little")
        expect(status == 13, f"status {status}")
        expect(client.get(key).status == 404, "it was stored")
    with run.case("gateway: hostile keys stay inside"):
        for key in ("../../../etc/passwd", "a/../../b", "//", "0/0:\0", "a" * 2000, "0/0:" + "1" * 400,
                    "🦀/0/0:x", "0/99999999999999999999:11111111", "..", "."):
            answer = client.get(key)
            expect(answer.status in (400, 404), f"GET {key!r}: {answer.status}")
            expect(client.put(key, b"x").status < 500, f"PUT {key!r}: a server error")
        expect(gateway.is_alive() is None, "it no longer answers")


def batch_bytes(rng, **changes):
    values = {"version": 1, "namespace": "hostile", "worker": "stranger", "incarnation": 7, "first_seq": 1,
              "time_ms": 1, "locations": [[2, 0, "ram"]],
              "events": [[1, 0, rng.getrandbits(64), 0, 4096, 0, 0, 1, 0]], **changes}
    return bus.pack(list(values.values()))


def hostile_events(run, nats, advisor):
    subject = "kvtier.v1.events.hostile.0.stranger"
    with run.case("advisor: malformed event batches are counted, named in the log, and survived"):
        before = advisor.status()["events"]["malformed"]
        good = batch_bytes(run.rng)
        bad = [good[:n] for n in range(0, len(good), 3)]
        bad += [b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91" * 5000, b"{}", run.rng.randbytes(300),
                batch_bytes(run.rng, version=99), batch_bytes(run.rng, events=5),
                batch_bytes(run.rng, events=[[1, 44, 5, 5, 5]]), batch_bytes(run.rng, incarnation="x"),
                batch_bytes(run.rng, worker="w" * 5000)]
        sender = bus.Nats(nats.url)
        for data in bad:
            sender.publish(subject, data)
        sender.publish(subject, batch_bytes(run.rng, events=[[99, 0, 5, 5, 5]]))
        sender.publish("kvtier.v1.events.hostile.0.decent", batch_bytes(run.rng, worker="decent", events=[
            [1, 0, 0xABCDEF, 0xABCDEF, 4096]]))

        def seen():
            count = advisor.status()["events"]["malformed"] - before
            return None if count >= len(bad) else f"{count} of {len(bad)} counted as malformed"

        wait_until(seen, 15 * run.slow, "malformed events are counted")
        wait_until(lambda: None if advisor.raw("/v1/blocks/0000000000abcdef?namespace=hostile")[0] == 200
                   else "the good event behind them is not applied", 15 * run.slow, "good event")
        sender.close()
        with open(advisor.log, encoding="utf-8", errors="replace") as log:
            text = log.read()
        expect(subject in text, "the log does not name the subject of a malformed batch")
        expect(len(text) < 200000, f"{len(text)} bytes of log for {len(bad)} bad messages")
    with run.case("gateway: forged orders are refused"):
        gateway = next(p for p in run.processes if p.name == "gw0")
        refused = gateway.status()["orders"]["refused"]
        sender = bus.Nats(nats.url)
        payload = bus.pack([1, "gw0", "", 1 << 62, 1, 1, 1 << 62, 3, "forged", [[1, 0, 0, 1]]])
        for data in (bus.pack([payload, bytes(32)]), payload, b"", b"\xc1", run.rng.randbytes(200)):
            sender.publish("kvtier.v1.orders.gw0", data)
        sender.close()
        wait_until(lambda: None if gateway.status()["orders"]["refused"] >= refused + 5
                   else f"{gateway.status()['orders']['refused'] - refused} of 5 refused",
                   15 * run.slow, "forged orders")


# Configuration and traces ------------------------------------------------------------------------------

def run_once(run, program, *arguments, env=None, stdin=None):
    """(exit code, stdout, stderr) of a program that must end by itself."""
    try:
        done = subprocess.run([run.program(program), *arguments], env={**os.environ, **(env or {})},
                              stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=SECONDS * run.slow, cwd=run.folder)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{program} {' '.join(arguments)} hangs") from error
    return done.returncode, done.stdout, done.stderr


def hostile_configuration(run):
    for program in ("kvtier-advisor", "kvtier-gateway", "kvtier-worker"):
        with run.case(f"{program}: an unknown key is an error with line and suggestion"):
            path = run.file(f"{program}.yaml", "admin:\n  port: 0\n  prot: 1\n")
            code, out, err = run_once(run, program, "--config", path)
            expect(code == 2, f"exit {code}: {err}")
            expect(f"{path}:3" in err and "admin.port" in err, f"says: {err}")
        with run.case(f"{program}: an unknown flag is an error with a suggestion"):
            code, out, err = run_once(run, program, "--admin-prot=1")
            expect(code == 2 and "admin-port" in err, f"exit {code}: {err}")
        with run.case(f"{program}: malformed YAML names its place"):
            for text in ("admin: [\n", "admin:\n\tport: 0\n", "- a\n- b\n", "admin: {port: many}\n",
                         "admin: {port: 99999999}\n", "\x00\x01", "a: &x [*x]\n",
                         "admin: {port: 1, port: 2}\n"):
                path = run.file(f"{program}.yaml", text)
                code, out, err = run_once(run, program, "--config", path)
                expect(code == 2, f"{text!r}: exit {code}: {err}")
                expect(path in err, f"{text!r}: {err}")
        with run.case(f"{program}: a wrong value in the environment is an error that names it"):
            code, out, err = run_once(run, program, env={"KVTIER_ADMIN_PORT": "many"})
            expect(code == 2 and "KVTIER_ADMIN_PORT" in err, f"exit {code}: {err}")


def hostile_trace(run, nats, gateway):
    lines = ["{", "[]", "null", '{"timestamp": 1}', '{"timestamp": "x", "hash_ids": []}',
             '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, "x"]}',
             '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 7}', "\x01\x02", "[" * 5000]
    good = '{"timestamp": 5, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}'
    with run.case("worker: a bad trace line is an error that names file and line"):
        for number, line in enumerate(lines):
            path = run.file(f"bad{number}.jsonl", f"{good}\n{line}\n{good}\n")
            worker = run.worker(nats, gateway, f"badtrace{number}", path, **{"block.size": 4096,
                                "g2.size": MIB, "g3.size": MIB, "speed": "max"})
            worker.start(wait=False)
            worker.wait(SECONDS)
            with open(worker.log, encoding="utf-8", errors="replace") as log:
                expect(f"{path}:2" in log.read(), lambda: f"{line[:40]!r}: {worker.tail()}")


# Surroundings -------------------------------------------------------------------------------------------

def ends_or_says(run, daemon, words, reason):
    """A start that cannot work: a clear exit, or alive and not ready with the reason."""
    daemon.start(wait=False)
    pattern = re.compile(words, re.IGNORECASE)

    def said():
        with open(daemon.log, encoding="utf-8", errors="replace") as log:
            text = log.read()
        if daemon.child.poll() is not None:
            expect(daemon.child.returncode > 0, f"{reason}: exit {daemon.child.returncode}")
            expect(pattern.search(text), f"{reason}: it ends without saying why: {text[-500:]}")
            return None
        try:
            status, data = daemon.raw("/readyz?verbose", timeout=3)
        except OSError as error:
            return f"running, but no answer: {error}"
        if status == 200:
            return "it claims to be ready"
        return None if pattern.search(data.decode() + text) else f"not ready, but why: {data[:300]!r}"

    wait_until(said, SECONDS * run.slow, reason)


def hostile_start(run, nats, minio):
    with run.case("NATS down at start: not ready, says so, recovers when it comes"):
        late = run.nats("latenats")
        advisor = run.advisor(late, "advisor-late")
        gateway = run.gateway(late, "gwlate")
        ends_or_says(run, advisor, "nats", "advisor without NATS")
        gateway.start(wait=False)
        wait_until(gateway.is_alive, SECONDS * run.slow, "the gateway without NATS is alive")
        late.start()
        for daemon in (advisor, gateway):
            daemon.wait_ready(30)
            expect(daemon.stop() == 0, f"{daemon.name} does not exit 0")
        late.kill()
    with run.case("NATS down at stop: SIGTERM still ends within seconds"):
        late.start()
        advisor.start()
        gateway.start()
        late.kill()
        time.sleep(0.5)
        for daemon in (advisor, gateway):
            daemon.stop(20)
    with run.case("bucket missing"):
        ends_or_says(run, run.gateway(nats, "gwnobucket", minio, bucket="no-such-bucket"), "bucket",
                     "no bucket")
    with run.case("wrong S3 credentials"):
        path = run.file("wrong.cred", f"{ACCESS}:wrong")
        ends_or_says(run, run.gateway(nats, "gwdenied", minio, **{"s3.credentials_file": path}),
                     "denied|credential|not allowed|403|signature", "wrong credentials")
    with run.case("S3 absent"):
        gone = run.minio("minio-gone")  # never started
        ends_or_says(run, run.gateway(nats, "gwnos3", gone), "s3|away|connect|unavailable|refused",
                     "no S3 server")
    for kind in ("advisor", "gateway"):
        with run.case(f"{kind}: port in use is a clear exit"):
            taken = socket.socket()
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            daemon = (run.advisor(nats, "advisor-port", admin_port=port) if kind == "advisor"
                      else run.gateway(nats, "gwport", front_port=port))
            daemon.start(wait=False)
            code = daemon.wait(SECONDS)
            taken.close()
            expect(code == 1, f"exit {code}")
            expect(str(port) in daemon.tail(), f"the port is not named: {daemon.tail()}")
    with run.case("a secret others may read is refused"):
        path = run.file("open.cred", f"{ACCESS}:x")
        os.chmod(path, 0o644)
        gateway = run.gateway(nats, "gwopen", **{"front.credentials_file": path})
        gateway.start(wait=False)
        expect(gateway.wait(SECONDS) in (1, 2), "it accepts the file")
        expect(path in gateway.tail(), f"the file is not named: {gateway.tail()}")


def fill(client, run, rounds, size, count=16):
    """PUT `rounds` batches of `count` until refused; (what was stored, the statuses seen)."""
    stored, seen = [], set()
    for _ in range(rounds):
        batch = [(blocks.key(run.rng.getrandbits(64), namespace="fill"), run.rng.randbytes(size))
                 for _ in range(count)]
        answers = client.batch_put(batch)
        seen |= set(answers)
        stored += [item for item, status in zip(batch, answers) if status == "OK"]
        if "FULL" in seen:
            break
    return stored, seen - {"AGAIN"}  # a slow disk may ask for patience in between


def still_served(client, stored):
    for at in range(0, len(stored), 64):
        part = stored[at:at + 64]
        for (key, body), (status, _crc, got) in zip(part, client.batch_get([k for k, _ in part])):
            expect(status == "OK" and got == body, f"{key}: {status}")


def full_gateway(run, gateway, what):
    with run.case(f"{what}: PUT is refused as FULL, what was stored is served, removal helps"):
        client = run.client(gateway)
        stored, seen = fill(client, run, 400, 32 * 1024)
        expect("FULL" in seen and seen <= {"OK", "FULL"}, f"statuses {seen} after {len(stored)} blocks")
        still_served(client, stored)
        key = blocks.key(run.rng.getrandbits(64))
        answer = client.put(key, b"z" * 32768)
        expect(answer.status in (200, 507, 503), f"S3 PUT when full: {answer.status}")
        expect(gateway.is_alive() is None, "it no longer answers")
        for name, _ in stored[:len(stored) // 2]:
            expect(client.delete(name).status in (200, 204), "cannot delete when full")

        def room():
            got = client.batch_put([(blocks.key(run.rng.getrandbits(64)), run.rng.randbytes(1024))])
            return None if got == ["OK"] else f"still {got}"

        wait_until(room, 20 * run.slow, "room after removals", every=0.5)
        still_served(client, stored[len(stored) // 2:])


def hostile_full(run, nats):
    gateway = run.gateway(nats, "gwcap", hot_capacity=2 * MIB, cold_capacity=8 * MIB).start()
    full_gateway(run, gateway, "cap of the cold tier")
    gateway.stop()
    small = os.path.join(run.folder, "small")
    os.makedirs(small)
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", small], check=False,
        stderr=subprocess.DEVNULL).returncode == 0
    if mounted:
        try:
            gateway = run.gateway(nats, "gwdisk", **{
                "cold.dir": f"{small}/cold", "hot.dir": f"{small}/hot", "hot.capacity": 8 * MIB,
                "state.dir": f"{run.folder}/gwdisk"}).start()
            full_gateway(run, gateway, "full disk under the directory store")
            gateway.stop()
        finally:
            gateway.kill()
            subprocess.run(["umount", "-l", small], check=False)
    else:
        run.skip("full disk", "mounting a small tmpfs needs root")
    with run.case("full catalog: refused, nothing lost, a restart is no different"):
        gateway = run.gateway(nats, "gwmap", catalog_max="16MiB").start()
        client = run.client(gateway)
        stored, seen = fill(client, run, 1000, 64, 1000)
        run.note(f"a catalog of 16 MiB took {len(stored)} blocks")
        expect("FULL" in seen and seen <= {"OK", "FULL"}, f"{seen} after {len(stored)} blocks")
        still_served(client, stored[-500:])
        gateway.kill()
        gateway.start()
        client.close()
        still_served(client, stored[-500:])
        expect(gateway.stop() == 0, "does not stop with 0")
    with run.case("advisor: a full database is a state, and it carries on"):
        crowded = run.nats("crowdednats").start()
        advisor = run.advisor(crowded, "advisor-full", db_max="16MiB").start()
        sender = bus.Nats(crowded.url)
        sequence = 1
        # Nothing goes on from the block before: at least 24 bytes of the log each.
        for _ in range(1200):
            events = [[1, 0, run.rng.getrandbits(64), 0, 4096] for _ in range(1000)]
            sender.publish("kvtier.v1.events.full.0.filler", batch_bytes(
                run.rng, namespace="full", worker="filler", first_seq=sequence, events=events))
            sequence += len(events)

        def said():
            status = advisor.status()
            return None if status["state"] != "ready" and re.search(
                "is full|db.max", " ".join(status["reasons"])) else f"{status['state']} {status['reasons']}"

        wait_until(said, 60 * run.slow, "the advisor says that its database is full")
        expect(advisor.is_alive() is None, "it no longer answers")
        before = advisor.status()["index"]["blocks"]
        advisor.kill()
        advisor.start(wait=False)
        wait_until(advisor.is_alive, SECONDS * run.slow, "it starts again on the full database")
        wait_until(said, 60 * run.slow, "it says so again")
        # A group that was being written when the status was asked may have come to it.
        after = advisor.status()["index"]["blocks"]
        expect(after >= before > 0, f"blocks it knew are gone: {after} of {before}")
        sender.close()
        expect(advisor.stop() == 0, "does not stop with 0")


def scenario(run):
    nats, minio = run.nats().start(), run.minio().start()
    run.client(minio).create_bucket()
    hostile_configuration(run)
    gateway = run.gateway(nats).start()
    advisor = run.advisor(nats).start()
    hostile_http(run, (advisor, gateway))
    hostile_admin(run, advisor, gateway)
    hostile_front(run, gateway)
    hostile_events(run, nats, advisor)
    hostile_trace(run, nats, gateway)
    with run.case("after all that: both daemons are ready and stop with 0"):
        for daemon in (advisor, gateway):
            expect(daemon.is_ready() is None, f"{daemon.name}: {daemon.is_ready()}")
            expect(daemon.stop() == 0, f"{daemon.name}: {daemon.tail()}")
    hostile_start(run, nats, minio)
    hostile_full(run, nats)


if __name__ == "__main__":
    main(scenario)
