#!/usr/bin/env python3
"""Plant every violation scripts/tidy knows in a clean little tree and see it reported, alone.

Usage: tidy_selftest.py PATH-OF-TIDY COMPILER
"""
import os
import re
import subprocess
import sys
import tempfile

TIDY, COMPILER = sys.argv[1:3]


def header(path, body="", guard=None, padding=50):
    public = path[len("include/"):] if path.startswith("include/") else path
    guard = guard or re.sub(r"[^A-Za-z0-9]", "_", public).upper()
    return ("/*\n * %s -- a part.\n *\n * Why: it is needed.\n * Ownership: the caller's.\n"
            " * Threads:   one.\n * Limits:    none of its own.\n */\n#ifndef %s\n#define %s\n\n%s\n%s"
            "#endif /* %s */\n" % (public, guard, guard, body, "\n" * padding, guard))


def function(lines):
    return "int\nlong_one(void)\n{\n" + "    ;\n" * (lines - 1) + "    return 0;\n}\n"


# A tree with nothing wrong in it, that uses every arrow and looks close to each rule's edge.
CLEAN = {
    "include/kvtier/a.h": header("include/kvtier/a.h", "int kvt_a(void);\n"),
    "base/core/b.h": header("base/core/b.h", '#include "kvtier/a.h"\n\nint kvt_b(void);\n'),
    "base/core/b.c": '#include "base/core/b.h"\n\n/* malloc(1), strcpy(a, b) in a comment */\n'
                'static const char text[] = "free(x) and sprintf(y)";\n',
    "base/core/alloc.c": "void *f(void);\nvoid *\nf(void)\n{\n    return malloc(1);\n}\n",
    "wire/message/w.c": '#include "wire/message/w.h"\n\n#include "base/core/b.h"\n',
    "index/holder/i.h": header("index/holder/i.h"),
    "kvbm/pool/k.h": header("kvbm/pool/k.h"),
    "kvbm/pool/k.c": '#include "kvbm/pool/k.h"\n\n#include "base/core/b.h"\n',
    "worker/main.c": '#include "g4/object/g.h"\n#include "index/holder/i.h"\n#include "kvbm/pool/k.h"\n',
    "worker/replay/wx.c": '#include "config/worker.def"\n#include "g4/object/g.h"\n#include "wire/message/w.h"\n',
    "kvbm/cuda/cu.c": "#include <cuda.h>\n",
    "g4/object/g.h": header("g4/object/g.h"),
    "advisor/round/ad.c": '#include "advisor/round/ad.h"\n\n#include "index/holder/i.h"\n#include "wire/message/w.h"\n',
    "wire/message/w.h": header("wire/message/w.h"),
    "gateway/tier/gw.c": '#include "config/gateway.def"\n#include "g4/object/g.h"\n',
    "cli/frame/cl.c": '#include "advisor/round/ad.h"\n',
    "advisor/round/ad.h": header("advisor/round/ad.h"),
    "config/worker.def": '#include "config/common.def"\n',
    "config/gateway.def": "\n",
    "config/common.def": "\n",
    "tests/unit/t.c": '#include "gateway/tier/gw.h"\n#include "kvbm/pool/k.h"\n',
    "tests/unit/u.c": "void f(void *x)\n{\n    free(x);\n}\n",
    # A private header and a family beside its own module; a public header and its source.
    "g4/lock/lease_internal.h": header("g4/lock/lease_internal.h"),
    "g4/lock/lease.c": '#include "g4/lock/lease.h"\n\n#include "g4/lock/lease_internal.h"\n\n'
                       "int\ng4_lease_used(void)\n{\n    return 0;\n}\n",
    "g4/lock/lease.h": header("g4/lock/lease.h", "int g4_lease_used(void);\n"),
    "g4/lock/lease_user.c": '#include "g4/lock/lease.h"\n\nint x(void)\n{\n    return g4_lease_used();\n}\n',
    "base/core/a.c": '#include "kvtier/a.h"\n',
    "bench/b.c": '#include "gateway/tier/gw.h"\n#include "cli/frame/cl.h"\n',
    "base/core/edge.c": "\n" * 697 + function(90) + "struct s {\n    int system;\n};\n"
                   "typedef enum e (*callback)(struct s *arg);\nint x_free(struct s *s);\n"
                   "static int use(struct s *s)\n{\n    return s->free(1) + x_free(s);\n}\n",
    "base/core/excused.c": "void f(void)\n{\n    free(0); /* tidy-allow: raw-heap, a library's memory */\n}\n",
    "advisor/CMakeLists.txt": "kvt_library(kvt_advisor SOURCES a.c\n  DEPENDS kvt_base kvt_wire\n"
                              "  kvt_index kvt_nats) # not kvt_gateway\n",
    "kvbm/CMakeLists.txt": "kvt_library(kvt_kvbm SOURCES k.c DEPENDS kvt_base)\n"
                           "kvt_program(kvtier-worker SOURCES main.c DEPENDS kvt_kvbm kvt_g4 kvt_wire)\n",
    "docs/architecture.md": "1. [`g4/lock/lease.c:g4_lease_used`](../g4/lock/lease.c) and\n"
                            "2. [`base/core/alloc.c:f`](../base/core/alloc.c).\n\n# Another\n\n"
                            "1. [`g4/lock/lease.c:g4_lease_used`](../g4/lock/lease.c)\n",
    "README.md": "Run it in ${HOME}/" + "wo" + "rk/x or ./" + "wo" + "rk/x; a mktemp name ends in "
                 "XXXXXX.\n",
    "data.bin": "\0" + "TO" + "DO",
}

# (what is planted, where, line, rule)
PLANTED = [
    ({"include/kvtier/a.h": header("include/kvtier/a.h", '#include "gateway/tier/gw.h"\n')},
     "include/kvtier/a.h", 12, "arrow"),
    ({"base/core/b.c": '#include "base/core/b.h"\n\n#include "gateway/tier/gw.h"\n'}, "base/core/b.c", 3,
     "arrow"),
    ({"wire/message/x.c": '#include "index/holder/i.h"\n'}, "wire/message/x.c", 1, "arrow"),
    ({"index/holder/i.c": '#include "index/holder/i.h"\n\n#include "wire/message/w.h"\n'}, "index/holder/i.c", 3, "arrow"),
    ({"kvbm/pool/k.c": '#include "kvbm/pool/k.h"\n\n#include "g4/object/g.h"\n'}, "kvbm/pool/k.c", 3, "arrow"),
    ({"kvbm/pool/other.c": '#include "worker/replay/wx.h"\n'}, "kvbm/pool/other.c", 1, "arrow"),
    ({"worker/replay/wx.c": '#include "gateway/tier/gw.h"\n'}, "worker/replay/wx.c", 1, "arrow"),
    ({"worker/main.c": '#include "advisor/round/ad.h"\n'}, "worker/main.c", 1, "arrow"),
    ({"g4/object/g.c": '#include "g4/object/g.h"\n\n#include "wire/message/w.h"\n'}, "g4/object/g.c", 3, "arrow"),
    ({"advisor/round/ae.c": '#include "g4/object/g.h"\n'}, "advisor/round/ae.c", 1, "arrow"),
    ({"gateway/tier/gw.c": '#include "index/holder/i.h"\n'}, "gateway/tier/gw.c", 1, "arrow"),
    ({"cli/frame/cl.c": '#include "gateway/tier/gw.h"\n'}, "cli/frame/cl.c", 1, "arrow"),
    ({"g4/object/x.c": '#include "config/gateway.def"\n'}, "g4/object/x.c", 1, "arrow"),
    ({"base/core/x.c": '#include "b.h"\n'}, "base/core/x.c", 1, "arrow"),
    ({"base/core/x.c": '#include "../wire/w.h"\n'}, "base/core/x.c", 1, "arrow"),
    ({"g4/CMakeLists.txt": "kvt_library(kvt_g4\n  SOURCES g.c\n  DEPENDS kvt_base\n  kvt_wire)\n"},
     "g4/CMakeLists.txt", 4, "arrow"),
    ({"gateway/tier/up.c": '#include "gateway/block/over.h"\n'}, "gateway/tier/up.c", 1, "arrow"),
    ({"cli/lost/x.c": "\n"}, "cli/lost/x.c", 1, "folder"),
    ({"lost/x.c": "\n"}, "lost/x.c", 1, "folder"),
    ({"index/table/t%02d.c" % i: "\n" for i in range(41)}, "index/table/t40.c", 1, "folder-size"),
    ({"wire/nats/w.c": "\n"}, "wire/nats/w.c", 1, "basename"),
    ({"policy/file/a.c": "\n"}, "policy/file/a.c", 1, "basename"),
    ({"base/core/one.h": header("base/core/one.h", '#include "base/core/two.h"\n'),
      "base/core/two.h": header("base/core/two.h", '#include "base/core/one.h"\n')},
     "base/core/one.h", 12, "circle"),
    ({"g4/packed/p.c": '#include "g4/lock/lease_internal.h"\n'}, "g4/packed/p.c", 1, "private"),
    ({"base/core/small.h": header("base/core/small.h", padding=0),
      "base/core/small.c": '#include "base/core/small.h"\n',
      "tests/unit/small_test.c": '#include "base/core/small.h"\n'}, "base/core/small.h", 1, "lone-header"),
    ({"base/core/fn.h": header("base/core/fn.h", "int\nkvt_fn(int a);\n"),
      "base/core/fn.c": '#include "base/core/fn.h"\n\nint\nkvt_fn(int a)\n{\n    return a;\n}\n',
      "tests/unit/fn_test.c": '#include "base/core/fn.h"\n\nint y(void)\n{\n    return kvt_fn(1);\n}\n'},
     "base/core/fn.h", 13, "unused-export"),
    ({"base/core/b.c": '#include <stdio.h>\n\n#include "base/core/b.h"\n'}, "base/core/b.c", 1, "own-header-first"),
    ({"kvbm/pool/k.c": '#include "kvbm/pool/k.h"\n\n#include <cuda.h>\n'}, "kvbm/pool/k.c", 3, "cuda"),
    ({"g4/object/x.c": "#include <cuda_runtime.h>\n"}, "g4/object/x.c", 1, "cuda"),
    ({"tests/unit/t.c": "void f(void)\n{\n    (void)sprintf(0, 0);\n}\n"}, "tests/unit/t.c", 3,
     "banned-call"),
    ({"base/core/x.c": "int x = atoi (\"1\");\n"}, "base/core/x.c", 1, "banned-call"),
    ({"base/core/x.c": "void f(void)\n{\n    /* a */ system(\"ls\");\n}\n"}, "base/core/x.c", 3, "banned-call"),
    ({"g4/object/x.c": "void *x = malloc(1);\n"}, "g4/object/x.c", 1, "raw-heap"),
    ({"base/core/alloc.h": header("base/core/alloc.h", "#define F(x) free(x)\n")}, "base/core/alloc.h", 12, "raw-heap"),
    ({"g4/object/x.c": "void *x = malloc(1); /* tidy-allow: typedef, the wrong rule */\n"}, "g4/object/x.c", 1,
     "raw-heap"),
    ({"g4/object/x.c": "void *x = malloc(1); /* tidy-allow: raw-heap, */\n"}, "g4/object/x.c", 1, "raw-heap"),
    ({"g4/object/x.c": "typedef struct x y;\n"}, "g4/object/x.c", 1, "typedef"),
    ({"g4/object/x.c": "typedef enum {\n    A\n} b;\n"}, "g4/object/x.c", 1, "typedef"),
    ({"base/core/b.h": header("base/core/b.h", guard="B_H")}, "base/core/b.h", 9, "guard"),
    ({"base/core/b.h": header("base/core/b.h").replace("#endif /* BASE_CORE_B_H */", "#endif")}, "base/core/b.h", 63,
     "guard"),
    ({"base/core/b.h": header("base/core/b.h").split("#ifndef")[0]}, "base/core/b.h", 1, "guard"),
    ({"base/core/b.h": header("base/core/b.h").replace("base/core/b.h --", "b.h --")}, "base/core/b.h", 1,
     "header-comment"),
    ({"base/core/b.h": header("base/core/b.h").replace(" * Why: it is needed.\n", "")}, "base/core/b.h",
     1, "header-comment"),
    ({"base/core/b.h": header("base/core/b.h").replace("   one.", "   any.")}, "base/core/b.h", 6,
     "header-comment"),
    ({"base/core/b.h": header("base/core/b.h", "size_t kvt_b(void);\n")}, "base/core/b.h", 1, "header-alone"),
    ({"base/core/x.c": "\n" * 801}, "base/core/x.c", 801, "file-size"),
    ({"base/core/x.c": function(91)}, "base/core/x.c", 3, "function-size"),
    ({"docs/architecture.md": "\n1. [`base/core/alloc.c:g`](../base/core/alloc.c)\n"},
     "docs/architecture.md", 2, "walk"),
    ({"docs/architecture.md": "1. [`base/core/alloc.c:f`](../base/core/gone.c)\n"},
     "docs/architecture.md", 1, "walk"),
    ({"docs/architecture.md": "1. [`base/core/gone.c:f`](../base/core/gone.c)\n"},
     "docs/architecture.md", 1, "walk"),
    ({"docs/architecture.md": "1. [`base/core/alloc.c:f`](../base/core/alloc.c)\n"
                              "2. [`g4/lock/lease.c:g4_lease_used`](../g4/lock/lease.c)\n"
                              "3. [`base/core/alloc.c:f`](../base/core/alloc.c)\n"},
     "docs/architecture.md", 3, "walk"),
    ({"base/core/x.c": "int\ta;\n"}, "base/core/x.c", 1, "layout"),
    ({"base/core/x.c": "int a; \n"}, "base/core/x.c", 1, "layout"),
    ({"base/core/x.c": "int a;\r\n"}, "base/core/x.c", 1, "layout"),
    ({"base/core/x.c": "int a;"}, "base/core/x.c", 1, "layout"),
    ({"base/core/x.c": "/* " + "a" * 95 + " */\n"}, "base/core/x.c", 1, "layout"),
    ({"docs/x.md": "one\nTO" + "DO: two\n"}, "docs/x.md", 2, "leftover"),
    ({"scripts/x": "# FIX" + "ME\n"}, "scripts/x", 1, "leftover"),
    ({"base/core/x.c": "/* X" + "XX */\n"}, "base/core/x.c", 1, "leftover"),
    ({"deploy/x.yaml": "a: /ho" + "me/me/x\n"}, "deploy/x.yaml", 1, "machine-path"),
    ({"scripts/x": "cd /wo" + "rk/x\n"}, "scripts/x", 1, "machine-path"),
    ({"base/core/x.c": 'static const char path[] = "/ro' + 'ot/x";\n'}, "base/core/x.c", 1, "machine-path"),
]


def lay_down(folder, files):
    for path, text in files.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def run(folder, *more):
    return subprocess.run([sys.executable, TIDY, "--root", folder, "--cc", COMPILER, *more],
                          capture_output=True, text=True, check=False)


def check(condition, message):
    if not condition:
        sys.exit("tidy_selftest: " + message)


def check_clean():
    with tempfile.TemporaryDirectory() as folder:
        lay_down(folder, CLEAN)
        result = run(folder)
        check(result.returncode == 0, "the clean tree is not clean:\n" + result.stdout + result.stderr)
        lines = result.stdout.splitlines()
        check(len(lines) == 1 and lines[0].startswith("base/core/edge.c:700: note: long_one() has 90 lines"),
              "expected one note about a longish function:\n" + result.stdout)


def check_planted(files, path, line, rule):
    with tempfile.TemporaryDirectory() as folder:
        lay_down(folder, {**CLEAN, **files})
        result = run(folder, *([] if rule == "header-alone" else ["--no-compile"]))
        found = [row for row in result.stdout.splitlines() if row.endswith("]")]
        wanted = re.compile(r"%s:%d: .+ \[%s\]$" % (re.escape(path), line, rule))
        check(result.returncode == 1, "%s in %s was not reported" % (rule, files))
        # A header that is broken in one way also fails whoever includes it: only then more is right.
        check(len(found) == 1 or rule == "header-alone", "%s in %s: %s" % (rule, files, found))
        check(any(wanted.match(row) for row in found),
              "%s in %s: wanted %s, found %s" % (rule, files, wanted.pattern, found))


def check_git():
    """What git ignores is nobody's business; what it would add is."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        lay_down(folder, {".gitignore": "build/\n", "build/x.c": "int a; \n", "base/core/x.c": "int a;\n"})
        check(run(folder, "--no-compile").returncode == 0, "an ignored file was read")
        lay_down(folder, {"base/core/y.c": "int a; \n"})
        check(run(folder, "--no-compile").returncode == 1, "a file not yet added was not read")


def check_every_rule_is_planted():
    listed = {line.split()[0] for line in run(".", "--rules").stdout.splitlines()}
    planted = {row[3] for row in PLANTED}
    check(listed == planted, "rules %s, planted %s" % (sorted(listed), sorted(planted)))


def main():
    check_every_rule_is_planted()
    check_clean()
    for row in PLANTED:
        check_planted(*row)
    check_git()
    print("%d violations planted, each found where it was" % len(PLANTED))


main()
