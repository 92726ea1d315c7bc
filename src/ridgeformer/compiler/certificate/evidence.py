"""What a run left behind, task by task, in float64: the material every check looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan

import torch
from torch import Tensor

from ridgeformer.algorithms import Compilable
from ridgeformer.compiler.certificate.certificate import FLOOR
from ridgeformer.compiler.certificate.problem import ReferenceProblem, as_specified, carried_features, pose
from ridgeformer.compiler.inputs import check_squares, check_task
from ridgeformer.compiler.reports import collect
from ridgeformer.compiler.specification import Specification
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.core.checks import ArrayLike
from ridgeformer.language.expressions import SMALLEST_DIVISOR
from ridgeformer.language.program import Program, Record
from ridgeformer.language.roles import SUPPORT

__all__ = ["RunEvidence", "gather"]


@dataclass(frozen=True, eq=False)
class RunEvidence:
    """One task: the problem the stream carries, the true one, and what the network did.

    Attributes:
        spec: What the model was compiled for.
        program: What it runs.
        problem: The problem with the features the stream carries.
        true: The problem with all features; the same object unless the model is sketched.
        rows, query_rows: Supports and queries as they were given.
        projection: What the specification multiplies them by, (features, projected); None for the identity.
        predictions: What the model returned, (queries, outputs).
        values: Channels of the trace, name to (steps, tokens, outputs); alpha in the scale of `problem`.
        eta: The step size found in context, in that scale, where the program has one.
    """

    spec: Specification
    program: Program
    problem: ReferenceProblem
    true: ReferenceProblem
    rows: Tensor
    query_rows: Tensor
    projection: Tensor | None
    predictions: Tensor
    values: dict[str, Tensor]
    eta: float

    @property
    def alpha(self) -> Tensor:
        """Coefficients after every step, (steps, supports, outputs)."""
        return self.values["alpha"]

    @property
    def f(self) -> Tensor:
        """Predictions after every step, (steps, queries, outputs)."""
        return self.values["f"]

    @property
    def eps(self) -> float:
        """The machine precision of the weights."""
        return float(torch.finfo(self.spec.torch_dtype).eps)

    @property
    def approximate(self) -> bool:
        """Whether the gated units only approximate what they stand for."""
        return self.spec.primitives == "relu"

    @cached_property
    def relative_eps(self) -> float:
        """The relative error of a kernel entry: eps, and eps times the largest logit where it is exponentiated."""
        return self.eps * self.spec.attention.entry_rounding(torch.cat([self.problem.system.X, self.problem.queries]))

    @property
    def floor(self) -> float:
        """FLOOR relative_eps kappa: the relative A-norm error that rounding may leave, where curves flatten.

        This is a model, not a theorem. A relative error e of the entries of A moves the solution by at most about
        e kappa; the constant pays for the sums of a step, and `amplification` for what steps pile up. Divisors too
        small to divide by make the network idle, and what that leaves is added.
        """
        return FLOOR * self.relative_eps * self.amplification + self._idle

    @cached_property
    def amplification(self) -> float:
        """The condition number, or that of a method with fixed coefficients, if it is larger.

        A method that contracts by c a step piles up the roundings of 1/(1 - c) steps, and Chebyshev's of the ends it
        was given, however well the system itself is conditioned: with one support the system's number is 1.
        """
        problem, attention = self.problem, self.spec.attention
        if isinstance(attention, VanillaAttention):
            return max(problem.kappa, float(attention.diagonal(problem.K.sum(1)).max()) / problem.ridge)
        return self.algorithm.amplification(self.extremes, problem.ridge)

    @property
    def extremes(self) -> tuple[float, float]:
        """The extreme eigenvalues of K + ridge I, in the scale of `problem`."""
        return float(self.problem.eigenvalues[0]), float(self.problem.eigenvalues[-1])

    @cached_property
    def algorithm(self) -> Compilable:
        """The algorithm as the network runs it: in the scale of `problem`, with the step size found in context."""
        return self.spec.algorithm.rescaled(self.spec.attention.scale, None if isnan(self.eta) else self.eta)

    @cached_property
    def _idle(self) -> float:
        """The relative A-norm error at which divisors become too small to divide by, and conjugate gradients idle.

        The divisors are sums or means of r^2, with Jacobi's preconditioner of r^2/A_ii, and of p'Ap, at least min(1, l)
        times that with l the smallest eigenvalue; norm(e)_A <= norm(r)/sqrt(l). Stock reciprocals have a range, exact
        ones a guard against underflow. Other exact methods divide by no residual.
        """
        spec, problem, least = self.spec, self.problem, SMALLEST_DIVISOR[self.spec.torch_dtype]
        if spec.reciprocal_range is not None:
            least = spec.reciprocal_range[0]
        elif not spec.algorithm.inner_products:
            return 0.0
        if not spec.attention.divides:
            return 0.0
        low = float(problem.eigenvalues[0])
        scale = float(problem.A.diagonal().max()) if spec.algorithm.preconditioned else 1.0
        stuck = problem.system.n * least * max(1.0, scale) / min(1.0, low)
        sizes = problem.solution_norms[problem.solution_norms > 0]
        return (stuck / low) ** 0.5 / float(sizes.min()) if len(sizes) else 0.0

    def prediction_floor(self) -> Tensor:
        """Return what rounding may leave of a prediction, (queries, outputs), in absolute terms."""
        problem = self.problem
        solving = self.floor * problem.energies[:, None] * problem.solution_norms
        summing = problem.own.sqrt()[:, None] * (problem.K.diagonal().clamp_min(0).sqrt() @ problem.alpha.abs())
        return solving + FLOOR * self.relative_eps * summing


Run = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]
"""Called with checked supports, targets and queries; returns the predictions and the channels of the trace."""


def gather(
    model: CompiledTransformer, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, run: Run | None = None
) -> list[RunEvidence]:
    """Run the model and return the evidence of every task; inputs are checked as the model checks them.

    What it should have solved comes from the specification, and from no weight.

    Args:
        model: Made by `compile`.
        X: Supports.
        y: Targets.
        Xq: Queries.
        run: Runs something else in its place: the model in a class of another library.
    """
    spec = model.spec
    carried = carried_features(model)
    full = carried if model.unsketched is None else model.unsketched
    task = check_task(replace(spec, dtype="float64"), X, y, Xq, carried)
    rows, targets, queries = (t.detach() if t.ndim == 3 else t.detach()[None] for t in task.given)
    check_squares(targets)  # norms of the targets are in every bound
    with torch.no_grad():
        given = model._check(X, y, Xq).given  # as a user runs it: a batch of one rounds otherwise
        if run is None:
            ((_, _, answer),) = model.answer(*given)
            trace = collect(model.readings(*given), spec.steps).values
        else:
            answer, trace = run(*given)
        eta = _step_sizes(model, rows, targets, queries)
    lone = task.X.ndim == 2
    predictions = (answer[None] if lone else answer).to(torch.float64)
    values = {name: (value[:, None] if lone else value).to(torch.float64) for name, value in trace.items()}
    if "alpha" in values:
        values["alpha"] = values["alpha"] / _alpha_scale(model.program)
    projection = None if spec.embedding_digest is None else full
    found = []
    for i in range(len(rows)):
        problem = pose(spec, carried, rows[i], targets[i], queries[i])
        true = problem if full is carried else pose(spec, full, rows[i], targets[i], queries[i])
        kept = {name: value[:, i] for name, value in values.items()}
        seen = (predictions[i], kept, eta[i])
        found.append(RunEvidence(spec, model.program, problem, true, rows[i], queries[i], projection, *seen))
    return found


def _alpha_scale(program: Program) -> float:
    """Return what the trace multiplies the channel alpha by."""
    return next(i.scale for _, i in program.timeline() if isinstance(i, Record) and i.name == "alpha")


def _step_sizes(model: CompiledTransformer, X: Tensor, y: Tensor, Xq: Tensor) -> list[float]:
    """Return the step size of every task, as the specification's own weights find it in context; NaN without one."""
    if "eta" not in model.program.channels:
        return [nan] * len(X)
    sound, dtype = as_specified(model), model.spec.torch_dtype
    tokens = sound.tokens(X.shape[-2], Xq.shape[-2])
    stream = sound.stream(X.to(dtype), y.to(dtype), Xq.to(dtype))
    for section, _, sublayer in sound.schedule:
        if section != "prelude":
            break
        stream = stream if sublayer is None else sublayer(stream, tokens)
    eta = sound.channel("eta", stream, SUPPORT, tokens).to(torch.float64)
    return [float(value) for value in eta.amax(dim=(-2, -1))]
