"""The attentions that a program can be compiled for: linear, softmax, vanilla softmax, softmax imitating linear.

Each is a frozen value that owns its roles, how it multiplies by its kernel, the scale it works in, which inputs it
takes, and the ridge problem that a certificate compares it with.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from math import exp, inf, isfinite, log
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms import Compilable, ConjugateGradients, FixedCoefficients, NadarayaWatson
from ridgeformer.core.errors import InputError, LogitRangeError, NotPositiveSemidefiniteError
from ridgeformer.kernels import CentredDotProduct, DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.kernels.base import LogitKernel
from ridgeformer.language.program import KernelAttention, Program
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, reads

__all__ = ["CompiledAttention", "ImitatedAttention", "LinearAttention", "SoftmaxAttention", "checked_sink"]

LOGIT_SPAN = {torch.float32: 80.0, torch.float64: 690.0}
"""How far the largest logit may be from the sink's before one of their exponentials is lost."""

LARGEST_SINK = 700.0
"""e^700 and e^-700 are float64 numbers."""

SHARPNESS = 64.0
MOST_SUPPORTS = 2**20
"""The soft maximum of `safe_step` is at most log(supports) / SHARPNESS below the true one."""


@dataclass(frozen=True)
class CompiledAttention(KernelAttention):
    """An attention with its kernel, which has no projection: the embedding applies that.

    Attributes:
        kernel: What it computes.
    """

    kernel: Kernel

    kernels: ClassVar[tuple[type[Kernel], ...]]
    """Kernels it can compute."""
    runs: ClassVar[tuple[type[Compilable], ...]] = (ConjugateGradients, FixedCoefficients)
    """Algorithms it can run."""
    divides: ClassVar[bool] = True
    """Whether its programs divide: a network of attention alone does not."""

    def write(self, algorithm: Compilable, ridge: float) -> Program:
        """Return the program of an algorithm in this attention.

        Raises:
            InputError: an algorithm that it cannot run.
        """
        if not isinstance(algorithm, self.runs):
            raise InputError(f"{self.name} attention cannot run {algorithm.name!r}: {self._instead}.")
        return algorithm.write(self, ridge)

    _instead: ClassVar[str] = "choose 'cg' or another algorithm that solves the regression"

    @property
    def options(self) -> dict[str, Any]:
        """Its options as plain JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "kernel"}

    # -- inputs ------------------------------------------------------------------------------------

    def check(self, ridge: float) -> None:
        """Refuse options with which no program converges."""

    def check_rows(self, X: Tensor, Xq: Tensor) -> None:
        """Refuse projected supports and queries whose logits the precision cannot hold beside the sink's."""

    # -- the problem it solves, for certificates ---------------------------------------------------

    def centre(self, rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return projected supports and queries as the kernel sees them."""
        return rows, queries

    @property
    def scaled_kernel(self) -> Kernel:
        """The kernel times `scale`."""
        return self.kernel

    @abstractmethod
    def exact_kernel(self, projection: Tensor | None, X: Tensor) -> Kernel:
        """Return the kernel as a function of rows as they are given.

        Args:
            projection: (features, projected), or None for the identity.
            X: Supports; the imitation of linear attention centres over them.
        """

    def entry_rounding(self, rows: Tensor) -> float:
        """Return the relative error of a kernel entry between these rows, in units of eps."""
        return 1.0

    def sketch_bound(self, rows: Tensor, kept: Tensor) -> float | None:
        """Return a bound on norm(K - Kh) for sketched rows from their logits alone (W6); None where there is none."""
        return None

    def weights(self, queries: Tensor, rows: Tensor) -> Tensor:
        """Return what one softmax head puts on rows, (queries, rows): the Nadaraya-Watson weights."""
        return (queries @ rows.T).softmax(-1)


@dataclass(frozen=True)
class LinearAttention(CompiledAttention):
    """K = Phi Phi': the masked product itself, without a softmax."""

    name: ClassVar[str] = "linear"
    trilinear: ClassVar[bool] = True
    kernels: ClassVar[tuple[type[Kernel], ...]] = (DotProduct,)

    def begin(self, algorithm: str, ridge: float, *, products: bool = True) -> Program:
        """Return a program of supports and queries."""
        roles = (SUPPORT, QUERY)
        net = Program(f"linear-attention {algorithm}", "linear", roles, {"ridge": ridge})
        net.features("phi", "features", on=roles)
        net.constant("one", "the constant 1", on=roles)
        return net

    def scratch(self, net: Program) -> None:
        """Declare nothing: heads write u itself."""

    def product(self, net: Program, v: str, *, minus: str | None = None, ahead: str | None = None) -> None:
        """Add one attention sublayer: a head for K, one for the ridge, one for what is subtracted."""
        everyone, ridge = net.everyone_reads_itself(), net.constants["ridge"]
        moved = [(v, 1.0)] if ahead is None else [(v, 1.0), (ahead, net.constants["look"])]
        shown = {} if ahead is None else {"f": v}
        heads = [
            net.head("kernel product", {("phi", "phi"): 1.0}, {"u": moved, **shown}, net.everyone_reads_supports()),
            net.head("ridge", {("one", "one"): ridge}, {"u": moved}, everyone),
        ]
        if minus is not None:
            heads.append(net.head("targets", {("one", "one"): -1.0}, {"u": minus}, everyone))
        of = v if ahead is None else f"({v} + look {ahead})"
        name = "kernel product" if minus is None else "gradient"
        net.attend(name, f"u = K {of} + ridge {of}" + (f" - {minus}" if minus else ""), *heads)

    def safe_step(self, net: Program) -> None:
        """Add eta = 1 / (ridge + trace K)."""
        net.constant("sup", "1 on supports", on=(SUPPORT,))
        net.state({"square": "phi.phi", "bound": "ridge + trace K", "eta": "step size, on supports"}, "one")
        everyone = net.everyone_reads_itself()
        squares = net.head("squares", {("phi", "phi"): 1.0}, {"square": "one"}, everyone)
        net.attend("squares", "square = phi.phi", squares)
        total = net.head("trace", {("one", "one"): 1.0}, {"bound": "square"}, net.everyone_reads_supports())
        shift = net.head("ridge", {("one", "one"): net.constants["ridge"]}, {"bound": "one"}, everyone)
        net.attend("trace", "bound = sum of squares + ridge", total, shift, clear="square")
        net.gate("step size", eta="sup / bound", clear="bound")

    def exact_kernel(self, projection: Tensor | None, X: Tensor) -> Kernel:
        """Return the dot product of projected rows."""
        return DotProduct(None if projection is None else projection.T)


@dataclass(frozen=True)
class SoftmaxAttention(CompiledAttention):
    """Softmax attention whose normalisation is undone, so that it multiplies by the kernel itself.

    The aggregator has the constant logit c = `sink` and the value 1 in a channel of its own, so that
    o_i = sum_j e^{S_ij} v_j / (e^c + Z_i) and a_i = e^c / (e^c + Z_i): their quotient is (e^-c K v)_i, and the row
    sum Z is never formed.

    The Gaussian kernel exp(-|x - z|^2 / 2 tau) takes the logit x'z / tau - |z|^2 / 2 tau for a key z and the sink logit
    c + |x|^2 / 2 tau for a reader x, so that the quotient is the product with the Gaussian matrix. One gated sublayer
    before the first step computes |phi|^2 / 2, one unit a feature, into one column.

    Attributes:
        sink: Logit of the sink, near the largest logit; 0 for the Gaussian kernel, whose largest entry is 1.
        through_aggregator: Whether means pass through the aggregator token: pooled there, then read from it.
    """

    sink: float
    through_aggregator: bool = False

    name: ClassVar[str] = "softmax"
    kernels: ClassVar[tuple[type[Kernel], ...]] = (Exponential, Gaussian)
    runs: ClassVar[tuple[type[Compilable], ...]] = (ConjugateGradients, FixedCoefficients, NadarayaWatson)

    def write(self, algorithm: Compilable, ridge: float) -> Program:
        """Return the program; only algorithms with inner products take means."""
        if self.through_aggregator and not algorithm.inner_products:
            raise InputError(
                f"through_aggregator belongs to conjugate gradients; {algorithm.name!r} would ignore it: leave it out."
            )
        return super().write(algorithm, ridge)

    @property
    def scale(self) -> float:
        """e^-sink."""
        return exp(-self.sink)

    @property
    def temperature(self) -> float:
        """The kernel's."""
        assert isinstance(self.kernel, LogitKernel)
        return self.kernel.temperature

    @property
    def gaussian(self) -> bool:
        """Whether logits take the squared lengths of the features."""
        return isinstance(self.kernel, Gaussian)

    def begin(self, algorithm: str, ridge: float, *, products: bool = True) -> Program:
        """Return a program of supports, aggregator and queries."""
        roles = (SUPPORT, AGGREGATOR, QUERY) if products else (SUPPORT, QUERY)
        net = Program(f"softmax-attention {algorithm}", "softmax", roles, {"ridge": ridge * self.scale})
        net.features("phi", "features", on=(SUPPORT, QUERY))
        net.constant("one", "the constant 1", on=roles)
        if products:
            net.constant("agg", "1 on the aggregator", on=(AGGREGATOR,))
        if self.gaussian:
            net.state({"half": "phi.phi / 2"}, "one")
            net.gate("squared lengths", half="0.5 * phi * phi")
        return net

    @property
    def scores(self) -> dict[tuple[str, str], float]:
        """Logits of supports and sink."""
        inverse = 1 / self.temperature
        lengths = {("one", "half"): -inverse, ("half", "agg"): inverse} if self.gaussian else {}
        return {("phi", "phi"): inverse, **lengths, ("one", "agg"): self.sink}

    def scratch(self, net: Program) -> None:
        """Declare what a head returns."""
        net.state({"o": "attention output"})
        net.state({"a": "weight of the sink"}, "one", most=1.0)

    def product(self, net: Program, v: str, *, minus: str | None = None, ahead: str | None = None) -> None:
        """Add one head and one gated sublayer.

        The aggregator reads like a query at the origin: a softmax cannot read nobody, and its weight would be zero.
        """
        values = {"o": v, "a": "agg"}
        both, shown, clear = f"ridge * {v}", {}, "o a"
        if ahead is not None:
            if "o_ahead" not in net.channels:
                net.state({"o_ahead": "attention output of the last change"})
            values["o_ahead"], shown, clear = ahead, {"f": "o / a"}, "o o_ahead a"
            both = f"look * o_ahead / a + {both} + ridge * look * {ahead}"
        head = net.head("kernel product", self.scores, values, reads(net.roles, (SUPPORT, AGGREGATOR)))
        of = v if ahead is None else f"{v}, {ahead}"
        net.attend("kernel product", f"{', '.join(values)} = softmax attention to {of} and to the sink", head)
        rest = "" if minus is None else f" - {minus}"
        net.gate("undo normalisation", u=f"o / a + {both}{rest}", **shown, clear=clear)

    def mean(self, net: Program, what: str) -> None:
        """Add s = mean of w: read directly, or pooled by the aggregator and read from it."""
        if not self.through_aggregator:
            net.attend(f"mean {what}", "s = mean w", net.head("mean", {}, {"s": "w"}, net.everyone_reads_supports()))
            return
        if "pool" not in net.channels:
            net.state({"pool": "what the aggregator has averaged"})
        pool = net.head("pool", {}, {"pool": "w"}, net.everyone_reads_supports())
        net.attend(f"pool {what}", "pool = mean w", pool)
        broadcast = net.head("broadcast", {}, {"s": "pool"}, reads(net.roles, (AGGREGATOR,)))
        net.attend(f"broadcast {what}", "s = pool, read from the aggregator", broadcast, clear="pool")

    def safe_step(self, net: Program) -> None:
        """Add eta = 1 / (ridge + largest row sum), the maximum taken by a sharp softmax and rounded up (Gershgorin)."""
        net.constant("sup", "1 on supports", on=(SUPPORT,))
        net.state({"z": "row sum of K", "bound": "ridge + largest row sum", "eta": "step size, on supports"}, "one")
        sums = net.head("row sums", self.scores, {"z": "sup", "a": "agg"}, reads(net.roles, (SUPPORT, AGGREGATOR)))
        net.attend("row sums", "z, a = softmax attention to 1 and to the sink", sums)
        net.gate("undo normalisation", eta="z / a", clear="z a")
        sharp = net.head("soft maximum", {("one", "eta"): SHARPNESS}, {"bound": "eta"}, net.everyone_reads_supports())
        margin = net.constants["ridge"] + log(MOST_SUPPORTS) / SHARPNESS
        shift = net.head("round up", {}, {"bound": ("one", margin)}, reads(net.roles, (AGGREGATOR,)))
        net.attend("largest row sum", "bound = soft maximum of z, rounded up, + ridge", sharp, shift, clear="eta")
        net.gate("step size", eta="sup / bound", clear="bound")

    def average(self, net: Program, target: str, source: str) -> None:
        """Add one head without a sink: softmax itself."""
        scores = {pair: scale for pair, scale in self.scores.items() if pair[1] != "agg"}
        head = net.head("average", scores, {target: source}, net.everyone_reads_supports())
        net.attend("average", f"{target} = softmax-weighted mean of {source}", head)

    def check_rows(self, X: Tensor, Xq: Tensor) -> None:
        """Refuse rows whose largest logit is too far from the sink's."""
        largest = max(float(rows.square().sum(-1).max()) for rows in (X, Xq)) / self.temperature
        span, dtype = LOGIT_SPAN[X.dtype], str(X.dtype).removeprefix("torch.")
        if self.gaussian:
            if not largest * torch.finfo(X.dtype).eps < 0.1:
                raise LogitRangeError(
                    f"squared row lengths reach {largest:.1e} temperatures, so no digit of a distance is right in "
                    f"{dtype}: subtract the mean of the rows, or raise the temperature."
                )
            return
        if not largest - self.sink < span or self.sink - largest > span:
            sink = f"compile with sink={largest:.4g}, " if isfinite(largest) else ""
            raise LogitRangeError(
                f"the largest logit is {largest:.4g} and the sink's is {self.sink:.4g}; {dtype} holds a difference of "
                f"{span:g}: {sink}raise the temperature, or shorten the rows."
            )

    @property
    def scaled_kernel(self) -> Kernel:
        """e^-sink K."""
        return replace(self.kernel, log_scale=self.sink) if isinstance(self.kernel, Exponential) else self.kernel

    def exact_kernel(self, projection: Tensor | None, X: Tensor) -> Kernel:
        """Return the kernel of projected rows."""
        assert isinstance(self.kernel, LogitKernel)
        return replace(self.kernel, projection=None if projection is None else projection.T)

    def entry_rounding(self, rows: Tensor) -> float:
        """Return 1 + largest logit + sink: the exponential multiplies the error of a logit."""
        terms = 2 if self.gaussian else 1
        return 1 + terms * float(rows.square().sum(1).max()) / self.temperature + abs(self.sink)

    def sketch_bound(self, rows: Tensor, kept: Tensor) -> float | None:
        """Return W6's bound, times `scale`; None where the lost logits are no kernel."""
        bound = bounds.gaussian_logit_sketch_bound if self.gaussian else bounds.logit_sketch_bound
        logits, sketched = (part @ part.T / self.temperature for part in (rows, kept))
        try:
            return bound(logits, sketched) * self.scale
        except NotPositiveSemidefiniteError:
            return None

    def weights(self, queries: Tensor, rows: Tensor) -> Tensor:
        """Return what one softmax head puts on rows, (queries, rows): the Nadaraya-Watson weights."""
        bias = rows.square().sum(1) / 2 if self.gaussian else 0.0
        return ((queries @ rows.T - bias) / self.temperature).softmax(-1)


@dataclass(frozen=True)
class ImitatedAttention(CompiledAttention):
    """Two softmax heads that imitate K = Phi Phi', for features centred over the supports in context.

    softmax(epsilon S) v - mean(v) = (epsilon / n) S v + O(epsilon^2), so n / epsilon times the difference of a nearly
    flat head and a flat one is the product; n is counted in context.

    Attributes:
        epsilon: Tilt of the nearly flat head.
    """

    epsilon: float

    name: ClassVar[str] = "imitation"
    kernels: ClassVar[tuple[type[Kernel], ...]] = (DotProduct,)
    runs: ClassVar[tuple[type[Compilable], ...]] = (ConjugateGradients,)
    _instead: ClassVar[str] = "it runs 'cg'"

    def begin(self, algorithm: str, ridge: float, *, products: bool = True) -> Program:
        """Return a program that centres the features and counts the supports."""
        roles = (SUPPORT, AGGREGATOR, QUERY)
        constants = {"ridge": ridge, "epsilon": self.epsilon}
        net = Program("softmax heads imitating linear attention", "softmax", roles, constants)
        net.features("phi", "features", on=(SUPPORT, QUERY))
        net.constant("one", "the constant 1", on=roles)
        net.constant("agg", "1 on the aggregator", on=(AGGREGATOR,))
        net.state({"gain": "supports / epsilon"}, "one")
        net.state({"share": "1 / (supports + 1)"}, "one", most=1.0)
        centre = net.head("centre", {}, {"phi": ("phi", -1.0)}, net.everyone_reads_supports())
        count = net.head("count", {}, {"share": "agg"}, reads(roles, (SUPPORT, AGGREGATOR)))
        net.attend("centre and count", "phi -= mean phi, share = 1 / (n + 1)", centre, count)
        net.gate("number of supports", gain="one / epsilon / share - one / epsilon", clear="share")
        return net

    def scratch(self, net: Program) -> None:
        """Declare what the two heads return."""
        net.state({"o": "attention output"})

    def product(self, net: Program, v: str, *, minus: str | None = None, ahead: str | None = None) -> None:
        """Add two heads and one gated sublayer."""
        mask = net.everyone_reads_supports()
        tilted = net.head("tilted head", {("phi", "phi"): self.epsilon}, {"o": v}, mask)
        flat = net.head("flat head", {}, {"o": (v, -1.0)}, mask)
        net.attend("kernel product", f"o = softmax(eps S) {v} - mean {v}", tilted, flat)
        rest = "" if minus is None else f" - {minus}"
        net.gate("scale by n / eps", u=f"gain * o + ridge * {v}{rest}", clear="o")

    def mean(self, net: Program, what: str) -> None:
        """Add s = mean of w."""
        net.attend(f"mean {what}", "s = mean w", net.head("mean", {}, {"s": "w"}, net.everyone_reads_supports()))

    def centre(self, rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return both minus the mean of the supports."""
        return rows - rows.mean(0), queries - rows.mean(0)

    def exact_kernel(self, projection: Tensor | None, X: Tensor) -> Kernel:
        """Return the dot product of projected rows, centred over the supports."""
        return CentredDotProduct(None if projection is None else projection.T, X)


def checked_sink(given: object, largest: float = inf) -> float:
    """Return the sink as a float whose exponential, where the weights hold it, neither vanishes nor overflows."""
    try:
        sink = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"sink is {given!r}; a number was expected, near the largest logit.") from None
    if not (isfinite(sink) and -LARGEST_SINK <= sink <= largest):
        raise InputError(
            f"sink is {sink:g}; a number between {-LARGEST_SINK:g} and {largest:g} was expected, near the "
            "largest logit."
        )
    return sink
