"""The arguments of `solve`, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.memory import free_bytes, show_bytes
from ridgeformer.kernels import Kernel
from ridgeformer.solving.engines import ENGINES, Engine
from ridgeformer.solving.preconditioners import Builder, builder
from ridgeformer.solving.run import Callback

__all__ = ["METHODS", "TOLERANCE", "Arguments", "check_arguments", "check_engine", "check_memory"]

METHODS = (
    "auto", "direct", "mixed_direct", "mixed_pcg", "nystrom",
    "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov", "cg", "pcg",
)  # fmt: skip

PRECONDITIONED = {"auto": "pivoted", "mixed_pcg": "pivoted", "pcg": "nystrom"}
"""Methods that take a preconditioner, and the one they take unless told."""

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""The relative residual asked for unless told."""


@dataclass(frozen=True)
class Arguments:
    """What `solve` was asked to do, in usable form."""

    method: str
    ridge: float
    tol: float
    max_steps: int | None
    preconditioner: Builder
    spectrum: tuple[float, float] | None
    seed: int
    callback: Callback | None = None
    keep: bool = False


def check_arguments(
    kernel: Any,
    X: Tensor,
    ridge: Any,
    method: Any,
    tol: Any,
    max_steps: Any,
    preconditioner: Any,
    spectrum: Any,
    seed: Any,
) -> Arguments:
    """Return the arguments in usable form, or say which one is wrong, what was expected and what to do."""
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel object was expected, such as Exponential(temperature=1.0).")
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    ridge = positive(ridge, "ridge", "without it the system may be singular")
    largest = torch.finfo(X.dtype).max / 1e6
    if ridge > largest:
        raise InputError(f"ridge is {ridge:g}; {X.dtype} holds at most {largest:.0e}: every prediction would be zero.")
    tol = TOLERANCE[X.dtype] if tol is None else positive(tol, "tol", "it is a relative residual")
    if tol >= 1:
        raise InputError(f"tol is {tol:g}; a relative residual between 0 and 1 was expected.")
    if max_steps is not None:
        max_steps = whole(max_steps, "max_steps", 1)
    if preconditioner is not None and method not in PRECONDITIONED:
        raise InputError(f"method {method!r} takes no preconditioner: use method='pcg', or leave it out.")
    chosen = builder(preconditioner or PRECONDITIONED.get(method, "identity"))
    return Arguments(method, ridge, tol, max_steps, chosen, _ends(spectrum), whole(seed, "seed", 0))


def _ends(spectrum: Any) -> tuple[float, float] | None:
    if spectrum is None:
        return None
    try:
        low, high = (float(end) for end in spectrum)
    except (TypeError, ValueError):
        low, high = float("nan"), float("nan")
    if not 0 < low <= high < float("inf"):
        raise InputError(
            f"spectrum is {spectrum!r}; (low, high) with 0 < low <= high was expected, the ends of K + ridge I."
        )
    return low, high


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
            "use method='auto', which takes a plan that fits, or fewer rows."
        )
