"""The command line: one command a file, thin over the library.

Nothing heavy is imported here, so that Ctrl-C is answered from the first moment on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["INTERRUPTED", "main"]

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line; importing the library takes seconds, and Ctrl-C meanwhile ends it in one line."""
    with _leaving_on_interrupt():
        from ridgeformer.cli.commands import run_command
    run_command()


@contextmanager
def _leaving_on_interrupt() -> Iterator[None]:
    """End the process at Ctrl-C instead of raising: an exception would surface in whatever is being imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield  # interrupts are ignored or handled by someone else
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(number: int, frame: FrameType | None) -> None:
    print("error: interrupted before anything was done.", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)
