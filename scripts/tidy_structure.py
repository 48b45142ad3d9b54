"""The rules of scripts/tidy that need the whole tree: which folder may include which, and what a
module is.  A module is a source with its header, or a header alone; `x_private.h`, `x_internal.h`
and `x_state.h` belong to the module x, and may be included from their own folder only.
"""
import collections
import os
import re

# folder (or file) -> the other top folders it may include.  The longest match counts.
ARROWS = {
    "include": set(),
    "config": set(),
    "base": {"include"},
    "wire": {"include", "base"},
    "index": {"include", "base"},
    "policy": {"include", "base"},
    "router": {"include", "base", "wire"},
    "kvbm": {"include", "base"},
    "engine": {"include", "base", "kvbm"},
    "worker": {"include", "base", "kvbm", "engine", "g4", "wire", "index", "policy", "config"},
    "g4": {"include", "base"},
    "advisor": {"include", "base", "wire", "index", "policy", "router", "config"},
    "gateway": {"include", "base", "wire", "g4", "config"},
    "cli": {"include", "base", "wire", "index", "g4", "policy", "advisor", "config"},
}
# folder -> subfolder -> the subfolders beside it that it may include.  The files of the folder
# itself stand on all of them and are included by none, but where "." is listed.
INSIDE = {
    "base": {
        "core": set(),
        "thread": {"core"},
        "text": {"core"},
        "store": {"core"},
        "config": {"core", "text", "thread"},
        "http": {"core", "thread"},
    },
    "wire": {
        "message": set(),
        "dialect": {"message"},
        "nats": {"message"},
        "publisher": {"message", "nats"},
        "example": set(),
    },
    "index": {
        "memory": set(),
        "table": {"memory"},
        "holder": {".", "memory"},
        "block": {".", "memory", "table", "holder"},
        "answer": {".", "holder", "block"},
        "writer": {"holder", "block"},
    },
    "policy": {
        "expression": set(),
        "ordering": set(),
        "file": {"expression", "ordering"},
        "decide": {"expression", "ordering", "file"},
        "example": set(),
        "simulate": {"ordering", "file", "decide"},
    },
    "kvbm": {
        "layout": set(),
        "pool": set(),
        "storage": {"layout", "pool"},
        "transfer": {"layout", "storage"},
        "volume": {"layout", "pool", "storage", "transfer"},
        "offload": {"pool", "storage", "transfer", "volume"},
        "attach": {"layout", "pool", "storage", "transfer", "offload"},
        "cuda": {"storage"},
        "example": set(),
        "public": {"layout", "pool", "storage", "transfer", "volume", "offload", "cuda"},
    },
    "engine": {
        "memory": set(),
        "rpc": set(),
        "rank": {"memory", "rpc"},
        "leader": {"rpc", "rank"},
        "connector": {"rpc", "rank", "leader"},
        "grant": {"memory", "rpc"},
        "replica": {"rank"},
    },
    "worker": {
        "settings": set(),
        "object": {"settings"},
        "replay": {"settings", "object"},
        "instances": {"settings", "object", "replay"},
    },
    "g4": {
        "object": set(),
        "directory": {"object"},
        "lock": {"object"},
        "packed": {"object", "lock"},
        "s3": {"object", "directory", "packed"},
        "batch": {"object", "s3"},
        "driver": {"object", "s3"},
        "pair": {"object"},
        "libs3": {"driver"},
    },
    "advisor": {
        "store": set(),
        "transport": {"store"},
        "source": {"store", "transport"},
        "index": {"store"},
        "publisher": {"store", "source"},
        "answer": {"store", "index", "publisher"},
        "route": {"store", "index", "publisher", "answer"},
        "rule": {"store"},
        "selection": {"store", "index", "rule"},
        "order": {"store", "index", "answer", "rule", "selection"},
        "job": {"store", "selection", "order"},
        "plan": {"store", "index", "answer", "rule", "selection", "order", "job"},
        "archive": {"store", "index", "answer", "rule"},
        "round": {"store", "source", "index", "publisher", "order", "job"},
        "admin": {
            "store", "source", "index", "publisher", "answer", "route", "rule",
            "selection", "order", "job", "plan", "archive", "round"},
    },
    "gateway": {
        "catalog": set(),
        "tier": {"catalog"},
        "block": {"catalog", "tier"},
        "move": {"catalog", "tier", "block"},
        "bus": {"catalog", "tier", "block", "move"},
        "http": {"tier"},
        "upload": {"catalog", "tier", "http"},
        "s3": {"catalog", "tier", "block", "http", "upload"},
        "care": {"catalog", "tier", "block", "move", "upload"},
        "admin": {"catalog", "tier", "block", "move", "bus", "http", "upload", "care"},
    },
    "cli": {
        "frame": set(),
        "output": {"frame"},
        "remote": {"frame", "output"},
        "events": {"frame", "output", "remote"},
        "g4": {"frame", "output", "remote"},
        "help": {"frame"},
        "index": {"frame", "output", "remote"},
        "ops": {"frame", "output", "remote"},
        "policy": {"frame", "output", "remote", "ops"},
        "show": {"frame", "output", "remote", "index", "ops", "policy"},
        "workload": {"frame", "output", "policy"},
    },
}
# Tests and benches may include everything.
OUTSIDE = ("tests", "bench")

FOLDER_FILES_MAX = 40
LONE_HEADER_LINES = 60
# One module of a folder may have these names beside those of other folders.
SHARED_NAMES = ("main",)
PRIVATE = re.compile(r"_(private|internal|state)$")

# Exports that no product file calls, and why each stays.
KEPT_EXPORTS = {
    "g4_bucket_parse_locks": "a fuzzed parser of what a service answers",
    "g4_bucket_parse_rules": "a fuzzed parser of what a service answers",
    "g4_bucket_parse_uploads": "a fuzzed parser of what a service answers",
    "g4_bucket_parse_versions": "a fuzzed parser of what a service answers",
    "g4_commit_parse": "a fuzzed parser of what lies in the bucket",
    "g4_commit_same": "the fuzzer of commit records compares two",
    "g4_lease_usable": "tests run many lease holders and look at each of their steps",
    "g4_s3_count": "no answer shows retries and hedges: tests count them",
    "gateway_body_checksum_crc64nvme": "a test compares it with a slower one, in pieces",
    "kvt_alloc_fail_after": "every sweep of failed allocations; the counter is in the allocator",
    "kvt_alloc_live": "every test for leaks; the counter is in the allocator",
    "wire_dynamo_rpc_read_request": "the worker's half of the protocol: stand-ins of a Dynamo worker speak it",
    "wire_dynamo_rpc_put_ack": "the worker's half of the protocol",
    "wire_dynamo_rpc_put_frame": "the worker's half of the protocol",
    "wire_query_encode": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_query_decode_holders": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_query_decode_masks": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_query_loading": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_route_encode_question": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_route_decode_answer": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_route_encode_step": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_route_decode_done": "the other half of a codec: clients of the message in the tests, benches and fuzzers",
    "wire_recording_attach": "a recording that is in memory: the fuzzer reads such",
    "wire_recording_offset": "where reading a recording ended: the fuzzer compares it",
    "wire_object_remove": "an object store that cannot remove would be half a one; its tests need removed objects",
    "advisor_admin_format_quotas": "a pure function of the views: names, escapes and limits of the text",
    "advisor_bucket_listing_read": "a parser of bytes of others: cut and changed pages",
    "advisor_coverage_asked": "how many questions the search put: its bound is the promise",
    "advisor_departed_blocks_clear": "the bounds are met once full and once empty",
    "advisor_discovery_workers": "who is there, which the product asks by endpoint only",
    "advisor_evicted_filter_blind": "a unit of its own: when a full filter stops answering",
    "advisor_evicted_pass_rows": "a pass of a few rows, so that a test can be between two of them",
    "advisor_nats_responder_answer": "bytes to bytes, without a bus: all answers agree",
    "advisor_nats_responder_route": "bytes to bytes, without a bus: malformed questions",
    "advisor_ram_snapshot_sizes": "a snapshot of a small index, for tests and bench/durable",
    "advisor_router_thread_take": "bytes to bytes, without a thread: malformed messages",
    "index_find_result_count": "how many holders an answer has: bench/index checks it",
    "index_find_result_length": "the longest prefix of an answer, without sorting it",
    # Grants: no program fills another process's blocks yet.
    "engine_grants_open": "grants, which no program uses yet",
    "engine_grants_close": "grants, which no program uses yet",
    "engine_grants_endpoint": "grants, which no program uses yet",
    "engine_writer_open": "grants, which no program uses yet",
    "engine_writer_close": "grants, which no program uses yet",
    "engine_writer_acquire": "grants, which no program uses yet",
    "engine_writer_put": "grants, which no program uses yet",
    "engine_writer_commit": "grants, which no program uses yet",
    "engine_writer_abort": "grants, which no program uses yet",
    "engine_broadcast_memory": "for an engine that has all ranks in one process: no program yet",
    "engine_broadcast_nccl": "for an engine that has all ranks in one process: no program yet",
    "engine_leader_scan": "for an engine that looks for scattered blocks: no program yet",
    "engine_leader_has_objects": "for an engine that uses the object tier itself: no program yet",
    "engine_leader_put_objects": "for an engine that uses the object tier itself: no program yet",
    "engine_leader_get_objects": "for an engine that uses the object tier itself: no program yet",
    "engine_match_wait": "for an engine without a connector: no program yet",
    "engine_match_blocks": "for an engine without a connector: no program yet",
    "engine_match_cancel": "for an engine without a connector: no program yet",
    "engine_connector_preempted": "a call of vLLM's connector; our scheduler preempts nothing",
    "kvbm_block_state_move": "a test tries every pair of states, also those no block meets",
    "kvbm_crc32c_copy_by_steps": "a test compares it with the faster path that processors take",
    "kvbm_cuda_load_kernels": "a build without nvcc has no kernels: tests load them from the fake",
    "kvbm_cost_estimate": "what a model of tiers in tests is compared with",
    "gateway_orders_accept": "a test tries every way in which an order is refused, without a bus",
    "gateway_orders_recall": "a test repeats finished orders without a bus",
    "gateway_orders_execute": "tests execute orders without a bus",
    "gateway_recheck_round": "tests run single rounds, without the thread and its pauses",
    "worker_store_lock_new": "tests bring a store and a clock of their own",
    "worker_supervisor_rest_ms": "tests check each step of it, which would take minutes to observe",
    "cli_doctor_bucket_judge": "no store of the tests has object locks: settings are made by hand",
    "policy_simulation_has": "its tests compare the places of all blocks with a model",
    "policy_tier_simulation_new": "planner_agrees_test steps planner and simulation side by side",
    "policy_tier_simulation_free": "as policy_tier_simulation_new",
    "policy_tier_simulation_request": "as policy_tier_simulation_new",
    "policy_tier_simulation_has": "as policy_tier_simulation_new",
    "router_weights_default": "tests and bench/route use the defaults of config/advisor.def",
}
# Headers of one includer that stay, and why.
KEPT_HEADERS = {
    "gateway/care/housekeeping.h": "how main.c starts and stops this thread",
    "index/answer/scan.h": "index/index.h must not declare a function that needs the lock held",
    "kvbm/attach/attach_session.h": "the server starts sessions; in one file they are 600 lines",
    "worker/replay/replay_app.h": "how worker/main.c starts this folder",
    "cli/cli_app.h": "the library's entry; main.c is one call",
    "cli/events/event_printer.h": "a printer of every dialect; its one user waits for messages",
    "cli/ops/dev_state.h": "cmd_dev.c would have over 600 lines",
    "cli/workload/simulate_policy.h": "cmd_policy_simulate.c would have over 900 lines",
    "gateway/http/connections.h": "the table of connections; in s3_server.c they are 700 lines",
}

WORD = re.compile(r"\b[A-Za-z_]\w*\b")
DECLARED = re.compile(r"^(?![ \t#}])[^\n;{}=]*?\b([a-z_]\w*)\([^;{}]*\)[^;{}()]*(?:\([^;{}]*\)[^;{}]*)*;",
                      re.MULTILINE)


def top(path):
    return path.split("/")[0]


def target(include):
    """The top folder an include leads to, or None when it is not written from there."""
    first = include.split("/")[0] if "/" in include else None
    return "include" if first == "kvtier" else first


def file_of(include):
    return "include/" + include if include.startswith("kvtier/") else include


def row_of(path):
    """The row of ARROWS that decides for `path`, or None."""
    rows = [row for row in ARROWS if path == row or path.startswith(row + "/")]
    return max(rows, key=len, default=None)


def subfolder(path):
    """`store` of advisor/store/x.c, `.` of advisor/main.c."""
    parts = path.split("/")
    return "/".join(parts[1:-1]) or "."


def arrow_fault(path, include):
    """Why `path` must not include `include`, or None."""
    folder = target(include)
    if folder not in ARROWS and folder not in OUTSIDE:
        return 'write "%s" from the top folder' % include
    if top(path) in OUTSIDE:
        return None
    row = row_of(path)
    if row is None:
        return None
    if folder != top(row):
        return None if folder in ARROWS[row] else '%s must not include "%s"' % (row, include)
    here, there = subfolder(path), subfolder(file_of(include))
    inside = INSIDE.get(folder)
    if inside is None or here in (there, ".") or there in inside.get(here, ()):
        return None
    return '%s/%s must not include "%s"' % (folder, here, include)


def stem(path):
    return os.path.splitext(path)[0]


class Structure:
    """Product files by module: `add` each, then `check`."""

    def __init__(self, report, is_own):
        """`is_own`: the tree is the one that the tables here are about."""
        self.report = report
        self.is_own = is_own
        self.includes = {}  # path -> [(line, path of what is included)]
        self.code = {}
        self.sizes = {}

    def add(self, path, code, size, includes):
        """`code`: the text without comments and literals; `includes`: (line, name) of the quoted ones."""
        self.sizes[path] = size
        self.includes[path] = [(line, file_of(name)) for line, name in includes]
        self.code[path] = code

    def is_product(self, path):
        return top(path) in ARROWS and top(path) != "config"

    def check(self):
        self.product = sorted(path for path in self.code
                              if self.is_product(path) and path.endswith((".c", ".h", ".cu")))
        self.check_folders()
        self.check_names()
        self.check_circles()
        self.check_private()
        self.check_lone_headers()
        self.check_exports()

    # ---- folders and names ----

    def check_folders(self):
        folders = collections.defaultdict(list)
        for path in sorted(self.code):
            if "/" in path and path.endswith((".c", ".h")) and top(path) not in OUTSIDE:
                folders[os.path.dirname(path)].append(path)
        for folder, paths in sorted(folders.items()):
            if len(paths) > FOLDER_FILES_MAX:
                self.report(paths[FOLDER_FILES_MAX], 1, "folder-size", "%s has %d files; at most %d" %
                            (folder, len(paths), FOLDER_FILES_MAX))
            name, inside = top(folder), subfolder(paths[0])
            if name not in ARROWS:
                self.report(paths[0], 1, "folder", "no row of ARROWS names %s" % name)
            elif name != "include" and inside != "." and inside not in INSIDE.get(name, {}):
                self.report(paths[0], 1, "folder", "no row of INSIDE names %s" % folder)

    def module(self, path):
        """The module a file belongs to: a private header goes with the module it is named after."""
        return PRIVATE.sub("", stem(path))

    def check_names(self):
        places = collections.defaultdict(set)
        for path in self.product:
            name = os.path.basename(stem(path))
            if name not in SHARED_NAMES:
                places[name].add(stem(path))
        for name, stems in sorted(places.items()):
            implemented = "include/kvtier/" + name
            rest = sorted(stems - {implemented})
            # A source that implements a public header of its name is that header's module.
            if len(rest) > 1 or (rest and implemented in stems and not self.implements(rest[0], name)):
                path = next(path for path in self.product if stem(path) == rest[-1])
                self.report(path, 1, "basename", "%s also names %s" %
                            (name, ", ".join(sorted(stems - {rest[-1]}))))

    def implements(self, name, public):
        header = "include/kvtier/%s.h" % public
        return (name + ".h" not in self.code and name + ".c" in self.code and
                header in [path for _, path in self.includes[name + ".c"]])

    # ---- includes between modules ----

    def check_circles(self):
        graph = collections.defaultdict(set)
        line = {}
        for path in self.product:
            for number, name in self.includes[path]:
                one, other = self.module(path), self.module(name)
                if one != other and name in self.code:
                    graph[one].add(other)
                    line.setdefault((one, other), (path, number))
        for circle in circles(graph):
            one = circle[0]
            other = min(graph[one] & set(circle))
            path, number = line[(one, other)]
            self.report(path, number, "circle", "these modules include each other: " + ", ".join(circle))

    def check_private(self):
        for path in self.product:
            for number, name in self.includes[path]:
                if PRIVATE.search(stem(name)) and name in self.code and \
                        os.path.dirname(name) != os.path.dirname(path):
                    self.report(path, number, "private", '"%s" is for its own folder' % name)

    def check_lone_headers(self):
        users = collections.defaultdict(set)
        for path, includes in self.includes.items():
            for _, name in includes:
                if stem(name) != stem(path):
                    users[name].add(path)
        lone = set()
        for path in self.product:
            size = self.sizes[path]
            if path.endswith(".h") and top(path) != "include" and size <= LONE_HEADER_LINES and \
                    len(users[path]) <= 1:
                lone.add(path)
                if path not in KEPT_HEADERS:
                    whose = ", ".join(users[path]) or "no file"
                    self.report(path, 1, "lone-header", "%d lines that only %s includes" % (size, whose))
        if self.is_own:
            self.check_kept("lone-header", set(KEPT_HEADERS) - lone)

    # ---- exports ----

    def check_exports(self):
        declared = {}  # function -> header
        for path in self.product:
            if path.endswith(".h") and top(path) != "include":
                for match in DECLARED.finditer(self.code[path]):
                    number = self.code[path].count("\n", 0, match.start(1)) + 1
                    declared.setdefault(match.group(1), (path, number))
        defined, used = {}, collections.defaultdict(set)
        for path in self.code:
            if top(path) in OUTSIDE or not path.endswith((".c", ".h", ".def", ".cu")):
                continue
            for name in set(WORD.findall(self.code[path])):
                if name in declared and path != declared[name][0]:
                    used[name].add(path)
            if path.endswith(".c"):
                for name in re.findall(r"^(\w+)\(", self.code[path], re.MULTILINE):
                    if name in declared:
                        defined[name] = path
        unused = set()
        for name, (path, number) in sorted(declared.items()):
            inline = len(re.findall(r"\b%s\b" % name, self.code[path])) > 1
            if name in defined and not inline and not used[name] - {defined[name]}:
                unused.add(name)
                if name not in KEPT_EXPORTS:
                    self.report(path, number, "unused-export", "no other product file calls %s()" % name)
        if self.is_own:
            self.check_kept("unused-export", set(KEPT_EXPORTS) - unused)

    def check_kept(self, rule, needless):
        """An exception goes with what it excused."""
        for name in sorted(needless):
            self.report("scripts/tidy_structure.py", 1, rule, "%s needs no exception" % name)


def circles(graph):
    """The strongly connected parts of more than one node (Tarjan, without recursion)."""
    order, low, stack, on, found = {}, {}, [], set(), []
    for root in sorted(graph):
        if root in order:
            continue
        work = [(root, iter(sorted(graph[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in on:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = []
                    while True:
                        other = stack.pop()
                        on.discard(other)
                        part.append(other)
                        if other == node:
                            break
                    if len(part) > 1:
                        found.append(sorted(part))
    return found
