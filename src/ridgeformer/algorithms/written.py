"""Algorithms of one's own: `@algorithm` makes a program a frozen value, with the faces that a program has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from math import isfinite
from numbers import Integral
from pathlib import Path
from typing import ClassVar, Concatenate, NamedTuple, ParamSpec

from torch import Tensor

from ridgeformer.algorithms.base import Compilable
from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, as_targets
from ridgeformer.core.errors import InputError
from ridgeformer.language.flattening import is_number
from ridgeformer.language.interpreter import run
from ridgeformer.language.places import Place
from ridgeformer.language.program import KernelAttention, Program
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, Tokens
from ridgeformer.language.writing import ProgramWriter

__all__ = ["WRITTEN", "Theorem", "Values", "WrittenAlgorithm", "algorithm"]

P = ParamSpec("P")

Values = Mapping[str, Tensor]
"""What a run recorded: name to (steps, tokens, columns)."""


class Theorem(NamedTuple):
    """What theory says of every step: the statement, and a function that returns (measured, bound) arrays."""

    statement: str
    check: Callable[[WrittenAlgorithm, Tensor, Tensor, Tensor, Values], tuple[Tensor, Tensor]]


Residual = Callable[["WrittenAlgorithm", Tensor, Tensor, Values], Tensor]
"""Called with (algorithm, X, y, values); what it returns is zero at a fixed point."""


@dataclass(frozen=True, kw_only=True)
class WrittenAlgorithm(Compilable):
    """An algorithm whose program was written in the public language; made by `@algorithm`.

    It has two faces: `compile` makes weights of it, and `interpret` runs it without any. `solve` does not take it.
    """

    written: ClassVar[Callable[..., None]]
    theorems: ClassVar[list[Theorem]]
    residuals: ClassVar[list[Residual]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name == "steps" or value is None:
                continue
            if not (is_number(value) and isfinite(value)):
                raise InputError(f"{option.name} of {self.name!r} is {value!r}; a finite number was expected.")
            plain = int(value) if isinstance(value, Integral) else float(value)  # of numpy too
            object.__setattr__(self, option.name, plain)

    @property
    def uniform(self) -> bool:  # type: ignore[override]
        """Whether all steps have the same weights."""
        return _program(self).uniform

    @property
    def program(self) -> Program:
        """The program in named channels; raises ProgramError, with the line, where it is refused."""
        return _program(self)

    def write(self, attention: KernelAttention | None = None, ridge: float | None = None) -> Program:
        """Return the program; it brings its own heads, so it takes no attention and no ridge."""
        return self.program

    def interpret(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> dict[str, Tensor]:
        """Run the program on one task without any weight: the reference that compiled models are compared with.

        Args:
            X: Supports, (k, features).
            y: Targets, (k,) or (k, outputs).
            Xq: Queries, (q, features).

        Returns:
            What it records: name to (steps, tokens, columns), in the precision of X.
        """
        if self.steps is None:
            raise InputError(f"a program has a fixed number of steps: give them, as in {self.name}(steps=12).")
        rows = as_matrix(X)
        targets, queries = as_targets(y, rows), as_query(Xq, rows)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape[1] > 1 and self.program.one_output:
            raise InputError(
                f"y has {targets.shape[1]} columns and this program takes one ({self.program.one_output}): run it for "
                "each of them."
            )
        tokens = Tokens({SUPPORT: len(rows), AGGREGATOR: 1, QUERY: len(queries)})
        return run(self.program, tokens, rows, targets, queries, self.steps)

    @classmethod
    def fixed_point(cls, residual: Residual) -> Residual:
        """Register what is zero at a fixed point, a function of (algorithm, X, y, values), for `certify`."""
        cls.residuals.append(residual)
        return residual

    @classmethod
    def theorem(cls, statement: str) -> Callable[..., object]:
        """Register a theorem: a function of (algorithm, X, y, Xq, values) that returns (measured, bound) by step."""

        def register(check: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
            cls.theorems.append(Theorem(statement, check))
            return check

        return register


@cache
def _program(value: WrittenAlgorithm) -> Program:
    options = {option.name: getattr(value, option.name) for option in fields(value) if option.name != "steps"}
    constants = {name: given for name, given in options.items() if given is not None}
    code = getattr(inspect.unwrap(type(value).written), "__code__", None)
    place = None if code is None else Place(Path(code.co_filename).name, code.co_firstlineno)
    net = ProgramWriter(value.family, value.steps or 1, constants, place)
    try:
        type(value).written(net, **options)
    except RecursionError:
        raise InputError(f"{value.name!r} calls itself without end: a program is written once, step by step.") from None
    return net.finish()


WRITTEN: dict[str, type[WrittenAlgorithm]] = {}
"""Programs of this session by name, those that ship and one's own; saved models name them."""


def algorithm(function: Callable[Concatenate[ProgramWriter, P], None]) -> type[WrittenAlgorithm]:
    """Return the algorithm that a function writes as a program: a type of frozen values.

    The function is given a `ProgramWriter`; its other parameters are the options of the algorithm, numbers with
    defaults, which formulas may name. The first line of its docstring is what the algorithm is called.

    Raises:
        InputError: an option without a default, or a name that an algorithm of the library has.

    Example:
        >>> @algorithm
        ... def descent(net: ProgramWriter, step_size: float = 0.5) -> None:
        ...     "Gradient descent on the squared error."
        ...     net.features("x"), net.targets("y"), net.state("w", "features")
        ...     with net.step():
        ...         net.let(w="w - step_size * mean((dot(x, w) - y) * x)")
        ...         net.predict("dot(x, w)")
        >>> descent(steps=2, step_size=0.25).interpret([[1.0], [2.0]], [1.0, 2.0], [[1.0]])["f"].flatten()
        tensor([0.6250, 0.8594], dtype=torch.float64)
    """
    from ridgeformer.algorithms import ALGORITHMS

    if not inspect.isfunction(function) or inspect.isgeneratorfunction(function):
        raise InputError(f"{function!r} is no function that writes a program: def name(net, ...) without yield.")
    name = function.__name__
    ours = (Path(__file__).parents[1] / "programs" / f"{name}.py").exists()
    if name in ALGORITHMS or (ours and not function.__module__.startswith("ridgeformer.programs")):
        raise InputError(f"there is an algorithm {name!r} in the library: choose another name for the function.")
    options = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.default is inspect.Parameter.empty:
            raise InputError(f"option {parameter.name!r} of {name!r} has no default: give it one, a number.")
        if hasattr(WrittenAlgorithm, parameter.name) or parameter.name == "steps":
            raise InputError(f"every program has {parameter.name!r} already: choose another name for the option.")
        options.append((parameter.name, object, field(default=parameter.default)))
    called = (inspect.getdoc(function) or name).splitlines()[0].rstrip(".")
    members = {
        "name": name, "family": called[0].lower() + called[1:] if called[1:2].islower() else called,
        "written": staticmethod(function), "theorems": [], "residuals": [], "__doc__": inspect.getdoc(function),
    }  # fmt: skip
    made = make_dataclass(name, options, bases=(WrittenAlgorithm,), namespace=members, frozen=True, kw_only=True)
    made.__module__ = function.__module__
    WRITTEN[name] = made
    return made
