"""What every driver of a producer shares: commands in, answers out, one JSON object a line.

A driver is a process under the producer's own Python.  It reads commands from standard input, calls
the producer's real interface, and answers each with one line.  What the producer itself prints goes to
standard error.
"""

import asyncio
import json
import os
import sys
import threading
import traceback


def signed(value):
    """Interfaces that take i64 get the same 64 bits."""
    return None if value is None else value - (1 << 64) if value >> 63 else value


class Driver:
    """Subclasses have methods `do_<command>(self, **arguments)`, plain or async, that return a dict."""

    def __init__(self):
        self.answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.loop = None

    async def answer(self, line):
        command = json.loads(line)
        method = getattr(self, "do_" + command.pop("do"))
        result = method(**command)
        if asyncio.iscoroutine(result):
            result = await result
        return result or {}

    async def serve(self, hello):
        self.loop = asyncio.get_running_loop()
        lines = asyncio.Queue()

        def read():
            for line in sys.stdin:
                self.loop.call_soon_threadsafe(lines.put_nowait, line)
            self.loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        self.say({"ok": True, **hello})
        while (line := await lines.get()) is not None:
            try:
                self.say({"ok": True, **await self.answer(line)})
            except Exception:  # noqa: B902 - whatever the producer raises is its answer
                self.say({"ok": False, "error": traceback.format_exc()})
        # No clean-up: what a producer does when it goes is a command of its own.
        sys.stderr.flush()
        os._exit(0)

    def say(self, answer):
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()
