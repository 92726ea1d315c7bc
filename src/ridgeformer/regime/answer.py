"""Is this network a kernel machine on these data? One record: the answer in words, and every number behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.words import percent, power_of_ten
from ridgeformer.datasets import Split
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime.architecture import Architecture, Built, CustomArchitecture
from ridgeformer.regime.distances import Criterion, KernelDistances, judge_criteria, kernel_distances
from ridgeformer.regime.finite_ntk import finite_relu_ntks
from ridgeformer.regime.measurement import Measurement, draw_network, measure, require_network_memory
from ridgeformer.regime.spectra import GramSpectrum, gram_spectrum
from ridgeformer.regime.tangent_kernel import stable_rate, tangent_norm
from ridgeformer.regime.training import Training
from ridgeformer.solving.selection import choose_ridge_of_matrix

__all__ = ["CLOSE", "RegimeAnswer", "answer_regime", "choose_ridge", "influence_supported", "obstacles", "set_rate"]

CLOSE = 0.1
"""Relative distances up to this count as close."""

MEANINGS = {
    "additive": "an error below a quarter of the smallest eigenvalue",
    "frobenius": "the average entry",
    "multiplicative": "every direction relative to itself",
    "whitened": "what ridge regression sees",
    "published": "the published formula",
}


def obstacles(measured: Measurement) -> tuple[str, ...]:
    """Return what keeps influences computed with the tangent kernel from describing the trained network.

    The closed form is about kernel ridge regression with one fixed kernel. So the kernel may move by at most `CLOSE`,
    and the test outputs must be within `CLOSE` of the linearised network's and of kernel ridge regression's.
    """
    if measured.diverged:
        return ("training diverged",)
    if measured.dead:
        return ("the network is dead",)
    away, ridge = measured.to_linearised, measured.to_ridge
    distances = {
        "the kernel moved {}": measured.kernel_drift,
        "the outputs are {} from the linearised network's": None if away is None else away.relative,
        "the outputs are {} from kernel ridge regression's": None if ridge is None else ridge.relative,
    }
    return tuple(
        sentence.replace(" {}", "") + " (not measured)" if distance is None else sentence.format(percent(distance))
        for sentence, distance in distances.items()
        if distance is None or not distance <= CLOSE
    )


def influence_supported(measured: Measurement) -> bool:
    """Return whether nothing keeps influence by the tangent kernel from describing the trained network."""
    return not obstacles(measured)


def sentences(measured: Measurement, criteria: tuple[Criterion, ...]) -> tuple[str, ...]:
    """Return the sentences of the answer, most important first."""
    widths = (_widths(criteria),) if criteria else ()
    return (_limit(measured), *_training(measured), _influence(measured), *widths)


def _limit(measured: Measurement) -> str:
    if measured.kernel_start is None:
        return (
            f"At width {measured.width:,} this network is compared with its own kernel at initialisation: its limit "
            "has no closed form here."
        )
    away, ridge = measured.kernel_start.whitened, measured.kernel_start.ridge
    where = f"within {percent(away)} of" if away <= CLOSE else f"{percent(away)} away from"
    return (
        f"At width {measured.width:,} this network's kernel is {where} its limit in the ridge-whitened sense "
        f"(ridge {ridge:.2g}), and its average entry within {percent(measured.kernel_start.frobenius)}."
    )


def _training(measured: Measurement) -> list[str]:
    if measured.diverged:
        return [f"Training diverged after {measured.steps} steps: give a smaller --rate."]
    lines = []
    if measured.dead:
        lines.append("The network is dead: no output has a gradient, so nothing it does is learnt.")
    if measured.kernel_drift is not None and measured.weight_movement is not None:
        lines.append(
            f"During training the kernel moved {percent(measured.kernel_drift)} and the weights "
            f"{percent(measured.weight_movement)}; the training error ended at {measured.train_error:.3g}, the test "
            f"error at {measured.test_error:.3g} (kernel ridge regression: {measured.ridge_test_error:.3g})."
        )
    distances = {
        "its own linearisation, trained alike": measured.to_linearised,
        "the limit kernel's predictor at the same training time": measured.to_ntk,
        "kernel ridge regression": measured.to_ridge,
    }
    parts = [f"{percent(one.relative)} from {name}" for name, one in distances.items() if one is not None]
    if parts:
        lines.append(f"Its test outputs are {', '.join(parts)}.")
    return lines


def _influence(measured: Measurement) -> str:
    if influence_supported(measured):
        near = measured.kernel_start is not None and measured.kernel_start.whitened <= CLOSE
        whose = "the limit kernel or the network's own" if near else "the network's own kernel"
        return f"Influence by NTK is supported, with {whose}: kernel and outputs stayed within {percent(CLOSE)}."
    return (
        f"Influence by NTK is not supported, because {' and '.join(obstacles(measured))}; at most {percent(CLOSE)} is "
        "allowed."
    )


def _widths(criteria: tuple[Criterion, ...]) -> str:
    groups: dict[str, list[str]] = {"reachable": [], "out of reach": []}
    for one in criteria:
        name = "" if one.name in MEANINGS[one.name] else f" ({one.name})"
        needs = f"{MEANINGS[one.name]}{name} needs about {power_of_ten(max(one.log10_width, 0.0))}"
        groups["reachable" if one.reachable else "out of reach"].append(needs)
    parts = [f"{word}: {', '.join(needs)}" for word, needs in groups.items() if needs]
    return f"Widths at initialisation, {'; '.join(parts)}."


RIDGES = tuple(10.0 ** (k / 2) for k in range(-10, 3))
"""Ridges tried first, as multiples of the mean diagonal of the kernel; widened while the choice lies on an edge."""

NEARLY = 1.1
"""Leave-one-out errors up to this multiple of the smallest count as equally good."""

FIRST_WIDTH = 1_000
SHORT = Training("descent", rate=1.0, epochs=300, l2=0.0)
"""Full-batch gradient descent, whose kernel theory is exact; the rate is chosen from the network."""


@dataclass(frozen=True, eq=False)
class RegimeAnswer:
    """What was found about one network on one dataset.

    `measured` is the network before and after training, `spectrum` that of the rows and `attended` that of what the
    ReLU layer sees, if that is something else. `at_widths` holds the distance of the kernel at initialisation from its
    limit, for growing widths, and `criteria` every meaning of "close to the limit"; both are empty without a limit.
    `notes` say what was shortened, chosen or left out.
    """

    data: str
    model: str
    rows: int
    test_rows: int
    features: int
    outputs: int
    architecture: dict[str, Any]
    training: Training
    measured: Measurement
    spectrum: GramSpectrum
    attended: GramSpectrum | None
    at_widths: tuple[tuple[int, KernelDistances], ...]
    criteria: tuple[Criterion, ...]
    notes: tuple[str, ...]
    seconds: float

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in words, most important first."""
        return sentences(self.measured, self.criteria)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        spectra = {"rows": self.spectrum} | ({} if self.attended is None else {"attended": self.attended})
        return {
            "answer": list(self.sentences),
            "data": self.data,
            "model": self.model,
            "sizes": {name: getattr(self, name) for name in ("rows", "test_rows", "features", "outputs")},
            "architecture": self.architecture,
            "training": asdict(self.training),
            "measured": asdict(self.measured),
            "spectra": {name: spectrum.as_dict() for name, spectrum in spectra.items()},
            "at_widths": [{"width": width, **asdict(distances)} for width, distances in self.at_widths],
            "criteria": [criterion.as_dict() for criterion in self.criteria],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }


def answer_regime(
    split: Split,
    architecture: Architecture | CustomArchitecture,
    *,
    model: str = "",
    width: int = 1024,
    widest: int = 1_000_000,
    ridge: float | None = None,
    training: Training = SHORT,
    rate: float | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    until: float | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> RegimeAnswer:
    """Measure one network on training and test rows, and say whether its tangent kernel describes it.

    `split` comes from `Split.for_networks`. The network has `width` neurons; kernels at initialisation are drawn up to
    `widest`. Without `ridge` the whitened criterion takes `choose_ridge`; without `rate` training takes half of what
    is stable for the linearised network, or Adam's own. With `until` training ends once the training error is at most
    that. `model` is a name for the report, and `progress(done, total,
    what)` is called before each stage.

    Example:
        >>> from ridgeformer.datasets import load
        >>> split = Split.for_networks(load("digits"), rows=40, test_rows=20)
        >>> found = answer_regime(split, Architecture("mlp-attn", scale=1.0), width=64, widest=10_000)
        >>> found.sentences[0].startswith("At width 64")
        True
    """
    begin = time.perf_counter()
    say = progress or (lambda done, total, what: None)
    notes = list(split.notes)
    require_network_memory(split, width, dtype)
    built = draw_network(split, architecture, width, seed, dtype)
    seen, closed_form = built.features(split.X), built.closed_form
    K = ReluNTK()(seen) if closed_form else None
    say(0, 3, f"kernels at initialisation up to width {widest:,}")
    if ridge is None and K is not None:
        ridge, note = choose_ridge(K, split.y)
        notes.append(note)
    at_widths: tuple[tuple[int, KernelDistances], ...] = ()
    if K is not None and ridge is not None:
        largest = whole(widest, "widest", FIRST_WIDTH)
        decades = [int(width) for width in 10.0 ** np.arange(3, 10) if FIRST_WIDTH <= width < largest]
        draws = finite_relu_ntks(seen, [*decades, largest], torch_generator(seed, "regime.stream"))
        at_widths = tuple((width, kernel_distances(Km, K, ridge=ridge)) for width, Km in draws)
    training = set_rate(training, rate, built, split, seed)
    say(1, 3, f"training width {width:,} and its linearisation")
    measured = measure(
        split, architecture, training, width=width, seed=seed, ridge=ridge, dtype=dtype, built=built, until=until
    )
    most, training = training.epochs, replace(training, epochs=measured.curve[-1][0])
    ended = "" if until is None else f", up to {most:,} until the training error was at most {until:g}"
    published = f"the published setting is Adam, {Training().epochs} epochs, L2 {Training().l2:g}"
    notes.append(f"Training was {training}{ended}; {published}.")
    say(2, 3, "spectra and required widths")
    spectrum = gram_spectrum(split.X)
    criteria = judge_criteria(seen, measured.kernel_start, at_widths, measured.ridge, spectrum.condition())
    if K is not None and not criteria:
        notes.append("Some rows repeat up to a factor: the limit kernel is singular and no width is enough for it.")
    if spectrum.warning:
        notes.append(spectrum.warning)
    changed = closed_form and not torch.equal(seen, split.X)
    return RegimeAnswer(
        data=split.dataset.name,
        model=model or getattr(architecture, "name", "custom"),
        rows=len(split.X),
        test_rows=len(split.Xt),
        features=split.X.shape[1],
        outputs=split.y.shape[1],
        architecture=asdict(architecture) if isinstance(architecture, Architecture) else {},
        training=training,
        measured=measured,
        spectrum=spectrum,
        attended=gram_spectrum(seen) if changed else None,
        at_widths=at_widths,
        criteria=criteria,
        notes=tuple(notes),
        seconds=time.perf_counter() - begin,
    )


def choose_ridge(K: Tensor, y: Tensor) -> tuple[float, str]:
    """Return the largest ridge that predicts nearly best, leaving one row out, and a note that says so.

    The largest, because clean data are predicted best without any, where every criterion is the multiplicative one.

    Example:
        >>> y = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
        >>> choose_ridge(torch.eye(2, dtype=torch.float64), y)[0]  # nothing is learnt from other rows: all are as good
        10.0
    """

    def largest(errors: Tensor) -> int:
        means = errors.mean(1)
        return int((means <= NEARLY * means.min()).nonzero().max())

    best = choose_ridge_of_matrix(K, y, RIDGES, rule=largest).ridge
    return best, (
        f"The ridge, {best:.2g}, is the largest with which the limit kernel's squared error, leaving one row out, is "
        "within a tenth of its smallest."
    )


def set_rate(training: Training, rate: float | None, built: Built, split: Split, seed: int) -> Training:
    """Return the training with this rate; None is half of what is stable for the network linearised, or Adam's own."""
    if rate is None:
        if not training.full_batch:
            return training
        rows = built.features(split.X).to(next(built.model.parameters()))
        norm = tangent_norm(built.model, rows, torch_generator(seed, "power"))
        rate = stable_rate(norm, split.y, training.loss)
    return replace(training, rate=rate)
