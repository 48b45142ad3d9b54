#!/usr/bin/env python3
"""An event plane that misbehaves: servers restart, streams vanish, numbers lie.  The picture ends right."""

import time

import bus
import harness
from harness import expect, wait_until
from publisher import Publisher, differences, places_of

STREAM = "KVTIER_EVENTS"


def options(parser):
    parser.add_argument("--steps", type=int, default=40, help="events' worth of changes between two faults")


class Plane:
    def __init__(self, run, nats, advisor, **kind):
        self.run, self.server, self.advisor = run, nats, advisor
        self.bus = bus.Nats(nats.url)
        self.publishers = [Publisher(self.bus, f"{advisor.name}-w{i}", seed=run.seed, **kind) for i in range(4)]

    def work(self, steps=None):
        for _ in range(steps or self.run.args.steps):
            for publisher in self.publishers:
                publisher.publish(publisher.step())
        self.beat()

    def beat(self):
        for publisher in self.publishers:
            publisher.heartbeat()
        self.bus.flush()

    def wrong(self):
        try:
            return differences(self.advisor, self.publishers)
        except OSError as error:
            return str(error)

    def right(self, seconds=30):
        def check():
            self.beat()
            return self.wrong()

        wait_until(check, seconds * self.run.slow, "the picture is right", every=0.3)

    def connected(self):
        try:
            return None if self.bus.flush(1) else "no answer"
        except OSError as error:
            return str(error)

    def row(self, publisher):
        return next(row for row in self.advisor.ask("/v1/publishers")["publishers"]
                    if row["worker"] == publisher.name)

    def api(self, verb, question=None):
        answer = bus.json_request(self.bus, f"$JS.API.{verb}", question)
        expect(answer and "error" not in answer, f"{verb}: {answer}")
        return answer


def server_faults(run, plane):
    with run.case("NATS restarted under load: nothing is lost, nobody is asked"):
        plane.work()
        plane.right()
        asked = sum(sum(publisher.asked.values()) for publisher in plane.publishers)
        plane.server.kill()
        time.sleep(1)
        plane.server.start()
        wait_until(plane.connected, 20 * run.slow, "our own connection")
        plane.work()
        plane.right()
        expect(sum(sum(publisher.asked.values()) for publisher in plane.publishers) == asked,
               "publishers were asked although the stream kept everything")
    with run.case("the stream purged before it was read: found out, and everybody is asked"):
        plane.advisor.kill()
        plane.work()
        plane.api(f"STREAM.PURGE.{STREAM}")
        plane.work(3)
        plane.advisor.start()
        plane.right()
        expect(all(publisher.asked["range"] + publisher.asked["dump"] > 0 for publisher in plane.publishers),
               "nobody was asked")
    with run.case("its consumers deleted while it reads"):
        plane.work()
        for name in plane.api(f"CONSUMER.NAMES.{STREAM}").get("consumers") or []:
            plane.api(f"CONSUMER.DELETE.{STREAM}.{name}")
        plane.work()
        plane.right(60)
    with run.case("the stream deleted and made anew, numbers from 1: nothing of the old one is trusted"):
        plane.work()
        plane.right()
        config = plane.api(f"STREAM.INFO.{STREAM}")["config"]
        plane.api(f"STREAM.DELETE.{STREAM}")
        for publisher in plane.publishers:
            publisher.lose(2)
        plane.api(f"STREAM.CREATE.{STREAM}", config)
        plane.work()
        plane.right(60)


def number_faults(run, plane):
    with run.case("duplicates and old messages again: applied once"):
        publisher = plane.publishers[0]
        sent = [publisher.commit(publisher.step()) for _ in range(20)]
        for first, data in sent:
            publisher.send(first, data, message_id=False)
        for first, data in run.rng.sample(sent * 3, 40):
            publisher.send(first, data, message_id=False)
        plane.right()
    with run.case("messages out of order"):
        for publisher in plane.publishers:
            sent = [publisher.commit(publisher.step()) for _ in range(30)]
            for at in range(0, len(sent), 3):
                group = sent[at:at + 3]
                run.rng.shuffle(group)
                for first, data in group:
                    publisher.send(first, data)
        plane.right()
    with run.case("lost messages: uncertain is shown while nobody answers, and ends when somebody does"):
        publisher = plane.publishers[1]
        publisher.silent = True
        publisher.lose(5)
        publisher.publish(publisher.step())
        plane.bus.flush()
        wait_until(lambda: None if plane.row(publisher)["state"] == "uncertain" else plane.row(publisher)["state"],
                   10 * run.slow, "it is shown as uncertain")
        expect(plane.advisor.status()["events"]["uncertain"] >= 1, "status does not count it")
        publisher.silent = False
        plane.right()
    with run.case("more was lost than the ring remembers: a dump"):
        publisher = plane.publishers[2]
        dumps = publisher.asked["dump"]
        publisher.lose(10)
        publisher.ring.clear()
        publisher.publish(publisher.step())
        plane.right()
        expect(publisher.asked["dump"] > dumps, "no dump was asked")
    with run.case("a publisher that numbers its events from far ahead, then truly again"):
        publisher = plane.publishers[3]
        data = publisher.batch(1 << 60, [publisher.event(1, 0, 0xBAD, 0, 0)])
        publisher.send(1 << 60, data, message_id=False)
        plane.work(3)
        plane.right(60)
        found = places_of(plane.advisor, {publisher.name})
        expect(all(block != f"{0xBAD:016x}" for block, *_ in found), "what it lied about is believed")
    with run.case("numbers that run backwards are dropped, the truth goes on"):
        publisher = plane.publishers[3]
        publisher.send(1, publisher.batch(1, [publisher.event(2, 0, block, 0, 0)
                                              for _, block in list(publisher.held)[:5]]), message_id=False)
        plane.work(3)
        plane.right()


def life_faults(run, plane):
    with run.case("a new life holds nothing of the old one"):
        plane.publishers[0].rebirth()
        plane.work(3)
        plane.right()
    with run.case("a new life whose clock is behind the old one's"):
        plane.publishers[1].rebirth(clock=-1)
        plane.work(3)
        plane.right(60)
    with run.case("a message of a former life comes late"):
        publisher = plane.publishers[0]
        late = publisher.commit(publisher.step())
        publisher.rebirth()
        plane.work(3)
        publisher.send(*late, message_id=False)
        plane.right(60)
    with run.case("clears, and blocks stored behind them"):
        for publisher in plane.publishers:
            publisher.publish(publisher.clear(0))
            publisher.publish(publisher.step())
        plane.right()
    with run.case("goodbye: all of it goes, the others stay"):
        publisher = plane.publishers.pop()
        publisher.publish([[4, 0, 0, 0, 0, 0, 0, 1, 0]])
        plane.right()
        wait_until(lambda: None if places_of(plane.advisor, {publisher.name}) == set() else "it still holds blocks",
                   20 * run.slow, "the departed worker's blocks are gone")


def scenario(run):
    nats = run.nats().start()
    stream = run.advisor(nats, "stream").start()
    plane = Plane(run, nats, stream)
    server_faults(run, plane)
    number_faults(run, plane)
    life_faults(run, plane)
    with run.case("it is ready, and stops with 0"):
        expect(stream.is_ready() is None, f"{stream.is_ready()}")
        expect(stream.stop() == 0, stream.tail())
    run.note("the same over plain messages")
    core = run.advisor(nats, "core", **{"events.transport": "core"}).start()
    plane = Plane(run, nats, core, acked=False)
    plane.work(3)
    number_faults(run, plane)
    life_faults(run, plane)
    with run.case("core: it is ready, and stops with 0"):
        expect(core.is_ready() is None, f"{core.is_ready()}")
        expect(core.stop() == 0, core.tail())


if __name__ == "__main__":
    harness.main(scenario, options)
