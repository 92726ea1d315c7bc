"""Help, version, lists and usage errors come quickly: without torch, scikit-learn and whatever else is slow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "sklearn", "scipy", "pyarrow", "plotly", "pandas", "numba", "dask", "dash", "matplotlib")
SECONDS = 0.5
"""Processor time allowed from the start of Python to its exit."""

MEASURED = """
import json, os, sys
from ridgeformer.cli import main
sys.argv = ["ridgeformer", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    times = os.times()
    print(json.dumps([end.code, times.user + times.system, sorted(sys.modules)]), file=sys.stderr)
"""


def start(*arguments, cwd):
    """Run a command in a process of its own: exit code, processor seconds, imported modules."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], capture_output=True, text=True, check=True, cwd=cwd
    )
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--help",), 0),
        (("--version",), 0),
        ((), 0),
        (("data", "list"), 0),
        (("data", "list", "--json"), 0),
        (("data", "show", "wine"), 0),
        (("audit", "--help"), 0),
        (("solve", "--help"), 0),
        (("compile", "--help"), 0),
        (("studies", "run", "--help"), 0),
        (("slve",), 2),
        (("solve",), 2),
        (("solve", "wine", "--rigde", "1"), 2),
        (("solve", "wine", "--ridge", "much"), 2),
        (("solve", "digts"), 2),
        (("solve", "wine", "--kernel", "exponentail"), 2),
        (("solve", "wine", "--algorithm", "pgc"), 2),
        (("audit", "missing.csv"), 2),
        (("compile", "--features", "0", "--out", "model"), 2),
    ],
)
def test_a_quick_command_imports_nothing_heavy(arguments, code, tmp_path):
    ended, seconds, modules = start(*arguments, cwd=tmp_path)
    assert ended == code
    assert [name for name in HEAVY if name in modules] == []
    assert seconds < SECONDS
    if "list" not in arguments and "show" not in arguments and code == 0:
        assert "numpy" not in modules


def test_importing_the_library_is_not_slower_than_importing_torch(tmp_path):
    """The package imports its names on first use, so it costs next to nothing; a tenth is allowed."""

    def seconds(code):
        code = f"import os\n{code}\ntimes = os.times()\nprint(times.user + times.system)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        return float(done.stdout)

    assert min(seconds("import ridgeformer") for _ in range(2)) < 1.1 * seconds("import torch")


def test_the_names_offered_are_those_of_the_library():
    from ridgeformer.algorithms import SHORTHANDS
    from ridgeformer.cli import solve
    from ridgeformer.kernels import KERNELS
    from ridgeformer.solving import ENGINES, PRECONDITIONERS

    compiled_only = {"nadaraya_watson"}  # one head, without a regression to solve
    for offered, known in (
        (solve.KERNELS, KERNELS),
        (solve.ALGORITHMS, set(SHORTHANDS) - compiled_only),
        (solve.ENGINES, {"auto", *ENGINES}),
        (solve.PRECONDITIONERS, PRECONDITIONERS),
    ):
        assert set(offered) == set(known)


@pytest.mark.parametrize(("words", "place", "completed"), [
    ("ridgeformer sol", 1, ["solve"]),
    ("ridgeformer solve di", 2, ["digits", "diabetes"]),
])  # fmt: skip
def test_a_shell_completes_commands_and_datasets(words, place, completed):
    """As bash asks after `ridgeformer --install-completion`."""
    asked = {"_RIDGEFORMER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    program = Path(sys.executable).with_name("ridgeformer")
    done = subprocess.run([program], env=os.environ | asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == completed, done.stderr
