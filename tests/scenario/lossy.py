"""A door to a NATS server that loses, doubles and delays what it brings of some subjects."""

import contextlib
import socket
import threading
import urllib.parse


class Door:
    """One client's way to the server; `loss`, `twice` and `late` are shares of the messages, and may change."""

    def __init__(self, server_url, prefix, rng):
        parts = urllib.parse.urlsplit(server_url)
        self.server = (parts.hostname, parts.port)
        self.prefix, self.rng = prefix.encode(), rng
        self.loss = self.twice = self.late = 0
        self.lost = self.brought = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(self.server)
            except OSError:
                client.close()
                continue
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pump, one, two in ((self.as_it_is, client, server), (self.with_losses, server, client)):
                threading.Thread(target=self.close_behind, args=(pump, one, two), daemon=True).start()

    def close_behind(self, pump, one, two):
        with contextlib.suppress(OSError, ValueError):
            pump(one, two)
        for sock in (one, two):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def as_it_is(self, one, two):
        while data := one.recv(1 << 16):
            two.sendall(data)

    def with_losses(self, server, client):
        """Message by message: one is a line, and behind `MSG` and `HMSG` as many bytes as its last word says."""
        held = []
        with server.makefile("rb") as lines:
            while line := lines.readline():
                if not line.startswith((b"MSG ", b"HMSG ")):
                    client.sendall(line)
                    continue
                words = line.split()
                message = line + lines.read(int(words[-1]) + 2)
                if words[1].startswith(self.prefix):
                    client.sendall(self.fate(message, held))
                else:
                    client.sendall(message)

    def fate(self, message, held):
        """What comes instead of a message, those that were held among it."""
        out = b""
        if self.rng.random() < self.loss:
            self.lost += 1
        elif self.rng.random() < self.late:
            held.append(message)
        else:
            self.brought += 1
            out = message * (2 if self.rng.random() < self.twice else 1)
        while held and self.rng.random() < 0.3:
            out += held.pop(self.rng.randrange(len(held)))
        return out
