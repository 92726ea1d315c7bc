"""One network, one width, one seed: how far from a kernel machine it is, before, during and after training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.memory import require_memory
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime.architecture import Architecture, Built, CustomArchitecture
from ridgeformer.regime.distances import KernelDistances, kernel_distances
from ridgeformer.regime.finite_ntk import relu_ntk_of_weights
from ridgeformer.regime.networks import FrozenPattern, ReluNetwork, dead_share, is_dead
from ridgeformer.regime.tangent_kernel import (
    Linearised,
    call_checked,
    empirical_ntk,
    kernel_descent,
    linearised_predictions,
)
from ridgeformer.regime.training import Training, train

__all__ = ["Measurement", "OutputDistance", "draw_network", "measure", "require_network_memory"]

WEIGHTS, ACTIVATIONS = 5, 3
"""Numbers held at once for every weight, beside its start in float64, and for every neuron and row: at the peak 473 a
neuron were measured for 64 features and 50 rows, where this says 534."""

FLOW_STEPS = 20
"""Steps of the kernel's own descent for one step of a flow on cross-entropy, which has no closed form."""


@dataclass(frozen=True)
class OutputDistance:
    """Distance of the trained network's test outputs from those of a predictor.

    Attributes:
        absolute: Norm of the difference over all test rows and outputs, as published.
        relative: The same over the norm of the predictor's outputs.
    """

    absolute: float
    relative: float


@dataclass(frozen=True)
class Measurement:
    """What was measured for one network, width and seed; None where a quantity does not exist.

    Attributes:
        width, seed: Which network.
        ridge: Ridge of `to_ridge` and of the whitened criterion.
        kernel_start: Distance of the kernel at initialisation from its limit under four criteria; None for networks
            whose limit has no closed form.
        ridge_test_error: Test error of the kernel ridge regression that `to_ridge` refers to.
        train_loss: Loss on the training rows at the end, without penalty.
        dead: No output has a gradient, at the start or at the end: nothing moves any more.
        diverged: Training did not stay finite; all that follows from it is None.
        steps: Steps of training.
        to_ridge: Distance to kernel ridge regression with the limit kernel; with the kernel at initialisation, averaged
            over outputs, where there is no limit.
        to_ntk: Distance to the limit kernel's predictor at the same training time, started at the network's own
            outputs; None under Adam, which follows no kernel, and where there is no limit.
        to_linearised: Distance to this network's own linearisation, trained alike.
        kernel_end: As `kernel_start`, after training.
        kernel_drift: norm_F(K_t - K_0) / norm_F(K_0) on the training rows.
        weight_movement: norm(theta_t - theta_0) / norm(theta_0) over all that is trained.
        train_error, test_error: Fraction of rows in the wrong class, or mean squared error.
        output_norm: Norm of the trained network's test outputs: with cross-entropy most of a distance is this.
        dead_share: Neurons inactive on every training row at the end, of a plain ReLU layer.
        curve: Epochs and training losses without penalty.
        linearised_curve: The same of the linearised network; empty if it was not trained.
    """

    width: int
    seed: int
    ridge: float
    kernel_start: KernelDistances | None
    ridge_test_error: float
    train_loss: float
    dead: bool
    diverged: bool
    steps: int
    to_ridge: OutputDistance | None = None
    to_ntk: OutputDistance | None = None
    to_linearised: OutputDistance | None = None
    kernel_end: KernelDistances | None = None
    kernel_drift: float | None = None
    weight_movement: float | None = None
    train_error: float | None = None
    test_error: float | None = None
    output_norm: float | None = None
    dead_share: float | None = None
    curve: tuple[tuple[int, float], ...] = ()
    linearised_curve: tuple[tuple[int, float], ...] = ()


def measure(
    split: Split,
    architecture: Architecture | CustomArchitecture,
    training: Training,
    *,
    width: int,
    seed: int,
    ridge: float | Callable[[Tensor], float] | None = None,
    linearise: bool = True,
    dtype: torch.dtype = torch.float64,
    built: Built | None = None,
    until: float | None = None,
) -> Measurement:
    """Draw a network, train it, and compare it with the kernel machines it might be.

    Deterministic given the seed. The ridge of the source is not known; by default it is that of the penalty, l2 over
    the weight of a squared residual in the loss, or a thousandth of the mean diagonal of the kernel if there is no
    penalty.

    `ridge` belongs to the ridge predictor and the whitened criterion; it may be a function of the kernel after
    training. Training the linearised network as well doubles the time. Kernels and distances are float64 at any
    `dtype`. A network passed as `built` is trained in place. With `until` training ends at the first recorded loss
    where the training error is at most that, and all comparisons are made at that length; `Measurement.curve` ends
    there.

    Raises:
        InputError: a network that does not fit into memory, a rate at which gradient descent on the limit diverges.
        ShapeError: a network whose output is not (n, c).

    Example:
        >>> from ridgeformer.datasets import load
        >>> split = Split.for_networks(load("digits"), rows=40, test_rows=20, classes=("3", "8"))
        >>> how = Training(method="descent", rate=1.0, epochs=100, l2=0.0)
        >>> found = measure(split, Architecture("relu", scale=1.0), how, width=4096, seed=0)
        >>> found.to_linearised.relative < 0.05, found.weight_movement < 0.05, found.dead
        (True, True, False)
    """
    width, seed = whole(width, "width", 1), whole(seed, "seed", 0)
    require_network_memory(split, width, dtype)
    built = built or draw_network(split, architecture, width, seed, dtype)
    model = built.model
    rows, test_rows = (built.features(X).to(dtype) for X in (split.X, split.Xt))
    machines = _Machines(built, rows, test_rows, split)
    ntk = machines.trained(training)  # first, because a rate may be refused
    expansion = None
    if linearise:
        expansion = FrozenPattern(model) if isinstance(model, ReluNetwork) else Linearised(model)
    before, dead = _weights(model), is_dead(model, rows)
    small = None if until is None else lambda: split.error(call_checked(model, rows), train=True) <= until
    batches = torch_generator(seed, "regime.batches")
    history = train(model, rows, split.y.to(rows), training, batches, enough=small)
    if (epochs := history.curve[-1][0]) < training.epochs and not history.diverged:
        training = replace(training, epochs=epochs)
        ntk = machines.trained(training)
    K = None if history.diverged else _kernel(model, rows)
    if callable(ridge):
        ridge = None if K is None or not float(K.diagonal().mean()) > 0 else ridge(K)
    ridge = _ridge(ridge, training, split, machines.K)
    A = machines.K + ridge * torch.eye(len(rows), dtype=torch.float64)
    krr = machines.cross @ torch.linalg.solve(A, split.y)
    record: dict[str, Any] = {}
    if K is not None:
        f, size = call_checked(model, test_rows), float(machines.initial.norm())
        record = {
            "to_ridge": _distance(f, krr),
            "to_ntk": None if ntk is None else _distance(f, ntk),
            "kernel_end": machines.distances(K, ridge),
            "kernel_drift": float((K - machines.initial).norm()) / size if size > 0 else None,
            "weight_movement": float((_weights(model) - before).norm() / before.norm()),
            "train_error": split.error(call_checked(model, rows), train=True),
            "test_error": split.error(f),
            "output_norm": float(f.double().norm()),
            "dead_share": dead_share(model, rows) if isinstance(model, ReluNetwork) else None,
        }
        if expansion is not None:
            linear = train(expansion, rows, split.y.to(rows), training, torch_generator(seed, "regime.batches"))
            record["linearised_curve"] = linear.curve
            record["to_linearised"] = None if linear.diverged else _distance(f, call_checked(expansion, test_rows))
        dead = dead or is_dead(model, rows)
    return Measurement(
        width=width,
        seed=seed,
        ridge=ridge,
        kernel_start=machines.distances(machines.initial, ridge),
        ridge_test_error=split.error(krr),
        train_loss=history.curve[-1][1],
        dead=dead,
        diverged=history.diverged,
        steps=history.steps,
        curve=history.curve,
        **record,
    )


def draw_network(
    split: Split, architecture: Architecture | CustomArchitecture, width: int, seed: int, dtype: torch.dtype
) -> Built:
    """Return the network of this seed for the training rows, before training."""
    generator = torch_generator(seed, "regime.network", width)
    return architecture.build(split.X, width, split.y.shape[1], generator, dtype)


def require_network_memory(split: Split, width: int, dtype: torch.dtype) -> None:
    """Raise if a network of this width, its linearisation and their training would not fit into memory."""
    width, (n, d) = whole(width, "width", 1), split.X.shape
    size = torch.finfo(dtype).bits // 8
    needed = width * (d * (WEIGHTS * size + 8) + ACTIVATIONS * size * max(n, len(split.Xt)))
    what = f"a network of width {width:,} on {n:,} rows of {d:,} features"
    require_memory(needed, what, "use a smaller width, fewer rows, or float32")


class _Machines:
    """The kernels of one network before training, and training at a fixed kernel."""

    def __init__(self, built: Built, rows: Tensor, test_rows: Tensor, split: Split) -> None:
        self.y, self.has_limit = split.y, built.closed_form
        self.start, self.start_query = (call_checked(built.model, part).double() for part in (rows, test_rows))
        self.initial = _kernel(built.model, rows)
        if built.closed_form:
            X, Xt = rows.double(), test_rows.double()
            self.K, self.cross = ReluNTK()(X), ReluNTK()(Xt, X)
        else:
            everything = empirical_ntk(built.model, torch.cat([rows, test_rows])).double()
            self.K, self.cross = self.initial, everything[len(rows) :, : len(rows)]

    def trained(self, how: Training) -> Tensor | None:
        """Return the limit kernel's predictions after the same training, started at the network's own outputs."""
        if not (self.has_limit and how.full_batch):
            return None
        begin: dict[str, Any] = {"start": self.start, "start_query": self.start_query, "l2": how.l2}
        flow = how.method == "flow"
        if how.loss == "mse":
            when = {"time": how.time} if flow else {"time": how.epochs, "rate": how.rate}
            return linearised_predictions(self.K, self.cross, self.y, scale=2 / self.y.numel(), **when, **begin)
        finer = FLOW_STEPS if flow else 1
        begin |= {"steps": finer * how.epochs, "rate": float(how.rate) / finer}
        return kernel_descent(self.K, self.cross, lambda f: how.output_gradient(f, self.y), **begin)

    def distances(self, kernel: Tensor, ridge: float) -> KernelDistances | None:
        """Return how far a kernel is from the limit, if there is one."""
        return kernel_distances(kernel, self.K, ridge=ridge) if self.has_limit else None


def _ridge(ridge: float | None, training: Training, split: Split, K: Tensor) -> float:
    if ridge is not None:
        return positive(ridge, "ridge", "kernel ridge regression must be defined")
    if float(training.l2) > 0:
        return float(training.l2) * split.y.numel() / 2  # 2/(n c) is the weight of a squared residual over 2
    return 1e-3 * float(K.diagonal().double().mean()) or 1e-3


def _kernel(model: nn.Module, rows: Tensor) -> Tensor:
    """Return the tangent kernel, averaged over outputs; outputs of a ReLU layer all have the same."""
    if isinstance(model, ReluNetwork):
        return relu_ntk_of_weights(rows, model.weights).double()
    return empirical_ntk(model, rows).double()


def _weights(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(p.detach().double() for p in model.parameters() if p.requires_grad)


def _distance(f: Tensor, predictor: Tensor) -> OutputDistance:
    gap, size = float((f.double() - predictor.double()).norm()), float(predictor.double().norm())
    return OutputDistance(gap, gap / size if size > 0 else float("inf"))
