"""What a transformer was compiled for: plain numbers and names, enough to compile it again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite, log
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler.primitives import PRIMITIVES, Primitives, choose
from ridgeformer.compiler.primitives.options import CHECKS
from ridgeformer.compiler.programs import (
    Kernel,
    chebyshev,
    imitation_cg,
    linear_cg,
    nadaraya_watson,
    neumann,
    richardson,
    softmax_cg,
    vanilla,
)
from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.language.program import Program

__all__ = ["SOLVERS", "Specification", "digest", "write_program"]

SOLVERS: dict[str, tuple[str, ...]] = {
    "linear": ("cg", "pcg", "richardson", "neumann", "chebyshev"),
    "softmax": ("cg", "richardson", "neumann", "chebyshev", "nadaraya-watson"),
    "vanilla": ("richardson",),
    "imitation": ("cg",),
}
"""Which solvers each route offers; the first is the default."""

DTYPES = {"float32": torch.float32, "float64": torch.float64}

POSITIVE = {
    "ridge": "without it the system may be singular",
    "temperature": "logits are divided by it",
    "epsilon": "it tilts the imitating head",
}
"""Numbers that must be positive, and why."""

MOST_STEPS = 100_000
"""Steps of a forward pass; the schedule lists every sublayer of every one."""

LARGEST_SINK = 700.0
"""e^700 and e^-700 are float64 numbers."""


@dataclass(frozen=True)
class Specification:
    """Everything the weights know: never the data.

    Attributes:
        route: linear, softmax, vanilla or imitation.
        solver: See `SOLVERS`.
        features: Features of a token as given.
        projected: Features after the projection, before any sketch.
        carried: Features the stream carries, after projection and sketch.
        ridge: The regularisation.
        steps: Iterations in a forward pass.
        temperature: Of the softmax kernel.
        outputs: Target columns.
        sink: Logit of the sink (softmax) or of the anchors (vanilla).
        spectrum: Ends given to Chebyshev.
        step_size: Given to Richardson; None finds one in context.
        epsilon: Tilt of the imitation.
        through_aggregator: Whether reductions pass through the aggregator token.
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

    route: str
    solver: str
    features: int
    projected: int
    carried: int
    ridge: float
    steps: int
    temperature: float
    outputs: int
    sink: float
    spectrum: tuple[float, float] | None
    step_size: float | None
    epsilon: float
    through_aggregator: bool
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
        if self.solver not in SOLVERS[self.route]:
            known = ", ".join(SOLVERS[self.route])
            raise InputError(
                f"route {self.route!r} has no solver {self.solver!r}; it has {known}: choose one of those."
            )
        _ = self.units
        self._refuse_what_would_be_ignored()
        if self.solver == "chebyshev" and self.spectrum is None:
            raise InputError(
                "solver 'chebyshev' has fixed coefficients: give spectrum=(low, high), the ends of K + ridge I; "
                "(ridge, ridge + largest row sum of K) is always right."
            )
        if self.route == "vanilla" and self.sink < log(self.ridge) - 1e-9:
            raise InputError(
                f"sink is {self.sink:.4g}; the vanilla route converges if e^sink >= ridge, that is sink >= "
                f"{log(self.ridge):.4g}."
            )

        if self.embedding_digest is None and not self.features == self.projected == self.carried:
            raise InputError(
                f"{self.features} features become {self.projected} and then {self.carried}, and no SHA-256 of the "
                "projection was given: compile or save the model again."
            )

    def _refuse_what_would_be_ignored(self) -> None:
        chosen = f"route {self.route!r} with solver {self.solver!r}"
        for name, used, by in (
            ("spectrum", self.solver == "chebyshev", "solver 'chebyshev'"),
            ("step_size", self.solver == "richardson" and self.route != "vanilla", "solver 'richardson'"),
            ("through_aggregator", (self.route, self.solver) == ("softmax", "cg"), "softmax 'cg'"),
        ):
            if getattr(self, name) not in (None, False) and not used:
                raise InputError(f"{name} belongs to {by}; {chosen} would ignore it: leave it out.")

    @classmethod
    def of(cls, **values: Any) -> Specification:
        """Return the specification of entries that may be anything: numbers of the right kind, or an error."""
        return cls(**_settled(values))

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
        copies = 1 if self.tied and self.solver != "chebyshev" else self.steps
        sketched = self.features * self.projected if self.carried < self.projected else 0
        return 2 * width * (self.features + self.outputs + 1 + copies * self.carried) + sketched

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Specification:
        """Return the specification that `as_dict` described; unknown or missing entries are an error."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise InputError(f"the configuration does not fit this version ({odd}): compile the model again.")
        return cls.of(**values)


def _settled(values: dict[str, Any]) -> dict[str, Any]:
    """Return every entry as a name or number of its kind, or say which is none."""
    found = dict(values)
    for name, names in (("route", SOLVERS), ("dtype", DTYPES), ("primitives", PRIMITIVES)):
        _known(found[name], name, names)
    found["solver"] = str(found["solver"])
    for name, why in POSITIVE.items():
        found[name] = positive(found[name], name, why)
    for name in ("features", "projected", "carried", "steps", "outputs"):
        found[name] = whole(found[name], name, 1)
    if found["steps"] > MOST_STEPS:
        raise InputError(f"steps is {found['steps']:,}; at most {MOST_STEPS:,} were expected: choose a faster solver.")
    if found["carried"] > found["projected"]:
        raise InputError(f"carried is {found['carried']} of {found['projected']} features: a sketch never has more.")
    for name in ("through_aggregator", "share_channels", "tied"):
        if not isinstance(found[name], bool):
            raise InputError(f"{name} is {found[name]!r}; True or False was expected.")
    found["sink"] = _sink(found["sink"], found["route"])
    optional: dict[str, Callable[[Any], Any]] = {
        "width": lambda given: whole(given, "width", 1),
        "step_size": lambda given: positive(given, "step_size", "alpha moves against the gradient"),
        "spectrum": _ends,
        "embedding_digest": _sha256,
        **CHECKS,
    }
    return found | {name: check(found[name]) for name, check in optional.items() if found[name] is not None}


def _known(name: Any, kind: str, names: Mapping[str, object]) -> None:
    if not isinstance(name, str) or name not in names:
        raise unknown_name(kind, name, names)


def _ends(given: Any) -> tuple[float, float]:
    """Return the ends of a spectrum as floats, 0 < low <= high."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"spectrum is {given!r}; two numbers (low, high) were expected.") from None
    if not 0 < low <= high < inf:
        raise InputError(
            f"spectrum is ({low:g}, {high:g}); 0 < low <= high was expected: give the ends of K + ridge I, which "
            "(ridge, ridge + largest row sum of K) always are."
        )
    return low, high


def _sha256(given: Any) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    if not isinstance(given, str) or not re.fullmatch("[0-9a-f]{64}", given):
        raise InputError(f"embedding_digest is {given!r}; a SHA-256 in hexadecimal digits was expected.")
    return given


def _sink(given: Any, route: str) -> float:
    """Return the sink as a float whose exponential, where the weights hold it, is neither lost nor infinite."""
    try:
        sink = float(given)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"sink is {given!r}; a number was expected, near the largest logit.") from None
    largest = LARGEST_SINK if route == "vanilla" else inf  # elsewhere the weights hold e^-sink only
    if not (isfinite(sink) and -LARGEST_SINK <= sink <= largest):
        raise InputError(
            f"sink is {sink:g}; a number between {-LARGEST_SINK:g} and {largest:g} was expected, near the "
            "largest logit."
        )
    return sink


def digest(embedding: Tensor, unsketched: Tensor) -> str:
    """Return the SHA-256 of what the features are multiplied by, with and without the sketch, in float64.

    Args:
        embedding: (features, carried).
        unsketched: (features, projected); the same where nothing is sketched.

    Example:
        >>> digest(torch.eye(2), torch.eye(2))[:8] == digest(torch.eye(2), 2 * torch.eye(2))[:8]
        False
    """
    found = hashlib.sha256()
    for matrix in (embedding, unsketched):
        found.update(matrix.detach().cpu().to(torch.float64).contiguous().numpy().tobytes())
    return found.hexdigest()


def write_program(spec: Specification) -> Program:
    """Return the program of a specification, rewritten for the units it is to be made of."""
    return spec.units.rewrite(_algorithm(spec))


def _algorithm(spec: Specification) -> Program:
    if spec.route == "vanilla":
        return vanilla(spec.ridge, spec.temperature, spec.sink)
    if spec.route == "imitation":
        return imitation_cg(spec.ridge, spec.epsilon)
    if spec.solver == "nadaraya-watson":
        return nadaraya_watson(spec.temperature)
    if spec.solver in ("cg", "pcg"):
        if spec.route == "linear":
            return linear_cg(spec.ridge, jacobi=spec.solver == "pcg")
        return softmax_cg(spec.ridge, spec.temperature, spec.sink, through_aggregator=spec.through_aggregator)
    kernel = Kernel("linear" if spec.route == "linear" else "softmax", spec.temperature, spec.sink)
    if spec.solver == "richardson":
        return richardson(kernel, spec.ridge, spec.step_size)
    if spec.solver == "neumann":
        return neumann(kernel, spec.ridge)
    assert spec.spectrum is not None
    return chebyshev(kernel, spec.ridge, spec.spectrum, spec.steps)
