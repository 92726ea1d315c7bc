"""The command line, thin over the library.

Commands import what they need when they run, so that help, version and usage errors come without torch.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "importing", "main"]

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command that `sys.argv` names."""
    with importing():
        from ridgeformer.cli.commands import run_command
    run_command()


@contextmanager
def importing() -> Iterator[None]:
    """End the process at Ctrl-C with one line while a library is imported.

    A KeyboardInterrupt would surface inside whichever module is being imported, and torch takes seconds.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield  # interrupts are ignored, or somebody else handles them
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(number: int, frame: FrameType | None) -> None:
    print("error: interrupted during start-up; nothing was written.", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)
