"""A headless Chromium, spoken to over the DevTools protocol with nothing but the standard library."""

import base64
import json
import os
import shutil
import socket
import struct
import time
import urllib.request

from harness import Failure, Process, expect


def program():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Socket:
    """The client's side of a WebSocket (RFC 6455): text messages, whole or in pieces."""

    def __init__(self, url, timeout=30):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.rsplit(":", 1)
        self.socket = socket.create_connection((name, int(port)), timeout=timeout)
        self.buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.receive()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        expect(b" 101 " in head.split(b"\r\n")[0], head)

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise Failure("the browser hung up")
        return data

    def take(self, size):
        while len(self.buffer) < size:
            self.buffer += self.receive()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def send(self, text, opcode=1):
        data = text.encode()
        mask = os.urandom(4)
        size = len(data)
        head = (struct.pack(">BB", 0x80 | opcode, 0x80 | size) if size < 126
                else struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size) if size < 1 << 16
                else struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size))
        self.socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def message(self):
        text = b""
        while True:
            first, size = self.take(2)
            size &= 127
            if size == 126:
                size = struct.unpack(">H", self.take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.take(8))[0]
            data = self.take(size)
            if first & 15 == 8:
                raise Failure("the browser closed the connection")
            if first & 15 in (0, 1):
                text += data
                if first & 0x80:
                    return text.decode()

    def close(self):
        self.socket.close()


class Page:
    """One tab.  What its console complains of, and what it throws, is in `complaints`."""

    def __init__(self, url):
        self.socket = Socket(url)
        self.number = 0
        self.complaints = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def note(self, told):
        method, given = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(f"console.{given['type']}: {given['args']}")
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")

    def call(self, method, **given):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": given}))
        while True:
            told = json.loads(self.socket.message())
            if told.get("id") != self.number:
                self.note(told)
                continue
            expect("error" not in told, lambda: f"{method}: {told['error']}")
            return told["result"]

    def run(self, script):
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        expect("exceptionDetails" not in answer, lambda: f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script, seconds=20):
        deadline = time.monotonic() + seconds
        while not self.run(script):
            expect(time.monotonic() < deadline, f"not within {seconds} s: {script}")
            time.sleep(0.1)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


class Browser(Process):
    def __init__(self, run):
        self.port = run.port()
        super().__init__(run, "chromium", [
            program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
            f"--remote-debugging-port={self.port}", f"--user-data-dir={run.folder}/chromium", "about:blank"],
            env={"HOME": run.folder}, ready=self.is_open)
        run.add(self)

    def ask(self, path, method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def is_open(self):
        try:
            self.ask("/json/version")
            return None
        except OSError as error:
            return str(error)

    def page(self):
        return Page(self.ask("/json/new?about:blank", "PUT")["webSocketDebuggerUrl"])

    def version(self):
        return self.ask("/json/version")["Browser"]
