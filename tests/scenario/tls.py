#!/usr/bin/env python3
"""The S3 port's certificate is renewed while clients are served: none of their requests is lost."""

import http.client
import os
import shutil
import signal
import ssl
import subprocess
import threading

import harness
import s3
from harness import ACCESS, SECRET, expect, wait_until

MIB = 1 << 20


class Shop:
    """A gateway behind TLS, the certificates made for it, and clients that believe those alone."""

    def __init__(self, run, nats):
        self.run = run
        self.trust = ssl.create_default_context()
        self.certificates = {}
        for name in ("one", "two", "three", "four"):
            self.make(name)
        self.install("one")
        self.gateway = run.gateway(nats, hot_capacity=1 << 26, **{
            "front.tls_certificate_file": f"{run.folder}/front.pem",
            "front.tls_key_file": f"{run.folder}/front.key"}).start()
        self.signer = s3.Client(f"https://127.0.0.1:{self.gateway.front}", ACCESS, SECRET)

    def make(self, name):
        base = f"{self.run.folder}/{name}"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", f"{base}.key", "-out", f"{base}.pem"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.chmod(f"{base}.key", 0o600)
        self.trust.load_verify_locations(f"{base}.pem")
        with open(f"{base}.pem", encoding="ascii") as file:
            self.certificates[ssl.PEM_cert_to_DER_cert(file.read())] = name

    def install(self, certificate, key=None):
        for name, kind in ((certificate, "pem"), (key or certificate, "key")):
            shutil.copy(f"{self.run.folder}/{name}.{kind}", f"{self.run.folder}/front.{kind}.new")
            os.replace(f"{self.run.folder}/front.{kind}.new", f"{self.run.folder}/front.{kind}")

    def hang_up(self):
        self.gateway.child.send_signal(signal.SIGHUP)

    def shown(self):
        """The certificate that whoever connects now is shown."""
        caller = Caller(self)
        try:
            return caller.certificate()
        finally:
            caller.close()

    def wait_shown(self, name):
        def check():
            found = self.shown()
            return None if found == name else f"it is {found}"
        wait_until(check, 30 * self.run.slow, f"certificate {name} is shown")

    def log(self, text):
        with open(self.gateway.log, encoding="utf-8", errors="replace") as file:
            return sum(text in line for line in file)

    def wait_logged(self, text, more_than):
        wait_until(lambda: None if self.log(text) > more_than else "it is not there", 30 * self.run.slow,
                   f"'{text}' in the log")


class Caller:
    """One connection."""

    def __init__(self, shop):
        self.shop = shop
        self.connection = http.client.HTTPSConnection("127.0.0.1", shop.gateway.front, timeout=60,
                                                      context=shop.trust)
        self.connection.connect()

    def certificate(self):
        return self.shop.certificates[self.connection.sock.getpeercert(True)]

    def close(self):
        self.connection.close()

    def begin(self, method, path, size=0):
        headers = self.shop.signer.sign(method, path, {}, {}, "UNSIGNED-PAYLOAD")
        self.connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            self.connection.putheader(name, value)
        if method == "PUT":
            self.connection.putheader("content-length", str(size))
        self.connection.endheaders()

    def end(self):
        """(status, body, whether the connection goes on)."""
        response = self.connection.getresponse()
        return response.status, response.read(), not response.will_close

    def ask(self, method, path, body=b""):
        self.begin(method, path, len(body))
        if body:
            self.connection.send(body)
        return self.end()


def renewal(run, shop):
    body = run.rng.randbytes(8 * MIB)
    with run.case("plain HTTP is refused, TLS is served"):
        expect(shop.shown() == "one", "another certificate than the first")
        try:
            answer = s3.Client(f"http://127.0.0.1:{shop.gateway.front}", ACCESS, SECRET).get("k").status
        except (http.client.HTTPException, OSError):
            answer = None
        expect(answer is None, f"plain HTTP is answered with {answer}")
    with run.case("what was begun ends, who was connected is answered, who comes sees the new one"):
        writer, idle = Caller(shop), Caller(shop)
        expect(idle.ask("PUT", "/kvtier/idle", b"idle")[0] == 200, "a PUT")
        writer.begin("PUT", "/kvtier/large", len(body))
        writer.connection.send(body[:3 * MIB])
        shop.install("two")
        shop.hang_up()
        shop.wait_shown("two")
        writer.connection.send(body[3 * MIB:])
        expect(writer.end()[0] == 200, "the PUT that was begun before")
        for _ in range(3):
            expect(idle.ask("GET", "/kvtier/idle") == (200, b"idle", True), "a connection of before ends")
        expect(idle.certificate() == "one", "a connection changed its certificate")
        caller = Caller(shop)
        expect(caller.ask("GET", "/kvtier/large")[1] == body, "other bytes than were put")
        for each in (writer, idle, caller):
            each.close()


def broken(run, shop):
    kept = "the certificate stays as it was"

    def said():
        return [reason for reason in shop.gateway.status()["reasons"] if kept in reason]

    for what, change in (("no certificate", lambda: run.file("front.pem", "nothing\n")),
                         ("another's key", lambda: shop.install("three", "four")),
                         ("no file", lambda: os.unlink(f"{run.folder}/front.pem"))):
        with run.case(f"{what}: the one there is stays, and log and status say so"):
            before = shop.log(kept)
            change()
            shop.hang_up()
            shop.wait_logged(kept, before)
            expect(shop.shown() == "two", "another certificate is shown")
            expect(len(said()) == 1, f"the status says {shop.gateway.status()['reasons']}")
    with run.case("files that fit end it"):
        shop.install("one")
        shop.hang_up()
        shop.wait_shown("one")
        wait_until(lambda: None if not said() else str(said()), 30 * run.slow, "the status says no more")


def in_turn(run, shop):
    with run.case("renewed twice while a client takes its time"):
        shop.install("two")
        shop.hang_up()
        shop.wait_shown("two")
        slow = Caller(shop)
        slow.begin("PUT", "/kvtier/slow", 4)
        slow.connection.send(b"sl")
        for name in ("three", "four"):
            shop.install(name)
            shop.hang_up()
            shop.wait_shown(name)
        slow.connection.send(b"ow")
        expect(slow.end()[0] == 200, "the slow PUT")
        expect(slow.certificate() == "two", "the slow client's certificate changed")
        slow.close()


def under_load(run, shop):
    """Half of the clients keep their connection, the others take one for each request."""
    stop, failures, counts = threading.Event(), [], []

    def client(number):
        caller, count = Caller(shop), 0
        try:
            while not stop.is_set():
                data = f"{number} {count}".encode()
                for method, sent in (("PUT", data), ("GET", b"")):
                    status, found, goes_on = caller.ask(method, f"/kvtier/load/{number}", sent)
                    expect(status == 200 and (method == "PUT" or found == data), f"{method}: {status} {found}")
                    expect(goes_on, "the gateway ends a connection")
                count += 1
                if number % 2:
                    caller.close()
                    caller = Caller(shop)
        except Exception as error:  # noqa: B902 - a thread's failure is the case's
            failures.append(f"client {number}: {error!r}")
        finally:
            caller.close()
            counts.append(count)

    with run.case("renewed under load: every request is answered"):
        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(run.args.renewals):
                name = ("one", "two", "three", "four")[number % 4]
                shop.install(name)
                shop.hang_up()
                shop.wait_shown(name)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        expect(not failures, "; ".join(failures))
        expect(min(counts) > 0, f"requests: {counts}")
        run.note(f"{sum(counts)} PUTs and GETs over {run.args.renewals} renewals")


def options(parser):
    parser.add_argument("--renewals", type=int, default=12, help="of the certificate under load")


def scenario(run):
    shop = Shop(run, run.nats().start())
    renewal(run, shop)
    broken(run, shop)
    in_turn(run, shop)
    under_load(run, shop)
    with run.case("it stops with 0"):
        expect(shop.gateway.stop() == 0, shop.gateway.tail())


if __name__ == "__main__":
    harness.main(scenario, options)
