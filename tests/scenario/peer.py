#!/usr/bin/env python3
"""The index and the published one, dynamo-kv-router's CRTC, give every worker the same score.

Both are told one story: workers store parts of sequences that share beginnings, and drop them again from
the leaf, which is the order the published index is right in.  What each lookup finds is compared worker
by worker, also with a set of blocks for each worker, which says who is wrong when two differ.
"""

import bisect
import json
import os
import subprocess
import sys

import harness
from harness import expect

sys.path[1:1] = [os.path.join(harness.ROOT, "bench"), os.path.join(harness.ROOT, "tests", "producers")]

import hashes  # noqa: E402
from rows import peer  # noqa: E402

WORKERS = 48
FINDS = 10000
FINDS_A_ROUND = 20
EVENTS_A_ROUND = 24
SEQUENCES = 300
LENGTH_MAX = 64
COMMON = 40  # token hashes that come back in many places

KINDS = ("whole", "half right", "beginning", "missed", "just removed", "longer")


class Sequence:
    """Token hashes from the root on, and the sequence hashes that follow from them."""

    def __init__(self, rng, common, other=None):
        kept = 0 if other is None else rng.randint(1, len(other.locals))
        fresh = rng.randint(1, LENGTH_MAX - kept) if kept < LENGTH_MAX else 0
        self.locals = [] if other is None else other.locals[:kept]
        self.hashes = [] if other is None else other.hashes[:kept]
        more = [rng.choice(common) if rng.random() < 0.3 else rng.getrandbits(64)
                for _ in range(fresh)]
        self.hashes = self.hashes + hashes.chain(more, self.hashes[-1] if kept else None)
        self.locals = self.locals + more


class Worker:
    """What it holds: of each block how many blocks that it also holds follow, and its parent."""

    def __init__(self, number):
        self.number, self.followers, self.parents, self.leaves = number, {}, {}, []

    def depth(self, sequence):
        """Leading blocks of it; what is held is closed towards the root."""
        return bisect.bisect_left(range(len(sequence.hashes)), True,
                                  key=lambda at: sequence.hashes[at] not in self.followers)

    def store(self, sequence, start, end):
        for at in range(start, end):
            block, parent = sequence.hashes[at], sequence.hashes[at - 1] if at else None
            if block in self.followers:
                continue
            self.followers[block], self.parents[block] = 0, parent
            self.leaves.append(block)
            if parent is not None:
                self.followers[parent] += 1

    def remove(self, rng, count):
        """From a leaf towards the root, while nothing else hangs there.  Leaf first."""
        gone = []
        while self.leaves and not gone:
            at = rng.randrange(len(self.leaves))
            self.leaves[at], self.leaves[-1] = self.leaves[-1], self.leaves[at]
            block = self.leaves.pop()
            while block is not None and self.followers.get(block) == 0 and len(gone) < count:
                gone.append(block)
                del self.followers[block]
                block = self.parents.pop(block)
                if block is not None:
                    self.followers[block] -= 1
            if gone and block is not None and self.followers[block] == 0:
                self.leaves.append(block)
        return gone


class Story:
    def __init__(self, run):
        self.rng = run.rng
        self.common = [self.rng.getrandbits(64) for _ in range(COMMON)]
        self.sequences = []
        for _ in range(SEQUENCES):
            other = self.rng.choice(self.sequences) if self.rng.random() < 0.8 and self.sequences else None
            self.sequences.append(Sequence(self.rng, self.common, other))
        self.workers = [Worker(self.rng.getrandbits(53)) for _ in range(WORKERS)]
        self.removed = {}  # sequence hash -> one of its sequences, of what was removed last
        self.of = {block: sequence for sequence in self.sequences for block in sequence.hashes}
        self.wanted, self.kinds, self.stored, self.dropped = [], dict.fromkeys(KINDS, 0), 0, 0
        self.cut = 0  # answers in which somebody holds a part only

    def store(self, file, worker):
        sequence = self.rng.choice(self.sequences)
        start = worker.depth(sequence)
        if self.rng.random() < 0.1:
            start = self.rng.randint(0, start)  # some of it again
        end = self.rng.randint(start, len(sequence.hashes))
        while start < end:
            step = self.rng.choice((1, 1, 4, 16, end - start))
            stop = min(end, start + step)
            pairs = " ".join(f"{sequence.hashes[at]:x} {sequence.locals[at]:x}" for at in range(start, stop))
            parent = sequence.hashes[start - 1] if start else 0
            file.write(f"store {worker.number:x} {parent:x} {start:x} {pairs}\n")
            worker.store(sequence, start, stop)
            self.stored += stop - start
            start = stop

    def remove(self, file, worker):
        gone = worker.remove(self.rng, self.rng.choice((1, 3, 16, LENGTH_MAX)))
        if gone:
            rootward = " ".join(f"{block:x}" for block in reversed(gone))
            file.write(f"remove {worker.number:x} {rootward}\n")
            self.removed[gone[0]] = self.of[gone[0]]
            self.dropped += len(gone)

    def question(self):
        kind = self.rng.choice(KINDS)
        sequence = self.rng.choice(self.sequences)
        if kind == "just removed" and self.removed:
            sequence = self.removed.pop(self.rng.choice(list(self.removed)))
        query = list(sequence.locals)
        if kind == "half right":
            query[len(query) // 2:] = [~value & hashes.MASK for value in query[len(query) // 2:]]
        elif kind == "beginning":
            query = query[:self.rng.randint(1, len(query))]
        elif kind == "missed":
            query[0] = self.rng.getrandbits(64)
        elif kind == "longer":
            query += [self.rng.choice(self.common) for _ in range(self.rng.randint(1, 8))]
        self.kinds[kind] += 1
        return query

    def find(self, file):
        query = self.question()
        file.write("find " + " ".join(f"{value:x}" for value in query) + "\n")
        found, answer = hashes.chain(query), {}
        for worker in self.workers:
            depth = 0
            while depth < len(found) and found[depth] in worker.followers:
                depth += 1
            if depth:
                answer[worker.number] = depth
        self.cut += len(set(answer.values())) > 1
        self.wanted.append(answer)

    def write(self, path):
        with open(path, "w", encoding="ascii") as file:
            while len(self.wanted) < FINDS:
                # It fills, and from time to time nearly everything goes.
                phase = len(self.wanted) // FINDS_A_ROUND % 25
                for _ in range(EVENTS_A_ROUND if phase else 40 * EVENTS_A_ROUND):
                    worker = self.rng.choice(self.workers)
                    if self.rng.random() < (0.7 if phase else 0.05):
                        self.store(file, worker)
                    else:
                        self.remove(file, worker)
                for _ in range(FINDS_A_ROUND):
                    self.find(file)

    def memberships(self):
        return sum(len(worker.followers) for worker in self.workers)


def tell(run, name, argv, path):
    """What this index answers: its own counts, and every worker's score of each lookup."""
    answers = os.path.join(run.folder, f"{name}.answers")
    done = subprocess.run(argv, input=f"story {path} {answers}\n", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120 * run.slow, check=False)
    expect(done.returncode == 0, lambda: f"{name} ended with {done.returncode}: {done.stderr[-500:]}")
    with open(answers, encoding="ascii") as file:
        scores = [{int(worker, 16): int(score) for worker, score in
                   (pair.split("=") for pair in line.split())} for line in file]
    return json.loads(done.stdout), scores


def compare(story, left, right, names):
    wrong = [at for at, (one, other) in enumerate(zip(left, right, strict=True)) if one != other]
    if wrong:
        at = wrong[0]
        workers = [w for w in {**left[at], **right[at]} if left[at].get(w) != right[at].get(w)]
        expect(False, f"{len(wrong)} of {len(left)} lookups differ; number {at}, worker {workers[0]:x}: "
                      f"{names[0]} {left[at].get(workers[0])}, {names[1]} {right[at].get(workers[0])}, "
                      f"its blocks say {story.wanted[at].get(workers[0])}")


def scenario(run):
    cases = ("the index gives every worker the score its blocks say",
             "the published index gives every worker the same score")
    try:
        program = peer.build()
    except peer.Missing as missing:
        for name in cases:
            run.skip(name, str(missing))
        return
    story = Story(run)
    path = os.path.join(run.folder, "story")
    story.write(path)
    run.note(f"{story.stored} blocks stored, {story.dropped} removed, {story.memberships()} left, "
             f"lookups {story.kinds}, {story.cut} with several scores")
    with run.case("the story has all kinds of lookups, and answers that differ by worker"):
        expect(min(story.kinds.values()) > FINDS // 20, f"{story.kinds}")
        expect(story.cut > FINDS // 10, f"only {story.cut} answers have several scores")
        expect(story.dropped > story.stored // 2, f"{story.dropped} of {story.stored} were removed")
    ours = None
    with run.case(cases[0]):
        counts, ours = tell(run, "ours", [os.path.join(run.build, "bench", "bench_index")], path)
        compare(story, ours, story.wanted, ("the index", "blocks"))
        expect(counts == {"finds": FINDS, "memberships": story.memberships()}, f"{counts}")
    with run.case(cases[1]):
        expect(ours is not None, "our index gave no answer")
        counts, theirs = tell(run, "crtc", [program, "crtc"], path)
        compare(story, ours, theirs, ("our index", "CRTC"))
        expect(counts["memberships"] == story.memberships(), f"{counts}")


if __name__ == "__main__":
    sys.exit(harness.main(scenario))
