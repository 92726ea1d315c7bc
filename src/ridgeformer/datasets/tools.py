"""Running the user's own package clients: found on PATH, called without a shell, errors in one line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ridgeformer.core.errors import FetchError

__all__ = ["find_tool", "run_tool"]

TIMEOUT_SECONDS = 3600


def find_tool(name: str, advice: str) -> str:
    """Return the full path of a program.

    Raises:
        FetchError: it is not on PATH; the message ends with `advice`.
    """
    path = shutil.which(name)
    if path is None:
        raise FetchError(f"{name} was not found on PATH: {advice}")
    return path


def run_tool(arguments: list[str], folder: Path) -> None:
    """Run a program in `folder` and wait for it.

    Raises:
        FetchError: it failed or took longer than an hour; the message quotes what it said.
    """
    called = " ".join([Path(arguments[0]).name, *arguments[1:]])
    try:
        done = subprocess.run(
            arguments,
            cwd=folder,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"`{called}` did not finish within an hour: check the connection and try again.") from None
    except OSError as error:
        raise FetchError(
            f"`{called}` could not be started ({error.strerror or error}): check the installation."
        ) from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:300] or "it said nothing"
        raise FetchError(f"`{called}` ended with code {done.returncode} ({said})")
