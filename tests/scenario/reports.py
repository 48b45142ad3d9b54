#!/usr/bin/env python3
"""Reports that nobody signed, that another gateway signed, that come again or in another order: the
advisor orders nothing by them, and says that they came."""

import os
import secrets
import time

import blocks
import bus
import keys
from harness import expect, main, wait_until
from system import MIB

SIZE = 64 * 1024
COUNT = 100
FULL = 10**6
WAIT_S = 3  # ten looks of the planner


class Bus:
    """Hears what the gateway reports and what the advisor orders, and publishes anything."""

    def __init__(self, nats):
        self.nats = bus.Nats(nats.url)
        self.reports, self.orders = [], []
        self.nats.subscribe("kvtier.v1.reports.>", lambda _subject, data: self.reports.append(data))
        self.nats.subscribe("kvtier.v1.orders.>", lambda subject, data: self.orders.append((subject, data)))

    def publish(self, data, gateway="gw0"):
        self.nats.publish(f"kvtier.v1.reports.{gateway}", data)
        expect(self.nats.flush(), "NATS does not answer")

    def last(self):
        """Payload of the newest report with tiers, as it is, and as values."""
        wait_until(lambda: None if self.reports else "no report", 20, "a report comes")
        payload = keys.payload_of(self.reports[-1])
        return payload, bus.unpack(payload)


def full(report, ahead=1000, incarnation=None):
    """The same with every tier full, and numbers that are later."""
    forged = list(report)
    forged[3] += ahead
    forged[4] = incarnation or report[4]
    forged[7] = [[name, FULL, FULL, blocks_] for name, _, _, blocks_ in report[7]]
    return forged


def condition(advisor, name):
    rows = {row["name"]: row for row in advisor.status()["conditions"]}
    return rows.get(name, {"count": 0})["count"]


def stays(run, heard, advisor, client, stored, name, what, forge):
    """`forge` publishes; nothing is ordered, and the condition counts it."""
    with run.case(what):
        before = condition(advisor, name)
        forge()
        wait_until(lambda: None if condition(advisor, name) > before else "not counted", 20,
                   f"condition {name} counts it")
        time.sleep(WAIT_S)
        expect(not heard.orders, f"{len(heard.orders)} orders left")
        there = client.batch_has([block for block, _ in stored])
        expect(all(row[0] == "OK" for row in there), "blocks are gone")


def scenario(run):
    nats = run.nats().start()
    advisor = run.advisor(nats, policy_mode="enforce", policy_interval="200ms").start()
    gateway = run.gateway(nats, hot_capacity="64MiB", **{"cold.capacity": "256MiB"}, report_interval="200ms").start()
    client = run.client(gateway)
    heard = Bus(nats)
    master = keys.master_of(run)
    stored = [(blocks.key(run.rng.getrandbits(64), namespace="forged/ns"), os.urandom(SIZE)) for _ in range(COUNT)]
    expect(set(client.batch_put(stored, 0x5EED)) == {"OK"}, "cannot store")
    wait_until(lambda: None if len(advisor.status()["tiers"]) >= 2 else "no tiers", 20, "the advisor hears it")
    heard.last()
    expect(isinstance(bus.unpack(heard.reports[-1])[0], bytes), "reports are not signed")

    _, report = heard.last()
    later = report[4] + 10**6

    def check(name, what, forge):
        stays(run, heard, advisor, client, stored, name, what, forge)

    check("reports-unsigned", "a report without a signature, later and full",
          lambda: heard.publish(bus.pack(full(report))))
    check("reports-unsigned", "a report without a signature, of a later life",
          lambda: heard.publish(bus.pack(full(report, incarnation=later))))
    check("reports-denied", "signed with the key of another gateway",
          lambda: heard.publish(keys.seal_report(master, "gw1", bus.pack(full(report)))))
    check("reports-denied", "signed by another gateway, under its own subject, in the name of this one",
          lambda: heard.publish(keys.seal_report(master, "gw1", bus.pack(full(report))), gateway="gw1"))
    foreign = full(report)
    foreign[1] = "gw1"
    check("reports-denied", "another gateway, by its own key, about this one's volume",
          lambda: heard.publish(keys.seal_report(master, "gw1", bus.pack(foreign)), gateway="gw1"))
    check("reports-denied", "signed with a key that is none of ours",
          lambda: heard.publish(keys.seal_report(secrets.token_bytes(32), "gw0", bus.pack(full(report)))))
    check("reports-denied", "signed with the key for orders",
          lambda: heard.publish(keys.seal(keys.derive(master, b"kvtier-orders-v1", "gw0"), b"kvtier-order-v1",
                                          bus.pack(full(report)))))
    check("reports-denied", "a signed report with other numbers in it",
          lambda: heard.publish(bus.pack([bus.pack(full(report)), bus.unpack(heard.reports[-1])[1]])))
    old = list(heard.reports[:20])
    check("reports-repeated", "signed reports again",
          lambda: [heard.publish(data) for data in old])
    check("reports-repeated", "signed reports again, backwards",
          lambda: [heard.publish(data) for data in reversed(old)])

    with run.case("a former life of the gateway, when it is silent"):
        captured = keys.seal_report(master, "gw0", bus.pack(full(report, incarnation=report[4] - 5000)))
        gateway.stop()
        time.sleep(7)  # longer than a gateway may be silent
        heard.publish(captured)
        time.sleep(WAIT_S)
        expect(not heard.orders, "its report was taken")
        gateway.start()

    with run.case("status, doctor's reasons and metrics tell of it"):
        reasons = "\n".join(advisor.status()["reasons"])
        expect("condition reports-unsigned" in reasons and "condition reports-denied" in reasons, reasons)
        text = advisor.raw("/metrics")[1]
        text = text.decode() if isinstance(text, bytes) else text
        for name in ("reports_unsigned_total", "reports_denied_total"):
            value = [line for line in text.splitlines() if line.startswith(f"kvtier_advisor_{name} ")]
            expect(value and float(value[0].split()[1]) > 0, f"{name}: {value}")

    with run.case("reports.unsigned: observe shows them and orders nothing"):
        advisor.stop()
        observing = run.advisor(nats, name="observer", policy_mode="enforce", policy_interval="200ms",
                                **{"reports.unsigned": "observe"}).start()
        forged = full(report)
        forged[1] = "gw9"
        forged[7] = [["hot@gw9", FULL, FULL, 5], *forged[7][1:]]
        heard.publish(bus.pack(forged), gateway="gw9")
        wait_until(lambda: None if any(row["gateway"] == "gw9" for row in observing.status()["observed"])
                   else "not shown", 20, "it is shown")
        heard.publish(bus.pack(full(report)))
        time.sleep(WAIT_S)
        expect(not heard.orders, f"{len(heard.orders)} orders left")
        expect(all(row["gateway"] == "gw0" for row in observing.status()["tiers"]), "it is a tier")
        advisor = observing

    with run.case("a signed report that says so does order"):
        _, report = heard.last()
        forged = full(report, ahead=10000)
        forged[7] = [[name, SIZE * COUNT, SIZE * COUNT, blocks_] for name, _, _, blocks_ in report[7]]
        wait_until(lambda: (heard.publish(keys.seal_report(master, "gw0", bus.pack(forged))),
                            None if heard.orders else "no order")[1], 30, "an order leaves")


if __name__ == "__main__":
    main(scenario)
