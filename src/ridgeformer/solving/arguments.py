"""The arguments of `solve`, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import Algorithm, Preconditioned, resolve
from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.memory import free_bytes, show_bytes
from ridgeformer.kernels import Kernel
from ridgeformer.solving.engines import ENGINES, Engine
from ridgeformer.solving.preconditioners import builder
from ridgeformer.solving.run import Callback

__all__ = ["TOLERANCE", "Arguments", "check_arguments", "check_engine", "check_memory"]

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""The relative residual asked for unless told."""


@dataclass(frozen=True)
class Arguments:
    """The options of `solve` in usable form."""

    algorithm: Algorithm
    ridge: float
    tol: float
    seed: int
    callback: Callback | None = None
    keep: bool = False


def check_arguments(
    kernel: Any, X: Tensor, ridge: Any, algorithm: str | Algorithm, tol: Any = None, seed: Any = 0
) -> Arguments:
    """Return the arguments in usable form, or say which one is wrong, what was expected and what to do."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel object was expected, such as Exponential(temperature=1.0).")
    algorithm = resolve(algorithm)
    if isinstance(algorithm, Preconditioned):
        builder(algorithm.preconditioner)  # an unknown one is refused before anything is computed
    ridge = positive(ridge, "ridge", "without it the system may be singular")
    largest = torch.finfo(X.dtype).max / 1e6
    if ridge > largest:
        raise InputError(f"ridge is {ridge:g}; {X.dtype} holds at most {largest:.0e}: every prediction would be zero.")
    tol = TOLERANCE[X.dtype] if tol is None else positive(tol, "tol", "it is a relative residual")
    if tol >= 1:
        raise InputError(f"tol is {tol:g}; a relative residual between 0 and 1 was expected.")
    return Arguments(algorithm, ridge, tol, whole(seed, "seed", 0))


def check_engine(engine: Any) -> tuple[str | None, Engine | None]:
    """Return the name of an engine and the engine itself, where each was given."""
    if engine is None or engine == "auto":
        return None, None
    if isinstance(engine, Engine):
        return engine.name, engine
    if not isinstance(engine, str):
        raise InputError(f"engine is {engine!r}; a name ({', '.join(sorted(ENGINES))}) or an Engine was expected.")
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    return engine, None


def check_memory(n: int, dtype: torch.dtype) -> None:
    """Refuse a direct solve whose matrices do not fit: K, its factor and a working copy."""
    needed = 3 * n * n * (torch.finfo(dtype).bits // 8)
    free = free_bytes()
    if needed > free:
        raise InputError(
            f"a direct solve of {n:,} rows needs about {show_bytes(needed)} and {show_bytes(free)} are free: "
            "use algorithm='auto', which takes a plan that fits, or fewer rows."
        )
