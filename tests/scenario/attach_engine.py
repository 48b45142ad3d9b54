#!/usr/bin/env python3
"""An engine in Python, for attach.py: attach_engine.py SOCKET SEED ROUNDS.

Serves ROUNDS random prompts of few chains over a worker's tiers, compares every byte it is given, says what
it saw as a line of JSON, and holds some blocks.  Then it steps, until its input ends or the worker does."""

import json
import random
import select
import sys
import time

from kvtier import Attachment, BlockInfo, Error, Sequence

BLOCKS, TOKENS, CHAINS, CHAIN = 48, 4, 24, 16


def chain_of(number, length):
    hashes = Sequence(TOKENS, range(TOKENS * length), salt=f"chain {number}").hashes
    return [BlockInfo(name, hashes[i - 1] if i > 0 else 0, i, hashes[min(i, 7)]) for i, name in enumerate(hashes)]


def content(info, size):
    return info.hash.to_bytes(8, "little") * (size // 8)


class Engine:
    def __init__(self, socket, seed):
        self.attach = Attachment(socket, BLOCKS)
        self.random = random.Random(seed)
        self.given = self.made = 0

    def serve(self):
        infos = chain_of(self.random.randrange(CHAINS), self.random.randint(1, CHAIN))
        size = self.attach.block_bytes
        held, known = self.attach.match([info.hash for info in infos])
        if self.random.random() < 0.3:
            self.attach.prefetch(infos)
        if known > len(held) or self.random.random() < 0.5:
            self.attach.drop(held)
            held = self.attach.onboard(infos)
        for row, info in zip(held, infos):
            if bytes(self.attach.block(row.block)) != content(info, size):
                raise SystemExit(f"wrong bytes in block {info.hash:016x}")
        self.given += len(held)
        rest = infos[len(held):]
        fresh = self.attach.allocate(len(rest))
        for row, info in zip(fresh, rest):
            self.attach.block(row.block)[:] = content(info, size)
        held += self.attach.register(fresh, rest, offload=self.random.random() < 0.9)
        self.made += len(rest)
        self.attach.step()
        return held

    def run(self, rounds):
        for _ in range(rounds):
            held = self.serve()
            self.attach.drop(held)
            if self.random.random() < 0.05:
                self.attach.clear()
        self.attach.drain()
        self.serve()  # and keep it


def main():
    engine = Engine(sys.argv[1], int(sys.argv[2]))
    engine.run(int(sys.argv[3]))
    engine.attach.drain()
    print(json.dumps({"given": engine.given, "made": engine.made, **engine.attach.stats._asdict()}), flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        began = time.monotonic()
        try:
            engine.attach.step()
        except Error as error:
            print(json.dumps({"code": error.code, "seconds": time.monotonic() - began, "lost": engine.attach.lost}),
                  flush=True)
            return
    engine.attach.close()


main()
