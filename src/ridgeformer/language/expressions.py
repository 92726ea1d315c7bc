"""The arithmetic of a gated sublayer: sums of products and quotients of channels, read from plain text."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.core.errors import InputError

__all__ = ["SMALLEST_DIVISOR", "Expression", "Term", "guarded", "parse", "reciprocal"]

SMALLEST_DIVISOR = {dtype: 1e8 * torch.finfo(dtype).tiny for dtype in (torch.float32, torch.float64)}
"""A guarded reciprocal returns 0 for what is not above it."""


def reciprocal(b: Tensor) -> Tensor:
    """Return 1 / b, and exactly 0 where b is not above `SMALLEST_DIVISOR`.

    A converged network divides nothing by nothing from then on; with the guard it idles instead of turning
    NaN. Every divisor of our programs is positive, so a negative one is round-off: the network idles then too.
    """
    return guarded(b).reciprocal()


def guarded(b: Tensor) -> Tensor:
    """Return b, and infinity where it is too small to divide by: what is divided by it is then exactly 0."""
    return torch.threshold(b, SMALLEST_DIVISOR[b.dtype], torch.inf)


@dataclass(frozen=True)
class Term:
    """coefficient * product of at most two channels, coefficient * channel / channel, or coefficient * max(0, sum).

    Attributes:
        coefficient: A number.
        factors: Channels it multiplies.
        divisor: A channel it divides by.
        rectified: Multiples of channels whose sum is cut off below zero; such a term has no factors.
    """

    coefficient: float
    factors: tuple[str, ...] = ()
    divisor: str | None = None
    rectified: tuple[Term, ...] = ()

    @property
    def linear(self) -> bool:
        """Whether it is a multiple of one channel."""
        return len(self.factors) == 1 and self.divisor is None

    @property
    def channels(self) -> tuple[str, ...]:
        """Every channel it reads."""
        read = self.factors if self.divisor is None else (*self.factors, self.divisor)
        return read + tuple(name for term in self.rectified for name in term.factors)


Expression = tuple[Term, ...]


def parse(text: str, constants: Mapping[str, float]) -> Expression:
    """Return the terms of an expression such as "o / a + ridge * p".

    Names found in `constants` are numbers; all others are channels. A term may hold two channels multiplied
    or one divided by another: that is what one gated unit computes.

    Raises:
        InputError: arithmetic that a gated unit cannot do.

    Example:
        >>> parse("o / a - 2 * ridge * p", {"ridge": 0.5})
        (Term(coefficient=1.0, factors=('o',), divisor='a', rectified=()), Term(coefficient=-1.0, ...))
    """
    terms = _sum(ast.parse(text, mode="eval").body, constants, text)
    for term in terms:
        if not 1 <= len(term.channels) <= 2 or not term.factors:
            raise InputError(
                f"{text!r} has a term with {len(term.channels)} channels; a gated unit multiplies two, divides one by "
                "another, or scales one: split it over two sublayers."
            )
    return terms


def _sum(node: ast.expr, constants: Mapping[str, float], text: str) -> Expression:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        right = _sum(node.right, constants, text)
        if isinstance(node.op, ast.Sub):
            right = tuple(Term(-term.coefficient, term.factors, term.divisor) for term in right)
        return _sum(node.left, constants, text) + right
    return (_product(node, constants, text),)


def _product(node: ast.expr, constants: Mapping[str, float], text: str) -> Term:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Term(float(node.value))
    if isinstance(node, ast.Name):
        return Term(constants[node.id]) if node.id in constants else Term(1.0, (node.id,))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _product(node.operand, constants, text)
        return Term(-inner.coefficient, inner.factors, inner.divisor)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _product(node.left, constants, text), _product(node.right, constants, text)
        divisor = left.divisor or right.divisor
        return Term(left.coefficient * right.coefficient, left.factors + right.factors, divisor)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left, right = _product(node.left, constants, text), _product(node.right, constants, text)
        if right.divisor is None and len(right.factors) <= 1 and not (left.divisor and right.factors):
            divisor = right.factors[0] if right.factors else left.divisor
            return Term(left.coefficient / right.coefficient, left.factors, divisor)
    raise InputError(f"{text!r} is not a sum of products and quotients of channels: rewrite {ast.unparse(node)!r}.")
