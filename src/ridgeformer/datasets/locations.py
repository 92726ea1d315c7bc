"""Where fetched data are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from ridgeformer.core.errors import FetchError

__all__ = ["ENVIRONMENT", "cannot_write", "datasets_folder", "root"]

ENVIRONMENT = "RIDGEFORMER_CACHE"
"""Environment variable that moves the cache."""


def root(cache_dir: str | Path | None = None) -> Path:
    """Return the cache directory: the argument, else $RIDGEFORMER_CACHE, else the user's cache directory.

    Example:
        >>> root("somewhere").is_absolute()
        True
    """
    chosen = cache_dir if cache_dir is not None else os.environ.get(ENVIRONMENT)
    if chosen is None or str(chosen) == "":
        return platformdirs.user_cache_path("ridgeformer")
    return Path(chosen).expanduser().absolute()


def datasets_folder(cache_dir: str | Path | None = None) -> Path:
    """Return the part of the cache that holds datasets.

    Example:
        >>> datasets_folder("somewhere").name
        'datasets'
    """
    return root(cache_dir) / "datasets"


def cannot_write(directory: Path, error: OSError) -> FetchError:
    """Build the error for a cache that cannot be written."""
    return FetchError(
        f"cannot write to the cache {directory} ({error.strerror or error}): make room, or set {ENVIRONMENT} to a "
        "directory you can write to."
    )
