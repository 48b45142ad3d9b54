#!/usr/bin/env python3
"""NVIDIA NIXL's OBJ backend on host memory: write objects, ask for them, read them back, compare.

usage: nixl_obj.py standard|required|crt ENDPOINT BUCKET ACCESS SECRET PREFIX      exit 0: it held

`standard` sends its default checksums in a trailer, `required` a signed length, `crt` goes through the
CRT's client, multipart above 8 MiB.
"""

import os
import sys
import time

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config

SIZES = {"standard": (1, 4096, 65536, 2 << 20), "required": (1, 65536, 2 << 20),
         "crt": (65536, 2 << 20, 20 << 20)}
WAIT_S = 60


def transfer(agent, verb, memory, objects):
    handle = agent.initialize_xfer(verb, memory, objects, agent.name)
    state, end = agent.transfer(handle), time.monotonic() + WAIT_S
    while state == "PROC" and time.monotonic() < end:
        time.sleep(0.001)
        state = agent.check_xfer_state(handle)
    agent.release_xfer_handle(handle)
    if state != "DONE":
        raise SystemExit(f"{verb}: {state}")


def main():
    mode, endpoint, bucket, access, secret, prefix = sys.argv[1:]
    agent = nixl_agent("clients", nixl_agent_config(backends=[]))
    settings = {"access_key": access, "secret_key": secret, "endpoint_override": endpoint,
                "bucket": bucket, "scheme": "http", "region": "us-east-1",
                "use_virtual_addressing": "false"}
    if mode == "required":
        settings["req_checksum"] = "required"
    if mode == "crt":
        settings["crtMinLimit"] = "1"
    agent.create_backend("OBJ", settings)
    sizes = SIZES[mode]
    keys = [f"{prefix}/block:{number}/{size}" for number, size in enumerate(sizes)]
    wanted = [numpy.frombuffer(os.urandom(size), dtype=numpy.uint8).copy() for size in sizes]
    room = [numpy.zeros(size, dtype=numpy.uint8) for size in sizes]
    objects = [(0, size, number, key) for number, (size, key) in enumerate(zip(sizes, keys))]
    registered = agent.register_memory(objects, "OBJ", backends=["OBJ"])
    asked = agent.query_memory([(0, 0, 0, key) for key in keys], "OBJ", mem_type="OBJ")
    if any(answer is not None for answer in asked):
        raise SystemExit(f"query_memory finds what is not there: {asked}")
    for arrays, verb in ((wanted, "WRITE"), (room, "READ")):
        memory = [(array.ctypes.data, array.nbytes, 0, "") for array in arrays]
        host = agent.register_memory(memory, "DRAM", backends=["OBJ"])
        transfer(agent, verb, host.trim(), registered.trim())
        agent.deregister_memory(host, backends=["OBJ"])
    for key, left, right in zip(keys, wanted, room):
        if not numpy.array_equal(left, right):
            raise SystemExit(f"{key} came back as something else")
    asked = agent.query_memory([(0, 0, 0, key) for key in keys], "OBJ", mem_type="OBJ")
    if any(answer is None for answer in asked):
        raise SystemExit(f"query_memory does not find what is there: {asked}")


if __name__ == "__main__":
    main()
