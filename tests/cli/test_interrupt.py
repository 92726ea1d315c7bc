"""Ctrl-C at bad moments: one line and exit code 130, never a traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest


@pytest.fixture(autouse=True)
def _default_interrupt():
    """Processes started from a script in the background inherit an ignored SIGINT; those started here must not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


AT_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["ridgeformer", "solve", "wine"]
from ridgeformer.cli import main
main()
"""


@pytest.mark.parametrize("name", ["torch", "typer", "rich.console", "ridgeformer.cli.diagnose", "ridgeformer.solving"])
def test_an_interrupt_while_the_library_is_imported(name):
    done = subprocess.run([sys.executable, "-c", AT_IMPORT.format(name=name)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted during start-up; nothing was written.\n")


def test_an_ignored_interrupt_stays_ignored():
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + AT_IMPORT.format(name="torch")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("workers", ["--processes", "--workers"])
def test_an_interrupt_while_workers_start(workers, tmp_path):
    """A terminal sends it to the workers too; they are interrupted while they import unless it is kept from them."""
    arguments = ["studies", "run", "depth-accuracy", "--store", "a.db", workers, "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ridgeformer", *arguments],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for_children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=100)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, "Traceback" in said) == (130, False), said
    assert "To resume: ridgeformer studies run depth-accuracy" in said


def wait_for_children(pid):
    """Return when a process has a child that has loaded something: it is importing then."""
    for _ in range(6000):
        for child in children(pid):
            with open(f"/proc/{child}/cmdline") as file:
                if "resource_tracker" not in file.read():
                    time.sleep(0.3)
                    return
        time.sleep(0.01)
    raise AssertionError("no worker was started")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        found = file.read().split()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            found += file.read().split()
    return found
