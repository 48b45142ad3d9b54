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


def header(path, body="", guard=None):
    public = path[len("include/"):] if path.startswith("include/") else path
    guard = guard or re.sub(r"[^A-Za-z0-9]", "_", public).upper()
    return ("/*\n * %s -- a part.\n *\n * Why: it is needed.\n * Ownership: none.\n * Threads:   any.\n"
            " * Limits:    none.\n */\n#ifndef %s\n#define %s\n\n%s\n#endif /* %s */\n" %
            (public, guard, guard, body, guard))


def function(lines):
    return "int\nlong_one(void)\n{\n" + "    ;\n" * (lines - 1) + "    return 0;\n}\n"


# A tree with nothing wrong in it, that uses every arrow and looks close to each rule's edge.
CLEAN = {
    "include/kvtier/a.h": header("include/kvtier/a.h", "int kvt_a(void);\n"),
    "base/b.h": header("base/b.h", '#include "kvtier/a.h"\n\nint kvt_b(void);\n'),
    "base/b.c": '#include "base/b.h"\n\n/* malloc(1), strcpy(a, b) in a comment */\n'
                'static const char text[] = "free(x) and sprintf(y)";\n',
    "base/core/alloc.c": "void *f(void);\nvoid *\nf(void)\n{\n    return malloc(1);\n}\n",
    "wire/w.c": '#include "wire/w.h"\n\n#include "base/b.h"\n',
    "index/i.h": header("index/i.h"),
    "kvbm/k.h": header("kvbm/k.h"),
    "kvbm/k.c": '#include "kvbm/k.h"\n\n#include "base/b.h"\n',
    "worker/main.c": '#include "g4/g.h"\n#include "index/i.h"\n#include "kvbm/k.h"\n',
    "worker/x.c": '#include "config/worker.def"\n#include "g4/g.h"\n#include "wire/w.h"\n',
    "kvbm/cuda/c.c": "#include <cuda.h>\n",
    "g4/g.h": header("g4/g.h"),
    "advisor/a.c": '#include "advisor/a.h"\n\n#include "index/i.h"\n#include "wire/w.h"\n',
    "wire/w.h": header("wire/w.h"),
    "gateway/g.c": '#include "config/gateway.def"\n#include "g4/g.h"\n',
    "cli/c.c": '#include "advisor/a.h"\n',
    "advisor/a.h": header("advisor/a.h"),
    "config/worker.def": '#include "config/common.def"\n',
    "config/gateway.def": "\n",
    "config/common.def": "\n",
    "tests/unit/t.c": '#include "gateway/g.h"\n#include "kvbm/k.h"\n',
    "tests/unit/u.c": "void f(void *x)\n{\n    free(x);\n}\n",
    "bench/b.c": '#include "gateway/g.h"\n#include "cli/c.h"\n',
    "base/edge.c": "\n" * 697 + function(90) + "struct s {\n    int system;\n};\n"
                   "typedef enum e (*callback)(struct s *arg);\nint x_free(struct s *s);\n"
                   "static int use(struct s *s)\n{\n    return s->free(1) + x_free(s);\n}\n",
    "base/excused.c": "void f(void)\n{\n    free(0); /* tidy-allow: raw-heap, a library's memory */\n}\n",
    "advisor/CMakeLists.txt": "kvt_library(kvt_advisor SOURCES a.c\n  DEPENDS kvt_base kvt_wire\n"
                              "  kvt_index kvt_nats) # not kvt_gateway\n",
    "kvbm/CMakeLists.txt": "kvt_library(kvt_kvbm SOURCES k.c DEPENDS kvt_base)\n"
                           "kvt_program(kvtier-worker SOURCES main.c DEPENDS kvt_kvbm kvt_g4 kvt_wire)\n",
    "README.md": "Run it in ${HOME}/" + "wo" + "rk/x or ./" + "wo" + "rk/x; a mktemp name ends in "
                 "XXXXXX.\n",
    "data.bin": "\0" + "TO" + "DO",
}

# (what is planted, where, line, rule)
PLANTED = [
    ({"include/kvtier/a.h": header("include/kvtier/a.h", '#include "base/b.h"\n')},
     "include/kvtier/a.h", 12, "arrow"),
    ({"base/b.c": '#include "base/b.h"\n\n#include "wire/w.h"\n'}, "base/b.c", 3, "arrow"),
    ({"wire/x.c": '#include "index/i.h"\n'}, "wire/x.c", 1, "arrow"),
    ({"index/i.c": '#include "index/i.h"\n\n#include "wire/w.h"\n'}, "index/i.c", 3, "arrow"),
    ({"kvbm/k.c": '#include "kvbm/k.h"\n\n#include "g4/g.h"\n'}, "kvbm/k.c", 3, "arrow"),
    ({"kvbm/other.c": '#include "worker/x.h"\n'}, "kvbm/other.c", 1, "arrow"),
    ({"worker/x.c": '#include "gateway/g.h"\n'}, "worker/x.c", 1, "arrow"),
    ({"worker/main.c": '#include "advisor/a.h"\n'}, "worker/main.c", 1, "arrow"),
    ({"g4/g.c": '#include "g4/g.h"\n\n#include "wire/w.h"\n'}, "g4/g.c", 3, "arrow"),
    ({"advisor/b.c": '#include "g4/g.h"\n'}, "advisor/b.c", 1, "arrow"),
    ({"gateway/g.c": '#include "index/i.h"\n'}, "gateway/g.c", 1, "arrow"),
    ({"cli/c.c": '#include "gateway/g.h"\n'}, "cli/c.c", 1, "arrow"),
    ({"g4/x.c": '#include "config/gateway.def"\n'}, "g4/x.c", 1, "arrow"),
    ({"base/x.c": '#include "b.h"\n'}, "base/x.c", 1, "arrow"),
    ({"base/x.c": '#include "../wire/w.h"\n'}, "base/x.c", 1, "arrow"),
    ({"g4/CMakeLists.txt": "kvt_library(kvt_g4\n  SOURCES g.c\n  DEPENDS kvt_base\n  kvt_wire)\n"},
     "g4/CMakeLists.txt", 4, "arrow"),
    ({"base/b.c": '#include <stdio.h>\n\n#include "base/b.h"\n'}, "base/b.c", 1, "own-header-first"),
    ({"kvbm/k.c": '#include "kvbm/k.h"\n\n#include <cuda.h>\n'}, "kvbm/k.c", 3, "cuda"),
    ({"g4/x.c": "#include <cuda_runtime.h>\n"}, "g4/x.c", 1, "cuda"),
    ({"tests/unit/t.c": "void f(void)\n{\n    (void)sprintf(0, 0);\n}\n"}, "tests/unit/t.c", 3,
     "banned-call"),
    ({"base/x.c": "int x = atoi (\"1\");\n"}, "base/x.c", 1, "banned-call"),
    ({"base/x.c": "void f(void)\n{\n    /* a */ system(\"ls\");\n}\n"}, "base/x.c", 3, "banned-call"),
    ({"g4/x.c": "void *x = malloc(1);\n"}, "g4/x.c", 1, "raw-heap"),
    ({"base/core/alloc.h": header("base/core/alloc.h", "#define F(x) free(x)\n")}, "base/core/alloc.h", 12, "raw-heap"),
    ({"g4/x.c": "void *x = malloc(1); /* tidy-allow: typedef, the wrong rule */\n"}, "g4/x.c", 1,
     "raw-heap"),
    ({"g4/x.c": "void *x = malloc(1); /* tidy-allow: raw-heap, */\n"}, "g4/x.c", 1, "raw-heap"),
    ({"g4/x.c": "typedef struct x y;\n"}, "g4/x.c", 1, "typedef"),
    ({"g4/x.c": "typedef enum {\n    A\n} b;\n"}, "g4/x.c", 1, "typedef"),
    ({"base/b.h": header("base/b.h", guard="B_H")}, "base/b.h", 9, "guard"),
    ({"base/b.h": header("base/b.h").replace("#endif /* BASE_B_H */", "#endif")}, "base/b.h", 13,
     "guard"),
    ({"base/b.h": header("base/b.h").split("#ifndef")[0]}, "base/b.h", 1, "guard"),
    ({"base/b.h": header("base/b.h").replace("base/b.h --", "b.h --")}, "base/b.h", 1,
     "header-comment"),
    ({"base/b.h": header("base/b.h").replace(" * Threads:   any.\n", "")}, "base/b.h", 1,
     "header-comment"),
    ({"base/b.h": header("base/b.h").replace("none.\n * Threads:", "none. Threads:")}, "base/b.h", 1,
     "header-comment"),
    ({"base/b.h": header("base/b.h", "size_t kvt_b(void);\n")}, "base/b.h", 1, "header-alone"),
    ({"base/x.c": "\n" * 801}, "base/x.c", 801, "file-size"),
    ({"base/x.c": function(91)}, "base/x.c", 3, "function-size"),
    ({"base/x.c": "int\ta;\n"}, "base/x.c", 1, "layout"),
    ({"base/x.c": "int a; \n"}, "base/x.c", 1, "layout"),
    ({"base/x.c": "int a;\r\n"}, "base/x.c", 1, "layout"),
    ({"base/x.c": "int a;"}, "base/x.c", 1, "layout"),
    ({"base/x.c": "/* " + "a" * 95 + " */\n"}, "base/x.c", 1, "layout"),
    ({"docs/x.md": "one\nTO" + "DO: two\n"}, "docs/x.md", 2, "leftover"),
    ({"scripts/x": "# FIX" + "ME\n"}, "scripts/x", 1, "leftover"),
    ({"base/x.c": "/* X" + "XX */\n"}, "base/x.c", 1, "leftover"),
    ({"deploy/x.yaml": "a: /ho" + "me/me/x\n"}, "deploy/x.yaml", 1, "machine-path"),
    ({"scripts/x": "cd /wo" + "rk/x\n"}, "scripts/x", 1, "machine-path"),
    ({"base/x.c": 'static const char path[] = "/ro' + 'ot/x";\n'}, "base/x.c", 1, "machine-path"),
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
        check(len(lines) == 1 and lines[0].startswith("base/edge.c:700: note: long_one() has 90 lines"),
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
        lay_down(folder, {".gitignore": "build/\n", "build/x.c": "int a; \n", "base/x.c": "int a;\n"})
        check(run(folder, "--no-compile").returncode == 0, "an ignored file was read")
        lay_down(folder, {"base/y.c": "int a; \n"})
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
