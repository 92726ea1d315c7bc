"""Whether data keep to the range that primitives were compiled for, and what to do when they do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING

import torch

from ridgeformer.compiler.execution import Reading
from ridgeformer.compiler.specification import Specification, write_program
from ridgeformer.core.checks import ArrayLike
from ridgeformer.core.errors import InputError
from ridgeformer.language.interpreter import State, interpret, start
from ridgeformer.language.program import Gate, Program

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["OperandRanges", "operand_ranges", "refuse_overflow"]


@dataclass(frozen=True)
class OperandRanges:
    """What a program multiplied and divided by on some data.

    Attributes:
        smallest_divisor: Smallest divisor that is not zero; infinite if nothing was divided.
        largest_divisor: Largest divisor; 0 if nothing was divided.
        largest_factor: Largest absolute value of a factor, of numerators too; constant channels do not count.
    """

    smallest_divisor: float
    largest_divisor: float
    largest_factor: float

    def within(self, spec: Specification) -> bool:
        """Return whether the figures promised for the primitives of a specification hold for all of this."""
        options = spec.units.options
        low, high = options["reciprocal_range"] or (0.0, float("inf"))
        bound = options["relu_bound"] or float("inf")
        return low <= self.smallest_divisor and self.largest_divisor <= high and self.largest_factor <= bound


def operand_ranges(model: CompiledTransformer, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> OperandRanges:
    """Return what the model's program, in exact arithmetic and without any weight, multiplies and divides by.

    It holds for a model of any primitives, so it tells what to compile with: reciprocal_range from the
    divisors, relu_bound from the factors. Divisors of a converged run are as small as its residual squared.

    Example:
        >>> from ridgeformer.algorithms import ConjugateGradients
        >>> from ridgeformer.compiler.compile import compile
        >>> from ridgeformer.kernels import DotProduct
        >>> model = compile(DotProduct(), ConjugateGradients(steps=1), features=2, ridge=1.0)
        >>> operand_ranges(model, [[1.0, 0.0]], [3.0], [[0.0, 1.0]])     # rho = 9, p'Ap = 18
        OperandRanges(smallest_divisor=9.0, largest_divisor=18.0, largest_factor=9.0)
    """
    exact = replace(model.spec, primitives="exact", reciprocal_range=None, relu_bound=None, relu_knots=None)
    program = write_program(exact)
    given = model._check(X, y, Xq).given
    supports, targets, queries = (part.detach().reshape(-1, *part.shape[-2:]) for part in given)
    tokens = model.tokens(supports.shape[-2], queries.shape[-2])
    embedding = model.carried
    found = OperandRanges(float("inf"), 0.0, 0.0)
    for task in zip(supports @ embedding, targets, queries @ embedding, strict=True):
        state = start(program, tokens, *task)
        for _, instruction, after in interpret(program, tokens, *task, exact.steps):
            if isinstance(instruction, Gate):
                found = _widened(found, instruction, program, state)
            state = after
    return found


def _widened(found: OperandRanges, gate: Gate, program: Program, state: State) -> OperandRanges:
    low, high, factor = found.smallest_divisor, found.largest_divisor, found.largest_factor
    for term in (term for _, terms in gate.assignments for term in terms if not term.linear):
        for name in term.factors:
            if not isinstance(program.channels[name].source, float):
                factor = max(factor, float(state[name].abs().max()))
        if term.divisor is not None:
            used = state[term.divisor][state[term.divisor] != 0]
            if used.numel():
                low, high = min(low, float(used.min())), max(high, float(used.max()))
    return OperandRanges(low, high, factor)


def refuse_overflow(readings: Iterable[Reading], spec: Specification) -> Iterator[Reading]:
    """Pass readings on while they are finite.

    Raises:
        InputError: one is not, because something overflowed or the step size lets the method diverge, or a divisor
            was beyond the range the model was compiled for.
    """
    for section, record, value in readings:
        if not isfinite(float(value.detach().sum())) and not bool(
            torch.isfinite(value).all()
        ):  # a finite sum has finite terms
            raise InputError(f"{record.name} is not finite in {section} ({_why(spec)}, or scale the data down).")
        yield section, record, value


def _why(spec: Specification) -> str:
    if spec.primitives == "swiglu" and spec.reciprocal_range is not None:
        beyond = f"a divisor above {spec.reciprocal_range[1]:g} made the Newton sweeps diverge"
        return f"{beyond}: compile with a wider reciprocal_range, and divide by positive numbers only"
    advice = spec.algorithm.divergence_advice
    return f"{spec.dtype} overflows" if advice is None else f"it diverged: {advice}"
