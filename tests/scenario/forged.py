#!/usr/bin/env python3
"""Messages in other names, from a client without our keys: no picture is wrong without `uncertain`."""

import bus
import harness
from harness import expect, wait_until
from publisher import BYE, CLEAR, REMOVE, STORE
from unruly import Plane

ROUND = 10  # forged messages between two looks


def options(parser):
    parser.add_argument("--messages", type=int, default=1000, help="forged messages")
    parser.add_argument("--steps", type=int, default=3, help="events' worth of changes between two looks")


class Forger:
    """It sees what is published, and publishes what it likes."""

    def __init__(self, run, nats, plane):
        self.rng, self.plane = run.rng, plane
        self.bus = bus.Nats(nats.url)
        self.seen = []
        self.bus.subscribe("kvtier.v1.events.>", lambda _subject, data, *_: self.seen.append(data))
        self.count = 0
        self.kinds = [self.clear, self.bye, self.life, self.far, self.old, self.space, self.volume, self.question,
                      self.nonsense, self.late_beat]

    def batch(self, worker, incarnation, first, events, namespace="sim", locations=None):
        return bus.pack([1, namespace, worker, incarnation, first, 1, locations or worker and self.locations, events])

    def say(self, name, data, namespace="sim"):
        self.bus.publish(f"kvtier.v1.events.{namespace}.0.{name}", data)

    def event(self, kind, block):
        return [kind, 0, block, block, 4096, 0, 0, 1, 0]

    def stores(self, count):
        return [self.event(STORE, self.rng.getrandbits(64) | 1) for _ in range(count)]

    def as_worker(self, events, ahead=0, life=0):
        victim = self.rng.choice(self.plane.publishers)
        self.locations = victim.locations
        first = 1 if life else victim.next_seq + ahead
        self.say(victim.name, self.batch(victim.name, victim.incarnation + life, first, events))

    def clear(self):
        self.as_worker([[CLEAR, 0, 0, 0, 0, 0, 0, 1, 0], *self.stores(49)])

    def bye(self):
        self.as_worker([[BYE, 0, 0, 0, 0, 0, 0, 1, 0]])

    def life(self):
        self.as_worker(self.stores(5), life=1_000_000)

    def far(self):
        self.as_worker(self.stores(2), ahead=self.rng.randrange(1, 1000))

    def late_beat(self):
        self.as_worker([], ahead=-1)

    def old(self):
        for data in self.rng.sample(self.seen, min(3, len(self.seen))):
            self.bus.publish("kvtier.v1.events.sim.0.replay", data)

    def space(self):
        self.locations = [[1, 0, "gpu"]]
        name = f"forged/{self.count}"
        self.say("ghost", self.batch("ghost", 1, 1, self.stores(1), name), "forged")

    def volume(self):
        self.locations = [[4, 0, "hot@gw0"]]
        kind = self.rng.choice([STORE, REMOVE])
        self.say("thief", self.batch(f"thief{self.count}", 1, 1, [self.event(kind, 5)]))

    def question(self):
        verb = self.rng.choice(["find", "match", "dump", "range"])
        self.bus.publish(f"kvtier.v1.query.{verb}", self.rng.randbytes(self.rng.randrange(40)))

    def nonsense(self):
        self.say("nobody", self.rng.randbytes(self.rng.randrange(1, 60)))
        self.bus.publish("_INBOX.forged", self.rng.randbytes(20))

    def go_on(self, messages):
        for _ in range(messages):
            self.count += 1
            self.rng.choice(self.kinds)()
        self.bus.flush()


def scenario(run):
    nats = run.nats().start()
    advisor = run.advisor(nats, "stream").start()
    plane = Plane(run, nats, advisor)
    plane.work()
    plane.right()
    forger = Forger(run, nats, plane)

    def honest():
        plane.beat()
        rows = [plane.row(publisher) for publisher in plane.publishers]
        if any(row["state"] == "uncertain" for row in rows):
            return None
        return plane.wrong()

    with run.case(f"{run.args.messages} forged messages: the picture is never wrong without uncertain"):
        while forger.count < run.args.messages:
            forger.go_on(ROUND)
            plane.work()
            wait_until(honest, 20 * run.slow, "it is right, or says that it is uncertain", every=0.1)
    with run.case("when it is over the picture is right"):
        plane.right(90)
    with run.case("each kind is seen"):
        status = advisor.status()
        rows = advisor.ask("/v1/publishers")["publishers"]
        expect(status["events"]["conflicts"] > 0, f"{status['events']}")
        expect(any(row["conflicts"] > 0 for row in rows), "no worker has a conflict")
        expect(status["events"]["intruders"] > 0, f"{status['events']}")
        expect(status["events"]["malformed"] > 0, f"{status['events']}")
        expect(status["index"]["namespaces"] > 1, f"{status['index']}")
        expect(not status["index"]["namespaces_full"], f"{status['index']}")
        expect(advisor.stop() == 0, advisor.tail())


if __name__ == "__main__":
    harness.main(scenario, options)
