"""Drives the event publisher of one release of ai-dynamo-runtime (see driver.py).

    PYTHONPATH=<its folder> python3.11 runtime.py VERSION NAMESPACE.COMPONENT.ENDPOINT

Transport and discovery are the producer's own settings: NATS_SERVER, DYN_EVENT_PLANE, DYN_FILE_KV,
DYN_ZMQ_BROKER_URL, DYN_DISCOVERY_BACKEND.
"""

import asyncio
import os
import sys

from driver import Driver, signed
from dynamo._core import DistributedRuntime, KvEventPublisher, compute_block_hash_for_seq


class Dynamo(Driver):
    def __init__(self, version, endpoint):
        super().__init__()
        self.version = tuple(int(part) for part in version.split("."))
        self.path = endpoint
        self.publishers = {}

    async def run(self):
        loop = asyncio.get_running_loop()
        more = {}
        if self.version >= (1, 1):
            more["event_plane"] = os.environ.get("DYN_EVENT_PLANE")
        self.runtime = DistributedRuntime(loop, os.environ.get("DYN_DISCOVERY_BACKEND", "mem"),
                                          os.environ.get("DYN_REQUEST_PLANE", "tcp"), **more)
        self.endpoint = self.runtime.endpoint(self.path)
        await self.serve({"worker": self.endpoint.connection_id()})

    def do_open(self, name="p", dp_rank=0, block=4, local=True, zmq=None, batching_ms=None):
        """A publisher; with `zmq`, a relay of the engine stream at that address."""
        more = {} if zmq is None else {"zmq_endpoint": zmq, "zmq_topic": ""}
        if batching_ms is not None:
            more["batching_timeout_ms"] = batching_ms
        self.publishers[name] = KvEventPublisher(self.endpoint, kv_block_size=block, dp_rank=dp_rank,
                                                 enable_local_indexer=local, **more)

    def stored(self, tokens, hashes, parent, block, lora, salt, media, eagle):
        event = {"token_ids": tokens, "num_block_tokens": [block] * len(hashes),
                 "block_hashes": [signed(value) for value in hashes], "parent_hash": signed(parent)}
        if lora:
            event["lora_name"] = lora
        if salt:
            event["cache_salt"] = salt
        if eagle:
            event["is_eagle"] = True
        if media:
            event["block_mm_infos"] = [
                {"mm_objects": [{"mm_hash": value, "offsets": [[0, 2], [3, 4]]} for value in values]}
                if values else None for values in media]
        return event

    def do_store(self, tokens, hashes, name="p", parent=None, block=4, lora=None, salt=None, media=None,
                 eagle=False):
        self.publishers[name].publish_stored(
            **self.stored(tokens, hashes, parent, block, lora, salt, media, eagle))

    def do_remove(self, hashes, name="p"):
        self.publishers[name].publish_removed([signed(value) for value in hashes])

    def do_batch(self, events, name="p"):
        """One list of events, as {"store": {..}} and {"remove": {..}}."""
        given = []
        for event in events:
            if "store" in event:
                rest = {"parent": None, "block": 4, "lora": None, "salt": None, "media": None,
                        "eagle": False, **event["store"]}
                given.append({"type": "stored", **self.stored(**rest)})
            else:
                given.append({"type": "removed", "block_hashes":
                              [signed(value) for value in event["remove"]["hashes"]]})
        self.publishers[name].publish_batch(given)

    def do_hash(self, tokens, block=4, lora=None, salt=None, media=None):
        """The producer's own word for what a block is called."""
        infos = media and [{"mm_objects": [{"mm_hash": value, "offsets": [[0, 1]]} for value in values]}
                           if values else None for values in media]
        more = [False, salt] if self.version >= (1, 6) else []
        return {"hashes": compute_block_hash_for_seq(tokens, block, infos or None, lora, *more)}

    def do_close(self, name="p"):
        self.publishers.pop(name).shutdown()


if __name__ == "__main__":
    asyncio.run(Dynamo(sys.argv[1], sys.argv[2]).run())
