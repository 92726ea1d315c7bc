"""Engines: one way a file to hold a kernel matrix and multiply by it.

A new one is a file with an `Engine`, and one line in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.kernels import FeatureKernel, Kernel, LogitKernel
from ridgeformer.solving.engines.attention import Attention
from ridgeformer.solving.engines.base import Engine
from ridgeformer.solving.engines.dask_tiles import DaskTiles
from ridgeformer.solving.engines.fused import Fused
from ridgeformer.solving.engines.stored import Features, Stored
from ridgeformer.solving.engines.tiles import Tiles
from ridgeformer.solving.engines.triangle import Triangle

__all__ = [
    "ENGINES",
    "Attention",
    "DaskTiles",
    "Engine",
    "Features",
    "Fused",
    "Stored",
    "Tiles",
    "Triangle",
    "build_engine",
]

ENGINES: dict[str, Callable[..., Engine]] = {
    "attention": Attention,
    "dask": DaskTiles,
    "features": Features,
    "fused": Fused,
    "stored": Stored,
    "tiles": Tiles,
    "triangle": Triangle,
}
"""Engines by name, built from a kernel, the rows and the working precision."""

NEEDS: dict[str, tuple[type[Kernel], str]] = {
    "attention": (LogitKernel, "an exponential or Gaussian kernel"),
    "features": (FeatureKernel, "a kernel with a feature map"),
    "fused": (LogitKernel, "an exponential or Gaussian kernel"),
}


def build_engine(name: str, kernel: Kernel, X: Tensor, working: torch.dtype, **options: object) -> Engine:
    """Return the named engine for these rows, with its own options.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> build_engine("tiles", Exponential(1.0), torch.zeros(3, 1), torch.float32).n
        3
    """
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    if name in NEEDS and not isinstance(kernel, NEEDS[name][0]):
        raise InputError(
            f"the engine {name!r} needs {NEEDS[name][1]}, and {kernel.name!r} is not one: "
            "use engine='stored' or 'tiles'."
        )
    return ENGINES[name](kernel, X, working, **options)
