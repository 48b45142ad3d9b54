"""What a power cut leaves of a recorded folder (see recorder.c for how it was recorded).

A cut at time `t` keeps, of all operations numbered below `t`:
  file data     what an fsync or fdatasync of that file covered, and writes through O_DSYNC;
  folder entries  those whose own folder was fsynced afterwards; a rename across folders is one step and
                needs the target's folder;
and nothing else, in mode "strict".  In mode "torn" a random part of what was not synced is there too:
any subset of a file's writes, one of them cut at a 512-byte sector, and a random prefix of a folder's
changes.  Both are things a disk may do; correct programs survive every one of them.
"""

import mmap
import os
import random
import struct

RECORD = struct.Struct("<IIQQQQQQIIII")
MAGIC = 0x5254564B
SECTOR = 512

(CREATE, TMPFILE, WRITE, SIZE, EXTEND, SYNC, LINK, UNLINK, RENAME, MKDIR, RMDIR, SYNC_ALL,
 EXCHANGE) = range(1, 14)


class Record:
    __slots__ = ("op", "seq", "begin", "ino", "offset", "data", "path", "path2", "durable")


class File:
    def __init__(self):
        self.data = bytearray()   # what a cut keeps
        self.pending = []         # records not yet covered by a sync


class Folder:
    def __init__(self):
        self.kept = {}            # name -> node: what a cut keeps
        self.now = {}             # name -> node: what the program sees
        self.pending = []         # changes not yet covered by a sync


class Change:
    """One step in one folder, or a rename in two: [(folder, name, node or None), ...]."""

    def __init__(self, seq, steps):
        self.seq, self.steps, self.done = seq, steps, False

    def apply(self):
        if not self.done:
            self.done = True
            for folder, name, node in self.steps:
                if node is None:
                    folder.kept.pop(name, None)
                else:
                    folder.kept[name] = node


def apply_data(data, record, upto=None):
    if record.op == WRITE:
        payload = record.data if upto is None else record.data[:upto]
        end = record.offset + len(payload)
        if len(data) < end:
            data.extend(bytes(end - len(data)))
        data[record.offset:end] = payload
    elif record.op == EXTEND or record.offset > len(data):
        if record.offset > len(data):
            data.extend(bytes(record.offset - len(data)))
    else:
        del data[record.offset:]


class Recording:
    """All records of one log, in the order of their numbers.  The folder was empty at the start."""

    def __init__(self, log_path):
        self.records = []
        with open(log_path, "rb") as log:
            size = os.fstat(log.fileno()).st_size
            self.map = mmap.mmap(log.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        view = memoryview(self.map)
        at = 0
        while at + RECORD.size <= len(view):
            (magic, op, size, seq, begin, ino, offset, data_size, path_size, path2_size, durable,
             _pid) = RECORD.unpack_from(view, at)
            if magic != MAGIC:
                raise ValueError(f"{log_path}: no record at byte {at}")
            if at + size > len(view):
                break  # the recorder was killed while it wrote this one
            record = Record()
            record.op, record.seq, record.begin, record.ino = op, seq, begin, ino
            record.offset, record.durable = offset, bool(durable)
            name_at = at + RECORD.size
            record.path = bytes(view[name_at:name_at + path_size]).decode()
            name_at += path_size
            record.path2 = bytes(view[name_at:name_at + path2_size]).decode()
            name_at += path2_size
            record.data = view[name_at:name_at + data_size]
            self.records.append(record)
            at += size
        self.records.sort(key=lambda r: r.seq)

    def last(self):
        return self.records[-1].seq + 1 if self.records else 0

    def play(self, cut=None):
        """The root folder and all nodes as of `cut` (None: the end)."""
        root = Folder()
        nodes = {}   # inode number -> the node that has it now
        everything = [root]

        def walk(path):
            node = root
            for part in path.split("/") if path else []:
                node = node.now[part]
            return node

        def parent(path):
            folder, _, name = path.rpartition("/")
            return walk(folder), name

        def change(record, *steps):
            entry = Change(record.seq, steps)
            seen = []
            for folder, name, node in steps:
                if node is None:
                    folder.now.pop(name, None)
                else:
                    folder.now[name] = node
                if folder not in seen:
                    folder.pending.append(entry)
                    seen.append(folder)

        def new(record, node):
            nodes[record.ino] = node
            everything.append(node)
            return node

        def settle(node, begin):
            keep = []
            for entry in node.pending:
                if entry.seq >= begin:
                    keep.append(entry)
                elif isinstance(node, Folder):
                    # A rename across folders is settled by its target: the step that adds.
                    if entry.steps[-1][0] is node or entry.steps[-1][2] is None:
                        entry.apply()
                    elif not entry.done:
                        keep.append(entry)
                else:
                    apply_data(node.data, entry)
            node.pending = [e for e in keep if not getattr(e, "done", False)]

        for record in self.records:
            if cut is not None and record.seq >= cut:
                break
            op = record.op
            if op == WRITE or op == SIZE or op == EXTEND:
                node = nodes[record.ino]
                if record.durable and op == WRITE:
                    # Through O_DSYNC: this write is on the disk, and so is its part of the size.
                    node.pending.append(record)
                    settle_one(node, record)
                else:
                    node.pending.append(record)
            elif op == SYNC:
                node = nodes.get(record.ino, root)
                settle(node, record.begin)
            elif op == CREATE:
                folder, name = parent(record.path)
                change(record, (folder, name, new(record, File())))
            elif op == TMPFILE:
                new(record, File())
            elif op == LINK:
                folder, name = parent(record.path)
                change(record, (folder, name, nodes[record.ino]))
            elif op in (UNLINK, RMDIR):
                folder, name = parent(record.path)
                change(record, (folder, name, None))
            elif op == MKDIR:
                folder, name = parent(record.path)
                change(record, (folder, name, new(record, Folder())))
            elif op == RENAME:
                folder, name = parent(record.path)
                folder2, name2 = parent(record.path2)
                change(record, (folder, name, None), (folder2, name2, folder.now[name]))
            elif op == EXCHANGE:
                folder, name = parent(record.path)
                folder2, name2 = parent(record.path2)
                one, two = folder.now[name], folder2.now[name2]
                change(record, (folder, name, two), (folder2, name2, one))
            elif op == SYNC_ALL:
                for node in everything:
                    settle(node, record.begin)
            else:
                raise ValueError(f"unknown record {op}")
        return root, everything

    def rebuild(self, target, cut, seed=None):
        """Make `target` the folder after a cut.  `seed` None: strict; a number: torn, by that seed.

        Returns how much was lost: (writes, folder changes)."""
        root, everything = self.play(cut)
        writes = sum(len(n.pending) for n in everything if isinstance(n, File))
        changes = sum(len(n.pending) for n in everything if isinstance(n, Folder))
        if seed is not None:
            rng = random.Random(seed)
            for node in everything:
                if isinstance(node, Folder):
                    for entry in node.pending[:rng.randint(0, len(node.pending))]:
                        entry.apply()
                else:
                    tear(node, rng)
        write_tree(root, target)
        return writes, changes

    def check_complete(self, folder, ignore=()):
        """Does the model's final tree equal the real one?  Else the recorder has missed something."""
        root, everything = self.play()
        wrong = []

        def look(node, path):
            real = os.path.join(folder, path)
            if isinstance(node, Folder):
                names = set(os.listdir(real)) if os.path.isdir(real) else set()
                for name in sorted(names ^ set(node.now)):
                    wrong.append(f"{os.path.join(path, name)}: "
                                 + ("not recorded" if name in names else "not there"))
                for name in sorted(names & set(node.now)):
                    look(node.now[name], os.path.join(path, name))
            elif os.path.basename(path) not in ignore:
                data = bytearray(node.data)
                for record in node.pending:
                    apply_data(data, record)
                with open(real, "rb") as file:
                    if file.read() != data:
                        wrong.append(f"{path}: other bytes than recorded")

        look(root, "")
        return wrong


def settle_one(node, record):
    apply_data(node.data, record)
    node.pending.remove(record)


def tear(node, rng):
    chosen = [r for r in node.pending if rng.random() < 0.5]
    torn = rng.choice(chosen) if chosen and rng.random() < 0.7 else None
    for record in chosen:
        upto = None
        if record is torn and record.op == WRITE:
            # Sectors are whole; the write's part in its last sector went or did not.
            first = -record.offset % SECTOR
            cuts = list(range(first, len(record.data), SECTOR)) or [0]
            upto = rng.choice(cuts)
        apply_data(node.data, record, upto)


def write_tree(node, path):
    if isinstance(node, Folder):
        os.makedirs(path, mode=0o700, exist_ok=True)
        for name, child in node.kept.items():
            write_tree(child, os.path.join(path, name))
    else:
        with open(path, "wb") as file:
            file.write(node.data)
