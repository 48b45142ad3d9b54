"""A publisher of canonical events that knows what it holds: the truth the advisor is compared with."""

import contextlib
import random
import time

import bus

STORE, REMOVE, CLEAR, BYE = 1, 2, 3, 4
NOT_FOUND = 8  # include/kvtier/error.h
PAGE = 1000


class Publisher:
    """One worker: chains of blocks on several tiers, numbered events, a ring, range and dump.

    `silent` makes it not answer, `lose(n)` uses up the numbers of n events without sending them.
    """

    def __init__(self, nats, name, namespace="sim", seed=0, ring=20000, acked=True):
        self.nats, self.name, self.namespace = nats, name, namespace
        self.rng = random.Random(f"{seed}/{name}")
        self.incarnation = time.time_ns() // 1000
        self.locations = [[2, 0, "ram"], [3, 0, "disk"], [2, 1, "ram"]]
        self.held = {}      # (location, hash) -> event
        self.chains = []    # (location, [hash])
        self.ring, self.ring_max = [], ring
        self.next_seq = 1
        self.acked = acked  # a message id, so that the stream knows repeats
        self.silent = False
        self.asked = {"range": 0, "dump": 0}
        self.batches = []
        self.snapshot = []
        nats.serve(f"kvtier.v1.query.range.{name}", self.on_range)
        nats.serve(f"kvtier.v1.query.dump.{name}", self.on_dump)

    # What happens in it ---------------------------------------------------------------------------

    def event(self, kind, location, block, parent=0, position=0):
        return [kind, location, block, block, 4096, parent, position, 1, 0]

    def step(self):
        """The events of one thing that happens: a chain comes, goes from its end or anywhere."""
        way = self.rng.random()
        if way < 0.6 or not self.chains:
            return self.store_chain()
        location, chain = self.chains.pop(self.rng.randrange(len(self.chains)))
        if way < 0.7:
            self.rng.shuffle(chain)
            keep = self.rng.randrange(len(chain))
            self.chains.append((location, chain[:keep])) if keep else None
            return [self.event(REMOVE, location, block) for block in chain[keep:]]
        return [self.event(REMOVE, location, block) for block in reversed(chain)]

    def store_chain(self):
        location = self.rng.randrange(len(self.locations))
        length = self.rng.randrange(1, 24)
        shared = self.rng.random() < 0.5
        prefix = random.Random(f"prefix/{self.rng.randrange(40)}") if shared else self.rng
        chain, parent, events = [], 0, []
        for position in range(length):
            source = prefix if position < 8 else self.rng
            block = source.getrandbits(64) | 1
            chain.append(block)
            events.append(self.event(STORE, location, block, parent, position))
            parent = block
        self.chains.append((location, chain))
        return events

    def clear(self, location):
        self.chains = [(at, chain) for at, chain in self.chains if at != location]
        return [[CLEAR, location, 0, 0, 0, 0, 0, 1, 0]]

    def note(self, event):
        kind, location, block = event[:3]
        if kind == STORE:
            self.held[(location, block)] = event
        elif kind == REMOVE:
            self.held.pop((location, block), None)
        elif kind == CLEAR:
            for key in [key for key in self.held if key[0] == location]:
                del self.held[key]
        else:
            self.held.clear()

    # What it says ---------------------------------------------------------------------------------

    def batch(self, first_seq, events):
        return bus.pack([1, self.namespace, self.name, self.incarnation, first_seq, int(time.time() * 1000),
                         self.locations, events])

    def commit(self, events):
        """Number the events; returns (first_seq, bytes) of their batch, not yet sent."""
        first = self.next_seq
        for event in events:
            self.note(event)
        self.ring += [(first + i, event) for i, event in enumerate(events)]
        del self.ring[:-self.ring_max]
        self.next_seq += len(events)
        return first, self.batch(first, events)

    def send(self, first_seq, data, message_id=True):
        headers = ({"Nats-Msg-Id": f"{self.name}:{self.incarnation}:{first_seq}"}
                   if message_id and self.acked else None)
        self.nats.publish(f"kvtier.v1.events.{self.namespace}.0.{self.name}", data, headers)

    def publish(self, events):
        self.send(*self.commit(events))

    def lose(self, steps):
        for _ in range(steps):
            self.commit(self.step())

    def heartbeat(self):
        self.send(self.next_seq, self.batch(self.next_seq, []), message_id=False)

    def rebirth(self, clock=1):
        """A new life that holds nothing; `clock` < 0: its clock is behind the old one's."""
        self.incarnation += clock * 1_000_000
        self.held.clear()
        self.chains.clear()
        self.ring.clear()
        self.next_seq = 1

    # What it answers ------------------------------------------------------------------------------

    def on_range(self, question):
        self.asked["range"] += 1
        if self.silent:
            return None
        _, incarnation, first, last = bus.unpack(question)
        events = [event for seq, event in self.ring if first <= seq <= last][:PAGE]
        if incarnation != self.incarnation or not self.ring or self.ring[0][0] > first:
            return bus.pack([1, NOT_FOUND, 0, self.batch(self.next_seq, [])])
        return bus.pack([1, 0, 0, self.batch(first if events else self.next_seq, events)])

    def on_dump(self, question):
        self.asked["dump"] += 1
        if self.silent:
            return None
        _, cursor, limit = bus.unpack(question)
        limit = min(limit, PAGE)
        if cursor == 0:
            self.snapshot = list(self.held.values())
            self.snapshot_seq = self.next_seq - 1
        page = self.snapshot[cursor:cursor + limit]
        following = cursor + limit if cursor + limit < len(self.snapshot) else 0
        return bus.pack([1, 0, following, self.batch(self.snapshot_seq, page)])

    # The truth ------------------------------------------------------------------------------------

    def places(self):
        return {(f"{block:016x}", self.name, self.locations[location][1], f"G{self.locations[location][0]}")
                for location, block in self.held}


def places_of(advisor, names):
    """What the advisor says these workers hold."""
    with contextlib.suppress(ConnectionError):
        return {(row["hash"], row["holder"], row["dp_rank"], row["tier"])
                for row in advisor.pages("/v1/index/dump") if row["holder"] in names}
    return None


def differences(advisor, publishers):
    """None when the advisor's picture of these publishers is right and certain."""
    rows = {row["worker"]: row for row in advisor.ask("/v1/publishers")["publishers"]}
    for publisher in publishers:
        row = rows.get(publisher.name)
        if row is None:
            return f"{publisher.name} is not known"
        if row["state"] != "live":
            return f"{publisher.name} is {row['state']}: {row['last_error']}"
        if row["last_seq"] != publisher.next_seq - 1:
            return f"{publisher.name} is at {row['last_seq']} of {publisher.next_seq - 1}"
    truth = set().union(*(publisher.places() for publisher in publishers))
    found = places_of(advisor, {publisher.name for publisher in publishers})
    if found is None:
        return "it does not answer"
    if found != truth:
        return f"{len(found - truth)} places too many, {len(truth - found)} missing"
    return None
