"""Training: Adam with the published settings, or full-batch gradient descent and flow, whose kernel theory is exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name

__all__ = ["LOSSES", "METHODS", "Trained", "Training", "train"]

METHODS = {"adam": "Adam", "descent": "full-batch gradient descent", "flow": "gradient flow"}
LOSSES = ("mse", "cross_entropy")


@dataclass(frozen=True)
class Training:
    """How a network is trained. The defaults are the published settings.

    Attributes:
        method: "adam"; "descent", full-batch gradient descent; "flow", gradient flow by a Runge-Kutta step of order 4.
        loss: "mse", the mean over rows and outputs; "cross_entropy", the mean over rows.
        rate: Learning rate; the time step of "flow".
        epochs: Passes through the data; steps of "descent" and "flow".
        batch: Rows of a step of Adam.
        l2: Penalty: l2/2 times the squared norm of all trained weights.

    Example:
        >>> Training(method="descent", rate=0.5, epochs=100).time
        50.0
    """

    method: str = "adam"
    loss: str = "mse"
    rate: float = 1e-3
    epochs: int = 500
    batch: int = 128
    l2: float = 1e-3

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown_name("training method", self.method, METHODS)
        if self.loss not in LOSSES:
            raise unknown_name("loss", self.loss, LOSSES)
        positive(self.rate, "rate", "the size of a step")
        whole(self.epochs, "epochs", 0)
        whole(self.batch, "batch", 1)
        if not float(self.l2) >= 0:
            raise InputError(f"l2 is {self.l2!r}; a penalty >= 0 was expected.")

    @property
    def time(self) -> float:
        """Training time of gradient descent or flow."""
        return float(self.rate) * self.epochs

    @property
    def full_batch(self) -> bool:
        """Whether every step sees all rows and follows the gradient, as the kernel theory supposes."""
        return self.method != "adam"

    def objective(self, outputs: Float[Tensor, "n c"], y: Float[Tensor, "n c"]) -> Tensor:
        """Return the loss without the penalty; for cross-entropy the largest target marks the class."""
        if self.loss == "mse":
            return nn.functional.mse_loss(outputs, y)
        return nn.functional.cross_entropy(outputs, y.argmax(1))

    def output_gradient(self, outputs: Float[Tensor, "n c"], y: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
        """Return the gradient of the loss with respect to the outputs."""
        if self.loss == "mse":
            return 2 / y.numel() * (outputs - y)
        classes = nn.functional.one_hot(y.argmax(1), y.shape[1])
        return (torch.softmax(outputs, dim=1) - classes) / len(y)

    def __str__(self) -> str:
        pace = f"rate {float(self.rate):.3g} and L2 {float(self.l2):g}"
        return f"{self.epochs} epochs of {METHODS[self.method]} on {self.loss} with {pace}"


@dataclass(frozen=True)
class Trained:
    """The course of a training.

    Attributes:
        curve: Recorded epochs, from 0, and the loss on all rows there, without the penalty.
        steps: Steps taken.
        diverged: Whether the loss or a weight stopped being finite; training ended there.
    """

    curve: tuple[tuple[int, float], ...]
    steps: int
    diverged: bool


def train(
    model: nn.Module,
    X: Float[Tensor, "n d"],
    y: Float[Tensor, "n c"],
    settings: Training,
    generator: torch.Generator,
    *,
    record_every: int | None = None,
    progress: Callable[[int], None] | None = None,
    enough: Callable[[], bool] | None = None,
) -> Trained:
    """Train a module in place; the same generator gives the same batches, so the same network.

    `X` is in the module's precision. The generator shuffles the batches of Adam. `record_every` None records a hundred
    losses or so; `progress` is called with the number of every finished epoch. `enough` is asked at every recorded loss
    whether training may end there.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> line = nn.Linear(1, 1).double()
        >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        >>> how = Training(method="descent", rate=0.3, epochs=200, l2=0.0)
        >>> train(line, X, 2 * X + 1, how, torch_generator(0, "batches")).curve[-1][1] < 1e-9
        True
    """
    if settings.loss == "cross_entropy" and y.shape[1] < 2:
        raise InputError("cross-entropy needs one output a class, and there is one output: use mse, or two outputs.")
    every = max(1, settings.epochs // 100) if record_every is None else whole(record_every, "record_every", 1)
    step = _STEPPERS[settings.method](model, settings)

    def loss() -> float:
        with torch.no_grad():
            return float(settings.objective(model(X), y))

    curve, steps = [(0, loss())], 0
    for epoch in range(1, settings.epochs + 1):
        if settings.full_batch:
            step(X, y)
            steps += 1
        else:
            for rows in torch.randperm(len(X), generator=generator).split(settings.batch):
                step(X[rows], y[rows])
                steps += 1
        if epoch % every == 0 or epoch == settings.epochs:
            curve.append((epoch, loss()))
            weights_finite = all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
            if not (isfinite(curve[-1][1]) and weights_finite):
                return Trained(tuple(curve), steps, diverged=True)
            if enough is not None and enough():
                break
        if progress is not None:
            progress(epoch)
    return Trained(tuple(curve), steps, diverged=False)


Step: TypeAlias = Callable[[Tensor, Tensor], None]


def _optimiser(kind: type[torch.optim.Adam] | type[torch.optim.SGD]) -> Callable[[nn.Module, Training], Step]:
    """Return the steps of one of torch's optimisers."""

    def build(model: nn.Module, settings: Training) -> Step:
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = kind(parameters, lr=float(settings.rate), weight_decay=float(settings.l2))

        def step(X: Tensor, y: Tensor) -> None:
            optimiser.zero_grad(set_to_none=True)
            settings.objective(model(X), y).backward()
            optimiser.step()

        return step

    return build


def _flow(model: nn.Module, settings: Training) -> Step:
    """Runge-Kutta of order 4 on d theta/dt = -gradient."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    h, l2 = float(settings.rate), float(settings.l2)

    def step(X: Tensor, y: Tensor) -> None:
        start = [parameter.detach().clone() for parameter in parameters]
        total = [torch.zeros_like(parameter) for parameter in start]
        for ahead, weight in ((0.5, 1 / 6), (0.5, 1 / 3), (1.0, 1 / 3), (0.0, 1 / 6)):
            slopes = torch.autograd.grad(settings.objective(model(X), y), parameters)
            with torch.no_grad():
                for parameter, origin, sum_, gradient in zip(parameters, start, total, slopes, strict=True):
                    slope = gradient + l2 * parameter
                    sum_.add_(slope, alpha=weight)
                    parameter.copy_(origin - ahead * h * slope)
        with torch.no_grad():
            for parameter, origin, sum_ in zip(parameters, start, total, strict=True):
                parameter.copy_(origin - h * sum_)

    return step


_STEPPERS: dict[str, Callable[[nn.Module, Training], Step]] = {
    "adam": _optimiser(torch.optim.Adam),
    "descent": _optimiser(torch.optim.SGD),
    "flow": _flow,
}
