import random
import threading

import bus
import pytest

import kvtier
from kvtier import Block, Location, Publisher, Tier

PLACES = [Location(Tier.G1, "device"), Location(Tier.G2, "host")]


class Listener:
    """What a worker holds by the bytes of its events alone."""

    def __init__(self, url, worker):
        self.nats, self.worker = bus.Nats(url), worker
        self.held, self.next_seq, self.gone = {}, 1, False
        self.arrived = threading.Condition()
        self.nats.subscribe("kvtier.v1.events.>", self.take)
        assert self.nats.flush()

    def take(self, _subject, data):
        version, _space, worker, _life, first, _time, _places, events = bus.unpack(data)
        if worker != self.worker:
            return
        with self.arrived:
            if first < self.next_seq:
                return  # a batch that was not acknowledged in time comes again
            assert version == 1 and first == self.next_seq
            for kind, at, name, *rest in events:
                ranks = rest[4] if len(rest) > 4 else 1
                if kind == 1:
                    self.held[(at, name)] = self.held.get((at, name), 0) | ranks
                elif kind == 2:
                    self.held[(at, name)] &= ~ranks
                    if self.held[(at, name)] == 0:
                        del self.held[(at, name)]
                elif kind == 3:
                    self.held = {key: value for key, value in self.held.items() if key[0] != at}
                else:
                    self.gone = True
            self.next_seq += len(events)
            self.arrived.notify_all()

    def wait(self, next_seq):
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.next_seq >= next_seq, 30)


def dump(url, worker):
    """What it answers when it is asked."""
    nats, cursor, held = bus.Nats(url), 0, {}
    while True:
        page = bus.unpack(nats.request(f"kvtier.v1.query.dump.{worker}", bus.pack([1, cursor, 50])))
        assert page[:2] == [1, 0]
        for _kind, at, name, *rest in bus.unpack(page[3])[7]:
            held[(at, name)] = rest[4] if len(rest) > 4 else 1
        cursor = page[2]
        if cursor == 0:
            nats.close()
            return held


def test_events_and_dump_equal_what_was_said(nats_url, seed):
    rng, truth = random.Random(seed), {}
    listener = Listener(nats_url, "py-random")
    with Publisher(nats_url, "py-random", PLACES, namespace="py", connect_now=True, heartbeat_ms=60000) as publisher:
        for _ in range(3000):
            at, name, ranks = rng.randrange(2), rng.randrange(1, 300), rng.randrange(1, 8)
            what = rng.random()
            if what < 0.6:
                publisher.stored(at, [Block(name, bytes=4096, ranks=ranks)])
                truth[(at, name)] = truth.get((at, name), 0) | ranks
            elif what < 0.995:
                publisher.removed(at, [name], ranks)
                left = truth.pop((at, name), 0) & ~ranks
                if left:
                    truth[(at, name)] = left
            else:
                publisher.cleared(at)
                truth = {key: value for key, value in truth.items() if key[0] != at}
            assert publisher.holds(at, name) == truth.get((at, name), 0)
        publisher.flush(30)
        stats = publisher.stats()
        assert stats.blocks == len(truth) and stats.connected and stats.lost == 0
        listener.wait(stats.next_seq)
        assert listener.held == truth
        assert dump(nats_url, "py-random") == truth
    listener.wait(stats.next_seq + 1)
    assert listener.gone
    listener.nats.close()


def test_a_pool_tells_what_it_holds(nats_url, seed):
    rng = random.Random(seed)
    with Publisher(nats_url, "py-pool", PLACES, connect_now=True) as publisher:
        pool = kvtier.Pool(
            32, order=kvtier.Order.LINEAGE,
            on_store=lambda info: publisher.stored(1, [Block(info.hash, info.parent, info.position, 4096,
                                                             info.prefix_hash, info.tokens_hash)]),
            on_remove=lambda info: publisher.removed(1, [info.hash]))
        for _ in range(60):
            sequence = kvtier.Sequence(4, [rng.randrange(3) for _ in range(40)])
            held = pool.match(sequence.hashes)
            for position in range(len(held), len(sequence.hashes)):
                unique = pool.allocate(1)[0]
                unique.begin()
                unique.complete(sequence.block(position))
                held.append(unique.register())
            for handle in reversed(held):
                handle.drop()
        publisher.flush(30)
        told = dump(nats_url, "py-pool")
        assert len(told) == pool.usage().inactive == publisher.stats().blocks > 0
        assert all(name in pool for _, name in told)
        pool.close()


def test_refusals_are_exceptions(nats_url):
    with pytest.raises(kvtier.Error) as caught:
        Publisher(nats_url, "", PLACES)
    assert caught.value.code == "INVALID"
    with pytest.raises(ValueError):
        Publisher(nats_url, "w", [Location(Tier.G2, "x" * 64)])
    with pytest.raises(ValueError):
        Publisher(nats_url, "a\0b", PLACES)
    with pytest.raises(kvtier.Error) as caught:
        Publisher("nats://127.0.0.1:1", "w", PLACES, connect_now=True)
    assert caught.value.code == "UNAVAILABLE"
    with Publisher(nats_url, "py-refused", PLACES, blocks_max=2) as publisher:
        for blocks, code in (([Block(0)], "INVALID"), ([Block(5, position=9)], "INVALID"),
                             ([Block(1), Block(2), Block(3)], "FULL")):
            with pytest.raises(kvtier.Error) as caught:
                publisher.stored(0, blocks)
            assert caught.value.code == code
        with pytest.raises(kvtier.Error):
            publisher.cleared(2)
        with pytest.raises(OverflowError):
            publisher.stored(0, [Block(1 << 64)])
        assert publisher.stats().blocks == 0
    with pytest.raises(ValueError, match="closed"):
        publisher.stats()
    publisher.close()


def test_nobody_answers_and_nothing_hangs():
    publisher = Publisher("nats://127.0.0.1:1", "py-alone", PLACES)
    publisher.stored(0, [Block(1)])
    with pytest.raises(TimeoutError):
        publisher.flush(0.05)
    assert not publisher.stats().connected
    publisher.close()
