"""What docs/engines.md shows runs, but for what needs a server."""

import os
import re

import conftest


def test_the_documented_program_runs(capsys):
    with open(os.path.join(conftest.ROOT, "docs", "engines.md"), encoding="utf-8") as file:
        programs = re.findall(r"^```py\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    ours = [program for program in programs if "Transfer(" in program]
    assert len(ours) == 1
    exec(compile(ours[0], "docs/engines.md", "exec"), {})
    assert "4 of 4 layers" in capsys.readouterr().out
