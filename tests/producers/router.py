"""A worker of Dynamo 1.3.1 and a router that keeps a snapshot of what it knows in NATS (see tests/scenario/durable.py).

    PYTHONPATH=<folder of dynamo-1.3.1> NATS_SERVER=... DYN_FILE_KV=... python3.11 router.py

Prints how many blocks were stored in all, each time; SIGTERM ends it when all are in the stream.
"""

import asyncio
import os
import signal

from dynamo._core import DistributedRuntime, KvEventPublisher, KvRouter, KvRouterConfig

BLOCK, THRESHOLD = 4, 5


def store(publisher, hashes, parent=None, first=0):
    publisher.publish_stored(token_ids=list(range(first, first + BLOCK * len(hashes))),
                             num_block_tokens=[BLOCK] * len(hashes), block_hashes=hashes, parent_hash=parent)


async def serve(_request, context=None):
    yield {}


async def main():
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    runtime = DistributedRuntime(loop, "file", "tcp", event_plane="nats")
    endpoint = runtime.endpoint("dyn.backend.generate")
    serving = asyncio.ensure_future(endpoint.serve_endpoint(serve))
    await asyncio.sleep(0.5)
    ranks = [KvEventPublisher(endpoint, kv_block_size=BLOCK, dp_rank=rank, enable_local_indexer=False)
             for rank in range(2)]
    router = KvRouter(endpoint, BLOCK, KvRouterConfig(durable_kv_events=True, router_snapshot_threshold=THRESHOLD))
    store(ranks[0], [1001, 1002, 1003], None, 0)
    store(ranks[0], [2001, 2002], 1002, 100)  # a fork
    store(ranks[0], [2101], 1002, 200)
    store(ranks[1], [-5, 3002, 3003, 3004], None, 300)
    store(ranks[1], [3005], 3004, 400)
    store(ranks[0], [4001], None, 600)
    ranks[0].publish_removed([4001])
    count = 11
    while not stop.is_set():
        store(ranks[count % 2], [9000 + count], None, 9000 + 10 * count)
        count += 1
        print(count, flush=True)
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)
    os._exit(0 if serving and router else 1)


asyncio.run(main())
