#!/usr/bin/env python3
"""/metrics of advisor and gateway, and what deploy/ makes of them: promtool reads the scrapes, the alerts
and their tests; every name that a dashboard or an alert uses is in a scrape; and a real Prometheus that
follows a real stack answers every query of the dashboards."""

import glob
import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

import yaml

import blocks
import harness
from harness import Process, expect, main, wait_until

DEPLOY = os.path.join(harness.ROOT, "deploy")
ALERTS = os.path.join(DEPLOY, "prometheus", "kvtier-alerts.yaml")
NAME = re.compile(r"\b(?:kvtier|up)(?:_[a-z0-9_]+)?\b")
# Names that were there before promtool read them; they stay.  Values are whole numbers, and a decision
# takes less than a millisecond.
KNOWN_LINT = {"kvtier_advisor_lag_milliseconds", "kvtier_advisor_last_event_timestamp_milliseconds",
              "kvtier_advisor_route_decision_microseconds"}
LABELS = {"cause", "le", "result", "tier", "verb", "code", "source", "kind", "from", "to", "tenant"}  # each of a few values
SERIES_MAX = 300
BLOCKS, BLOCK_SIZE = 120, 16 * 1024  # what the tenant acme writes
QUOTAS = "quotas:\n  - {tenant: acme, tier: hot, soft: 1GB, hard: 2GB}\n  - {tenant: acme, hard: 4GB}\n"


def promtool(*arguments, stdin=None):
    done = subprocess.run(["promtool", *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout


def queries_of_dashboards():
    """(panel, query) of each, with what Grafana fills in filled in."""
    for path in sorted(glob.glob(os.path.join(DEPLOY, "grafana", "*.json"))):
        with open(path, encoding="utf-8") as file:
            board = json.load(file)
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                yield f"{board['title']}, {panel['title']}", target["expr"]


def filled(query):
    return (query.replace("$__rate_interval", "10s").replace("$advisor", "kvtier-advisor")
            .replace("$gateway", "kvtier-gateway"))


def alerts():
    with open(ALERTS, encoding="utf-8") as file:
        for group in yaml.safe_load(file)["groups"]:
            yield from group["rules"]


def scrape(daemon):
    status, text = daemon.raw("/metrics")
    expect(status == 200, status)
    return text.decode()


def check_scrape(text):
    code, said = promtool("check", "metrics", stdin=text)
    left = [line for line in said.splitlines() if line.strip() and line.split()[0] not in KNOWN_LINT]
    expect(not left and code in (0, 3), f"{code}: {left}")
    helps = set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE))
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    series = re.findall(r"^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE)
    expect(len(series) < SERIES_MAX, f"{len(series)} series")
    expect(len({(name, labels) for name, labels, _ in series}) == len(series), "a series is there twice")
    for name, labels, _ in series:
        family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        expect(family in helps and family in types, f"{name} has no HELP or TYPE")
        expect((types[family] == "counter") == name.endswith("_total"), f"{name} is a {types[family]}")
        for label in re.findall(r'([a-z_]+)="', labels):
            expect(label in LABELS, f"{name} has the label {label}")
    return {name for name, _, _ in series}


class Prometheus(Process):
    def __init__(self, run, advisor, gateway):
        self.port = run.port()
        with open(os.path.join(DEPLOY, "prometheus", "prometheus.yaml"), encoding="utf-8") as file:
            text = file.read()
        # The file as it is, at this run's addresses and a quicker pace.
        text = text.replace("127.0.0.1:9471", f"127.0.0.1:{advisor.admin}").replace(
            "127.0.0.1:9481", f"127.0.0.1:{gateway.admin}").replace("15s", "1s").replace("kvtier-alerts.yaml", ALERTS)
        super().__init__(run, "prometheus", [
            "prometheus", f"--config.file={run.file('prometheus.yaml', text)}", f"--storage.tsdb.path={run.folder}/tsdb",
            f"--web.listen-address=127.0.0.1:{self.port}"], ready=lambda: harness.http_ok(f"http://127.0.0.1:{self.port}/-/ready"))
        run.add(self)

    def ask(self, query):
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    def rules(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/rules", timeout=10) as answer:
            return [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]


def traffic(run, client):
    keys = [blocks.key(run.rng.randrange(1 << 63, 1 << 64), namespace="acme/llama") for _ in range(BLOCKS)]
    for key in keys:
        expect(client.put(key, run.rng.randbytes(BLOCK_SIZE)).status == 200, key)
    def read():
        for key in keys[:60] + [blocks.key(run.rng.randrange(1 << 63, 1 << 64))]:
            client.get(key)
    read()
    return read


def check_queries(run, prometheus, read):
    """Each gives a number, once reads and moves were seen by two scrapes."""
    def empty():
        read()
        left = [f"{panel}: {query}" for panel, query in queries_of_dashboards() if not prometheus.ask(filled(query))]
        return f"{len(left)} give nothing, as {left[:3]}" if left else None

    wait_until(empty, 40 * run.slow, "every panel has something to draw", every=1)


def check_alerts(prometheus):
    """They are evaluated, and a stack that is well sets off none."""
    rules = prometheus.rules()
    expect(len(rules) == len(list(alerts())), f"{len(rules)} rules are loaded")
    for rule in rules:
        expect(rule["health"] == "ok" and rule["state"] != "firing", f"{rule['name']}: {rule['health']} {rule['state']}")


def scenario(run):
    if not (shutil.which("promtool") and shutil.which("prometheus")):
        run.skip("metrics and dashboards", "there is no Prometheus; scripts/install-deps --test installs it")
        return
    with run.case("promtool takes the alerts, and their tests pass"):
        code, said = promtool("check", "rules", ALERTS)
        expect(code == 0, said)
        code, said = promtool("test", "rules", ALERTS.replace(".yaml", "-test.yaml"))
        expect(code == 0, said)
    with run.case("promtool takes every query of the dashboards"):
        rules = [{"record": f"test:{number}", "expr": filled(query)} for number, (_, query) in enumerate(queries_of_dashboards())]
        expect(len(rules) > 30, f"only {len(rules)} queries")
        path = run.file("queries.yaml", yaml.safe_dump({"groups": [{"name": "test", "rules": rules}]}))
        code, said = promtool("check", "rules", path)
        expect(code == 0, said)
    with run.case("every alert says what to type"):
        for alert in alerts():
            expect(alert["labels"]["severity"] in ("critical", "warning"), alert)
            expect(alert["annotations"]["summary"] and alert["annotations"]["command"], alert)
    nats, minio = run.nats().start(), run.minio().start(seconds=60)
    run.client(minio).create_bucket()
    with open(os.path.join(harness.ROOT, "config", "policies", "default.yaml"), encoding="utf-8") as file:
        policy = run.file("policy.yaml", file.read().replace("observe", "enforce") + QUOTAS)
    advisor = run.advisor(nats, policy_mode="enforce", **{"policy.file": policy}).start()
    gateway = run.gateway(nats, s3_server=minio, hot_capacity=1 << 20, cold_capacity=64 << 20).start(seconds=60)
    read = traffic(run, run.client(gateway))
    with run.case("a scrape has the quotas of the policy"):
        def quotas():
            shown = re.findall(r"^kvtier_advisor_quota_used_bytes\{(.*)\} (\d+)$", scrape(advisor), re.MULTILINE)
            used = dict(shown).get('tenant="acme"', "0")
            return None if len(shown) == 2 and int(used) >= BLOCKS * BLOCK_SIZE else f"{shown}"
        wait_until(quotas, 20 * run.slow, "what acme wrote is counted")
    names = {"up"}
    for daemon in (advisor, gateway):
        with run.case(f"promtool takes the scrape of the {daemon.name}"):
            names |= check_scrape(scrape(daemon))
    with run.case("every name that is used is in a scrape"):
        used = {name for _, query in queries_of_dashboards() for name in NAME.findall(query)}
        used |= {name for alert in alerts() for name in NAME.findall(re.sub(r'"[^"]*"', "", alert["expr"]))}
        expect(len(used) > 30 and not used - names, f"not scraped: {sorted(used - names)}")
    prometheus = Prometheus(run, advisor, gateway).start(seconds=60)
    with run.case("a real Prometheus answers every query of the dashboards"):
        check_queries(run, prometheus, read)
    with run.case("no alert goes off while all is well"):
        check_alerts(prometheus)
    prometheus.stop()
    advisor.stop()
    gateway.stop()


if __name__ == "__main__":
    main(scenario)
