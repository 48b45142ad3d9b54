"""Runs the event consolidator of a release of kvbm, without a GPU (see driver.py).

    PYTHONPATH=<its folder>:<tools> LD_LIBRARY_PATH=<NIXL's folders> python3.11 consolidator.py

The consolidator lives in the leader of KVBM's connector, which waits for its workers first.  A worker
needs a GPU; its part of the handshake is played here: it says how many blocks it has, and nothing more
is asked of it.  What the consolidator reads is then the engine's stream alone.
"""

import asyncio
import os
import struct
import subprocess
import sys
import types

import zmq

from driver import Driver

BLOCKS, BLOCK_BYTES = 64, 4096  # of the worker that is not there


def play_worker(pub_port, ack_port):
    """Answer the leader's three questions: what have you, do you take this, are you there."""
    context = zmq.Context.instance()
    questions, answers = context.socket(zmq.SUB), context.socket(zmq.PUSH)
    questions.setsockopt(zmq.SUBSCRIBE, b"")
    questions.connect(f"tcp://127.0.0.1:{pub_port}")
    answers.connect(f"tcp://127.0.0.1:{ack_port}")
    while True:
        number, name, *_ = questions.recv_multipart()
        if name == b"worker_metadata":
            answers.send_multipart([number, name, struct.pack("<QQ", BLOCKS, BLOCK_BYTES)])
        else:
            answers.send_multipart([number])


class Consolidator(Driver):
    def do_open(self, engine, output, block=4, mode="dedup"):
        """Read the engine's stream at `engine`, publish at `output`."""
        # The package's first import is NIXL's Python side, which the consolidator does not use.
        sys.modules["nixl"] = types.ModuleType("nixl")
        sys.modules["nixl"]._api = None
        from kvbm import _core

        pub, ack = (int(os.environ[f"DYN_KVBM_LEADER_ZMQ_{name}_PORT"]) for name in ("PUB", "ACK"))
        # A process of its own: the leader waits for it with the interpreter locked.
        self.worker = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", sys.executable, __file__,
                                        str(pub), str(ack)], stdin=subprocess.DEVNULL)
        self.leader = _core.KvbmLeader(1)
        self.connector = _core._vllm_integration.PyKvConnectorLeader(
            "worker-0", None, block, self.leader, consolidator_vllm_endpoint=engine,
            consolidator_output_endpoint=output, consolidator_mode=mode)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        play_worker(*sys.argv[1:])
    asyncio.run(Consolidator().serve({}))
