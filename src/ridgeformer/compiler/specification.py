"""What a transformer was compiled for: kernel, algorithm, attention and sizes, enough to compile it again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from math import log, nan
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import ALGORITHMS, Compilable, resolve
from ridgeformer.algorithms.written import WRITTEN, WrittenAlgorithm
from ridgeformer.compiler.attentions import (
    CompiledAttention,
    ImitatedAttention,
    LinearAttention,
    SoftmaxAttention,
    checked_sink,
)
from ridgeformer.compiler.primitives import PRIMITIVES, Primitives, choose
from ridgeformer.compiler.primitives.units import CHECKS
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.compiler.written import WrittenAttention
from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.kernels.base import LogitKernel
from ridgeformer.language.expansion import expand
from ridgeformer.language.program import Program

__all__ = [
    "ATTENTIONS",
    "COMPILED_KERNELS",
    "Specification",
    "choose_attention",
    "digest",
    "write_program",
    "write_source",
]

ATTENTIONS: dict[str, type[CompiledAttention]] = {
    kind.name: kind for kind in (LinearAttention, SoftmaxAttention, VanillaAttention, ImitatedAttention)
}
"""Attentions by name."""

COMPILED_KERNELS: dict[str, type[Kernel]] = {kind.name: kind for kind in (DotProduct, Exponential, Gaussian)}
"""Kernels that some attention computes; the first attention that does is the default."""

DTYPES = {"float32": torch.float32, "float64": torch.float64}

MOST_STEPS = 100_000
"""Steps of a forward pass; the schedule lists every sublayer of every one."""


def choose_attention(
    kernel: Kernel,
    ridge: float,
    name: object = None,
    *,
    sink: object = None,
    epsilon: object = 1e-4,
    through_aggregator: object = False,
) -> CompiledAttention:
    """Return the attention of this name for a kernel without projection; None is the kernel's own.

    The options are those of `compile`, unchecked.

    Raises:
        InputError: an attention that does not compute this kernel, or an option it does not have.
    """
    if name is not None and (not isinstance(name, str) or name not in ATTENTIONS):
        raise unknown_name("attention", name, ATTENTIONS)
    computing = {key: kind for key, kind in ATTENTIONS.items() if isinstance(kernel, kind.kernels)}
    if not computing:
        raise InputError(
            f"no attention computes the kernel {kernel.name!r}: choose one of {', '.join(sorted(COMPILED_KERNELS))}."
        )
    if name is not None and name not in computing:
        raise InputError(
            f"{name} attention does not compute the kernel {kernel.name!r}; {' and '.join(computing)} do: choose one "
            "of those, or another kernel."
        )
    kind = computing[name or next(iter(computing))]
    if not isinstance(through_aggregator, bool):
        raise InputError(f"through_aggregator is {through_aggregator!r}; True or False was expected.")
    if issubclass(kind, SoftmaxAttention):
        assert isinstance(kernel, LogitKernel)
        default = 0.0 if isinstance(kernel, Gaussian) else 1 / kernel.temperature
        if issubclass(kind, VanillaAttention):
            default = log(ridge)
        elif isinstance(kernel, Gaussian) and sink is not None and checked_sink(sink) != 0:
            raise InputError("the Gaussian kernel is at most 1, so its sink has the logit 0: leave sink out.")
        return kind(kernel, checked_sink(default if sink is None else sink), through_aggregator)
    for option, given in (("sink", sink), ("through_aggregator", through_aggregator or None)):
        if given is not None:
            raise InputError(f"{option} belongs to softmax attention; {kind.name} would ignore it: leave it out.")
    epsilon = positive(epsilon, "epsilon", "it tilts the imitating head")
    return ImitatedAttention(kernel, epsilon) if kind is ImitatedAttention else kind(kernel)


@dataclass(frozen=True, eq=False)
class Specification:
    """Everything the weights know: never the data.

    Attributes:
        algorithm: What it runs, with its steps.
        attention: How it multiplies by the kernel, which has no projection: the embedding applies that.
        features: Features of a token as given.
        projected: Features after the projection, before any sketch.
        carried: Features the stream carries, after projection and sketch.
        ridge: The regularisation; NaN for a program of one's own, which has none.
        outputs: Target columns.
        share_channels: Whether channels share storage.
        tied: Whether all steps are the same weights.
        width: Columns of the stream.
        dtype: "float32" or "float64".
        primitives: What gated sublayers are made of: exact, swiglu or relu.
        reciprocal_range: Smallest and largest divisor (swiglu, relu); None where there is no such option.
        relu_bound: Largest factor of a product (relu).
        relu_knots: Pieces of a square and of a reciprocal (relu).
        embedding_digest: SHA-256 of the projection and its sketch (`digest`); None where tokens carry their features
            as given. It lets a certificate pose its problem from the specification instead of from the weights.
    """

    algorithm: Compilable
    attention: CompiledAttention
    features: int
    projected: int
    carried: int
    ridge: float
    outputs: int
    share_channels: bool
    tied: bool
    width: int | None
    dtype: str
    primitives: str = "exact"
    reciprocal_range: tuple[float, float] | None = None
    relu_bound: float | None = None
    relu_knots: int | None = None
    embedding_digest: str | None = None

    def __post_init__(self) -> None:
        _ = self.units
        self.attention.check(self.ridge)
        if self.embedding_digest is None and not self.features == self.projected == self.carried:
            raise InputError(
                f"{self.features} features become {self.projected} and then {self.carried}, and no SHA-256 of the "
                "projection was given: compile or save the model again."
            )

    @classmethod
    def of(cls, **values: Any) -> Specification:
        """Return the specification of unchecked entries.

        Raises:
            InputError: an entry that is not a name or number of its kind.
        """
        for name, names in (("dtype", DTYPES), ("primitives", PRIMITIVES)):
            if not isinstance(values[name], str) or values[name] not in names:
                raise unknown_name(name, values[name], names)
        if not isinstance(values["attention"], WrittenAttention):
            values["ridge"] = positive(values["ridge"], "ridge", "without it the system may be singular")
        for name in ("features", "projected", "carried", "outputs"):
            values[name] = whole(values[name], name, 1)
        algorithm, carried, projected = values["algorithm"], values["carried"], values["projected"]
        if algorithm.steps is None:
            raise InputError(
                f"a compiled model has a fixed depth: give steps=, such as {type(algorithm).__name__}(steps=12)."
            )
        if algorithm.steps > MOST_STEPS:
            raise InputError(
                f"steps is {algorithm.steps:,}; at most {MOST_STEPS:,} were expected: choose a faster algorithm."
            )
        if isinstance(algorithm, WrittenAlgorithm) and values["outputs"] > 1 and algorithm.program.one_output:
            raise InputError(
                f"outputs is {values['outputs']} and this program takes one ({algorithm.program.one_output}): "
                "compile it for one; the model then takes several columns of targets, one pass each."
            )
        if carried > projected:
            raise InputError(f"carried is {carried} of {projected} features: a sketch never has more.")
        for name in ("share_channels", "tied"):
            if not isinstance(values[name], bool):
                raise InputError(f"{name} is {values[name]!r}; True or False was expected.")
        values["tied"] = values["tied"] and algorithm.uniform
        for name, check in OPTIONAL.items():
            if values[name] is not None:
                values[name] = check(values[name])
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Specification) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(repr(self.as_dict()))

    @property
    def written(self) -> bool:
        """Whether it runs a program of one's own."""
        return isinstance(self.attention, WrittenAttention)

    @property
    def kernel(self) -> Kernel:
        """What the attention computes."""
        return self.attention.kernel

    @property
    def steps(self) -> int:
        """Iterations in a forward pass."""
        assert self.algorithm.steps is not None
        return self.algorithm.steps

    @property
    def units(self) -> Primitives:
        """The units of its gated sublayers."""
        options = {name: getattr(self, name) for name in ("reciprocal_range", "relu_bound", "relu_knots")}
        return choose(self.primitives, **options)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return DTYPES[self.dtype]

    @property
    def least_numbers(self) -> int:
        """Numbers the weights hold at least, in closed form: known before a model of any size is built.

        Two embeddings of (features + outputs + 1) x width, a query and a key matrix of width x carried for every
        copy of a step, and what the sketch is a sketch of.
        """
        width = max(self.width or 0, self.carried + self.outputs + 1)
        copies = 1 if self.tied else self.steps
        sketched = self.features * self.projected if self.carried < self.projected else 0
        return 2 * width * (self.features + self.outputs + 1 + copies * self.carried) + sketched

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values: kernel, algorithm and attention by name and options."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        temperature = getattr(self.kernel, "temperature", None)
        kernel = {"name": self.kernel.name} | ({} if temperature is None else {"temperature": temperature})
        options = {field.name: getattr(self.algorithm, field.name) for field in fields(self.algorithm)}
        return {
            "kernel": None if self.written else kernel,
            **plain,
            "ridge": None if self.written else self.ridge,
            "algorithm": {"name": self.algorithm.name, **options},
            "attention": {"name": self.attention.name, **self.attention.options},
        }

    @classmethod
    def from_dict(cls, values: object) -> Specification:
        """Return the specification that `as_dict` described; values may be anything, and are checked.

        Raises:
            InputError: an entry that is unknown, missing or not of its kind.
        """
        names = {"kernel", *_fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            odd = ", ".join(sorted(map(str, set(values) ^ names))) if isinstance(values, dict) else "not a dictionary"
            raise InputError(f"the configuration does not fit this version ({odd}): compile the model again.")
        if values["kernel"] is None:
            plain = {key: value for key, value in values.items() if key != "kernel"}
            given = {"algorithm": _written(*_named(values, "algorithm")), "attention": WrittenAttention(), "ridge": nan}
            return cls.of(**plain | given)
        name, options = _named(values, "kernel")
        if name not in COMPILED_KERNELS:
            raise unknown_name("kernel", name, COMPILED_KERNELS)
        if set(options) != _fields(COMPILED_KERNELS[name]) & {"temperature"}:
            raise InputError(f"the kernel {name!r} has options {sorted(options)}: compile the model again.")
        kernel = COMPILED_KERNELS[name](
            **{key: positive(value, key, "logits are divided by it") for key, value in options.items()}
        )
        algorithm = _algorithm(*_named(values, "algorithm"))
        name, options = _named(values, "attention")
        ridge = positive(values["ridge"], "ridge", "without it the system may be singular")
        known = {key: options[key] for key in ("sink", "epsilon", "through_aggregator") if key in options}
        attention = choose_attention(kernel, ridge, name, **known)
        if set(options) != set(attention.options):
            raise InputError(f"{name} attention has options {sorted(options)}: compile the model again.")
        plain = {key: value for key, value in values.items() if key != "kernel"}
        return cls.of(**plain | {"algorithm": algorithm, "attention": attention})


def _fields(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def _named(values: dict[str, Any], what: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a kernel, an algorithm or an attention."""
    value = values[what]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise InputError(f"{what} is {value!r}; a name with options was expected: compile the model again.")
    return value["name"], {key: option for key, option in value.items() if key != "name"}


def _written(name: str, options: dict[str, Any]) -> WrittenAlgorithm:
    import_module("ridgeformer.programs")  # those that ship are known by their names
    if name not in WRITTEN:
        raise InputError(
            f"the program {name!r} is not defined in this session: import the module that defines it, then load the "
            "model again."
        )
    if set(options) != _fields(WRITTEN[name]):
        raise InputError(f"the program {name!r} has options {sorted(options)}: compile the model again.")
    steps = whole(options["steps"], "steps", 1)
    return WRITTEN[name](**{**options, "steps": steps})


def _algorithm(name: str, options: dict[str, Any]) -> Compilable:
    known = {key for key, kind in ALGORITHMS.items() if issubclass(kind, Compilable)}
    if name not in known:
        raise unknown_name("algorithm", name, known)
    if set(options) != _fields(ALGORITHMS[name]):
        raise InputError(f"the algorithm {name!r} has options {sorted(options)}: compile the model again.")
    checks: dict[str, Callable[[Any], Any]] = {
        "steps": lambda given: whole(given, "steps", 1),
        "step_size": lambda given: positive(given, "step_size", "alpha moves against the gradient"),
        "spectrum": _interval,
        "preconditioner": str,
    }
    algorithm = resolve(name, **{key: None if value is None else checks[key](value) for key, value in options.items()})
    assert isinstance(algorithm, Compilable)
    return algorithm


def _interval(given: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"spectrum is {given!r}; two numbers (low, high) were expected.") from None
    return low, high


def _sha256(given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch("[0-9a-f]{64}", given):
        raise InputError(f"embedding_digest is {given!r}; a SHA-256 in hexadecimal digits was expected.")
    return given


OPTIONAL: dict[str, Callable[[Any], Any]] = {
    "width": lambda given: whole(given, "width", 1),
    "embedding_digest": _sha256,
    **CHECKS,
}
"""Checks of the entries that may be None."""


def digest(embedding: Tensor, unsketched: Tensor) -> str:
    """Return the SHA-256 of what the features are multiplied by, with and without the sketch, in float64.

    Example:
        >>> digest(torch.eye(2), torch.eye(2))[:8] == digest(torch.eye(2), 2 * torch.eye(2))[:8]
        False
    """
    hashed = hashlib.sha256()
    for matrix in (embedding, unsketched):
        hashed.update(matrix.detach().cpu().to(torch.float64).contiguous().numpy().tobytes())
    return hashed.hexdigest()


def write_source(spec: Specification) -> Program:
    """Return the program of a specification as it was written."""
    return spec.attention.write(spec.algorithm, spec.ridge)


def write_program(spec: Specification) -> Program:
    """Return the program of a specification, its functions expanded, rewritten for the units it is to be made of."""
    return spec.units.rewrite(expand(write_source(spec)))
