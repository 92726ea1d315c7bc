"""Random generators from one seed, with an independent stream for each named purpose."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["numpy_generator", "spawn", "torch_generator"]


def spawn(seed: int, *purpose: str | int) -> np.random.SeedSequence:
    """Return the seed sequence that belongs to `purpose` under `seed`.

    The same seed and purpose give the same sequence in every process; different purposes give independent
    ones. Name the purpose of each draw: features and targets drawn from one stream are not independent.

    Example:
        >>> a, b = spawn(0, "features"), spawn(0, "targets")
        >>> bool(a.generate_state(1)[0] == b.generate_state(1)[0])
        False
    """
    key = tuple(part if isinstance(part, int) else zlib.crc32(part.encode()) for part in purpose)
    return np.random.SeedSequence(seed, spawn_key=key)


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return numpy's generator for one purpose under `seed`."""
    return np.random.default_rng(spawn(seed, *purpose))


def torch_generator(seed: int, *purpose: str | int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return torch's generator for one purpose under `seed`.

    Example:
        >>> import torch
        >>> torch.rand(1, generator=torch_generator(0, "noise")).shape
        torch.Size([1])
    """
    import torch

    state = spawn(seed, *purpose).generate_state(1, np.uint64)[0]
    return torch.Generator(device=device).manual_seed(int(state >> np.uint64(1)))
