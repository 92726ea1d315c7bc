"""Training: Adam with the published settings, or full-batch gradient descent and flow, whose kernel theory is exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name

__all__ = ["LOSSES", "METHODS", "Trained", "Training", "train"]

METHODS = ("adam", "descent", "flow")
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

    method: Any = "adam"
    loss: Any = "mse"
    rate: Any = 1e-3
    epochs: Any = 500
    batch: Any = 128
    l2: Any = 1e-3

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
        how = {"adam": "Adam", "descent": "full-batch gradient descent", "flow": "gradient flow"}[self.method]
        return (
            f"{self.epochs} epochs of {how} on {self.loss} with rate {float(self.rate):.3g} and L2 {float(self.l2):g}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True)
class Trained:
    """How training went.

    Attributes:
        losses: Loss without penalty on all rows, at the start and after every epoch that was recorded.
        epochs: Those epochs, 0 for the start.
        steps: Steps taken.
        diverged: Whether the loss or a weight stopped being finite; training ended there.
    """

    losses: tuple[float, ...]
    epochs: tuple[int, ...]
    steps: int
    diverged: bool

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """Epochs and losses, in pairs."""
        return tuple(zip(self.epochs, self.losses, strict=True))


def train(
    model: nn.Module,
    X: Float[Tensor, "n d"],
    y: Float[Tensor, "n c"],
    settings: Training,
    generator: torch.Generator,
    *,
    record_every: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Trained:
    """Train a module in place; the same generator gives the same batches, so the same network.

    Args:
        model: Maps (n, d) to (n, c).
        X: Rows, in the module's precision.
        y: Targets.
        settings: How.
        generator: Shuffles the batches of Adam; not used by the full-batch methods.
        record_every: Epochs between two recorded losses; None records a hundred or so.
        progress: Called after every epoch with its number.

    Raises:
        InputError: cross-entropy with one output.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> line = nn.Linear(1, 1).double()
        >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        >>> how = Training(method="descent", rate=0.3, epochs=200, l2=0.0)
        >>> train(line, X, 2 * X + 1, how, torch_generator(0, "batches")).losses[-1] < 1e-9
        True
    """
    if settings.loss == "cross_entropy" and y.shape[1] < 2:
        raise InputError("cross-entropy needs one output a class, and there is one output: use mse, or two outputs.")
    every = max(1, settings.epochs // 100) if record_every is None else whole(record_every, "record_every", 1)
    step = _STEPPERS[settings.method](model, settings)
    losses, recorded, steps = [_loss(model, X, y, settings)], [0], 0
    for epoch in range(1, settings.epochs + 1):
        for rows in _batches(len(X), settings, generator):
            step(X[rows], y[rows])
            steps += 1
        if epoch % every == 0 or epoch == settings.epochs:
            losses.append(_loss(model, X, y, settings))
            recorded.append(epoch)
            if not _finite(losses[-1], model):
                return Trained(tuple(losses), tuple(recorded), steps, diverged=True)
        if progress is not None:
            progress(epoch)
    return Trained(tuple(losses), tuple(recorded), steps, diverged=False)


Step = Callable[[Tensor, Tensor], None]


def _adam(model: nn.Module, settings: Training) -> Step:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=float(settings.rate), weight_decay=float(settings.l2))

    def step(X: Tensor, y: Tensor) -> None:
        optimiser.zero_grad(set_to_none=True)
        settings.objective(model(X), y).backward()
        optimiser.step()

    return step


def _descent(model: nn.Module, settings: Training) -> Step:
    parameters, gradient = _gradient(model, settings)

    def step(X: Tensor, y: Tensor) -> None:
        slopes = gradient(X, y)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes, strict=True):
                parameter.sub_(slope, alpha=float(settings.rate))

    return step


def _flow(model: nn.Module, settings: Training) -> Step:
    """Runge-Kutta of order 4 on d theta/dt = -gradient."""
    parameters, gradient = _gradient(model, settings)
    h = float(settings.rate)

    def step(X: Tensor, y: Tensor) -> None:
        start = [parameter.detach().clone() for parameter in parameters]
        total = [torch.zeros_like(parameter) for parameter in start]
        for ahead, weight in ((0.5, 1 / 6), (0.5, 1 / 3), (1.0, 1 / 3), (0.0, 1 / 6)):
            slopes = gradient(X, y)
            with torch.no_grad():
                for parameter, origin, sum_, slope in zip(parameters, start, total, slopes, strict=True):
                    sum_.add_(slope, alpha=weight)
                    parameter.copy_(origin - ahead * h * slope)
        with torch.no_grad():
            for parameter, origin, sum_ in zip(parameters, start, total, strict=True):
                parameter.copy_(origin - h * sum_)

    return step


_STEPPERS: dict[str, Callable[[nn.Module, Training], Step]] = {"adam": _adam, "descent": _descent, "flow": _flow}


def _gradient(
    model: nn.Module, settings: Training
) -> tuple[list[nn.Parameter], Callable[[Tensor, Tensor], list[Tensor]]]:
    """Return the trained parameters and the gradient of loss and penalty with respect to them."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def gradient(X: Tensor, y: Tensor) -> list[Tensor]:
        slopes = torch.autograd.grad(settings.objective(model(X), y), parameters)
        l2 = float(settings.l2)
        return [slope + l2 * parameter.detach() for slope, parameter in zip(slopes, parameters, strict=True)]

    return parameters, gradient


def _batches(n: int, settings: Training, generator: torch.Generator) -> list[Tensor] | list[slice]:
    if settings.method != "adam":
        return [slice(None)]
    return list(torch.randperm(n, generator=generator).split(settings.batch))


def _loss(model: nn.Module, X: Tensor, y: Tensor, settings: Training) -> float:
    with torch.no_grad():
        return float(settings.objective(model(X), y))


def _finite(loss: float, model: nn.Module) -> bool:
    finite = all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
    return finite and loss == loss and abs(loss) != float("inf")
