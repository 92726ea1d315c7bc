"""Programs of one's own in the compiler: they bring their heads with them, so there is no kernel and no ridge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from ridgeformer.algorithms import Compilable
from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.compiler.attentions import CompiledAttention
from ridgeformer.core.errors import InputError
from ridgeformer.kernels import DotProduct, Kernel
from ridgeformer.language.program import Program

__all__ = ["WrittenAttention"]


@dataclass(frozen=True)
class WrittenAttention(CompiledAttention):
    """The heads that a program was written with; `kernel` is what tokens carry, their features, and no more."""

    kernel: Kernel = field(default_factory=DotProduct)

    name: ClassVar[str] = "written"
    kernels: ClassVar[tuple[type[Kernel], ...]] = ()
    runs: ClassVar[tuple[type[Compilable], ...]] = (WrittenAlgorithm,)

    def begin(self, algorithm: str, ridge: float, *, products: bool = True) -> Program:
        """Refuse: a program begins itself."""
        raise InputError(f"{algorithm!r} needs a kernel: give one to compile.")

    def scratch(self, net: Program) -> None:
        """Refuse."""
        raise InputError(f"{net.name!r} needs a kernel: give one to compile.")

    def product(self, net: Program, v: str, *, minus: str | None = None, ahead: str | None = None) -> None:
        """Refuse."""
        raise InputError(f"{net.name!r} needs a kernel: give one to compile.")

    def exact_kernel(self, projection: Tensor | None, X: Tensor) -> Kernel:
        """Refuse: a program is compared with its interpreter, not with ridge regression."""
        raise InputError("a program of one's own has no kernel, so there is no ridge regression to compare it with.")
