"""What the tests share: a nats-server of their own, and the client of tests/scenario."""

import os
import secrets
import socket
import subprocess
import sys
import time

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "scenario"))


@pytest.fixture(scope="session")
def seed():
    value = int(os.environ.get("KVT_SEED") or secrets.randbits(32))
    print(f"KVT_SEED={value}")
    return value


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nats")
    server = subprocess.run([os.path.join(ROOT, "scripts", "servers"), "nats-server"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "nats.conf"
    config.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/store", max_file_store: 8GB }}\n')
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([server, "-c", str(config)], stdout=log, stderr=log)
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < deadline and process.poll() is None, "nats-server does not answer"
            time.sleep(0.05)
    yield f"nats://127.0.0.1:{port}"
    process.kill()
    process.wait()
