"""Drives the ZMQ event publisher of vLLM or SGLang, alone (see driver.py).

    PYTHONPATH=<tools> python3.11 engine.py FOLDER

FOLDER is where scripts/producers put the engine's kv_events.py.  What that file imports of the rest of
the engine is stood in for below: a logger, a settings class, three helpers for addresses.
"""

import asyncio
import dataclasses
import importlib.util
import logging
import os
import sys
import threading
import time
import types

import zmq

from driver import Driver, signed


def stand_in(name, **members):
    for end in range(name.count(".") + 1):
        part = ".".join(name.split(".")[:end + 1])
        if part not in sys.modules:
            sys.modules[part] = types.ModuleType(part)
            sys.modules[part].__path__ = []
    for key, value in members.items():
        setattr(sys.modules[name], key, value)


def settings_class():
    names = ("enable_kv_cache_events", "publisher", "endpoint", "replay_endpoint", "buffer_steps", "hwm",
             "max_queue_size", "topic")
    return dataclasses.make_dataclass("KVEventsConfig", [(name, object, None) for name in names])


def stay_on_loopback():
    """`tcp://*:PORT` is what engines are told, and what makes them bind; here it is 127.0.0.1."""
    bind = zmq.Socket.bind
    zmq.Socket.bind = lambda self, address: bind(self, address.replace("//*:", "//127.0.0.1:"))


def load(folder):
    for name, path in (("vllm", "vllm/distributed/kv_events.py"),
                       ("sglang", "sglang/srt/disaggregation/kv_events.py")):
        path = os.path.join(folder, path)
        if os.path.exists(path):
            break
    else:
        raise SystemExit(f"no kv_events.py under {folder}")
    if name == "vllm":
        stand_in("vllm.config.kv_events", KVEventsConfig=settings_class())
        stand_in("vllm.logger", init_logger=logging.getLogger)
        stand_in("vllm.utils.network_utils", get_ip=lambda: "127.0.0.1",
                 get_tcp_uri=lambda host, port: f"tcp://{host}:{port}",
                 is_valid_ipv6_address=lambda host: ":" in host,
                 split_zmq_path=lambda path: ("tcp", *path[6:].rsplit(":", 1)))
        stand_in("vllm.v1.core.kv_cache_utils", ExternalBlockHash=bytes | int)
    else:
        stand_in("sglang.srt.runtime_context", get_parallel=lambda: None)
        stand_in("sglang.srt.utils.network", NetworkAddress=object)
        stand_in("pydantic", BaseModel=object)
    spec = importlib.util.spec_from_file_location(f"{name}_kv_events", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return name, module


class Engine(Driver):
    def __init__(self, folder):
        super().__init__()
        self.name, self.module = load(folder)
        self.publishers = {}

    def do_open(self, endpoint, name="p", rank=0, replay=None, buffer_steps=10000, topic=""):
        more = {"data_parallel_rank" if self.name == "vllm" else "attn_dp_rank": rank}
        # The publisher adds its rank to the port.
        self.publishers[name] = self.module.ZmqEventPublisher(
            endpoint=endpoint, replay_endpoint=replay, buffer_steps=buffer_steps, topic=topic, **more)

    def do_broker(self, xsub, xpub):
        """Dynamo's ZMQ broker: whatever comes in at one port goes out at the other."""
        context = zmq.Context.instance()
        front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
        front.bind(f"tcp://127.0.0.1:{xsub}")
        back.bind(f"tcp://127.0.0.1:{xpub}")
        threading.Thread(target=zmq.proxy, args=(front, back), daemon=True).start()

    def do_publish(self, events, name="p", rank=None):
        """One batch.  An event is {"tag", fields of the engine's class..}; hashes are integers, or
        {"hex": ..} for the engine's hashes that are bytes."""
        batch = self.module.KVEventBatch(ts=time.time(), events=[self.event(**e) for e in events])
        if rank is not None:
            for field in ("data_parallel_rank", "attn_dp_rank"):
                if hasattr(batch, field):
                    setattr(batch, field, rank)
        self.publishers[name].publish(batch)

    def event(self, tag, **fields):
        fields = {key: self.value(key, value) for key, value in fields.items()}
        return getattr(self.module, tag)(**fields)

    def value(self, key, value):
        if isinstance(value, dict) and "hex" in value:
            return bytes.fromhex(value["hex"])
        if key == "extra_keys" and value is not None:
            return [None if keys is None else
                    tuple(tuple(one) if isinstance(one, list) else one for one in keys) for keys in value]
        if isinstance(value, list):
            return [self.value("", one) for one in value]
        if key == "parent_block_hash" and self.name == "sglang":
            return signed(value)
        return value

    def do_close(self, name="p"):
        self.publishers.pop(name).shutdown()


if __name__ == "__main__":
    stay_on_loopback()
    asyncio.run(Engine(sys.argv[1]).serve({}))
