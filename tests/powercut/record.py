"""Start a recording: the folder that is watched, the log, and the clock shared with the recorder."""

import mmap
import os
import struct


class Recorder:
    def __init__(self, library, work):
        self.library = os.path.abspath(library)
        work = os.path.realpath(work)
        self.root = os.path.join(work, "recorded")
        self.log = os.path.join(work, "recording.log")
        clock = os.path.join(work, "recording.clock")
        os.makedirs(self.root)
        with open(self.log, "wb"):
            pass
        with open(clock, "wb") as file:
            file.write(struct.pack("<Q", 1))
        with open(clock, "r+b") as file:
            self.clock = mmap.mmap(file.fileno(), 8)
        self.clock_path = clock

    def environment(self):
        return {"LD_PRELOAD": self.library, "KVT_RECORD_ROOT": self.root,
                "KVT_RECORD_LOG": self.log, "KVT_RECORD_CLOCK": self.clock_path}

    def now(self):
        """Everything that completed before this call has a number below the answer."""
        return struct.unpack("<Q", self.clock[:8])[0]
