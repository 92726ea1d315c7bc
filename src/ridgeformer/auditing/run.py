"""The audit: one dataset in, one frozen record of everything measured out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from ridgeformer.auditing.answer import answer
from ridgeformer.auditing.compiled import Compiled, Watched, choose_watched, examine_compiled
from ridgeformer.auditing.convergence import Convergence, examine_convergence
from ridgeformer.auditing.fits import Certified, Scored, certified_fit, constant, linear_ridge, nadaraya_watson
from ridgeformer.auditing.kernel_regime import KernelRegime, examine_regime
from ridgeformer.auditing.malleability import Malleable, examine_malleability
from ridgeformer.auditing.settings import Settings, Skipped, attempt
from ridgeformer.claims.on_data import Applied, examine_claims
from ridgeformer.datasets import Dataset, Split
from ridgeformer.influence.answer import Answer, explain
from ridgeformer.regime.spectra import Spectra, examine_spectra

__all__ = ["Audit", "audit", "examine_attribution", "hardest_row"]

STAGES = (
    "preparing the data",
    "fitting and certifying",
    "fitting baselines",
    "measuring spectra",
    "watching convergence",
    "compiling transformers",
    "training networks",
    "tracing one prediction",
    "attacking training rows",
    "applying the claims",
)

LIBRARIES = ("ridgeformer", "torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything an audit found; `sentences` is the short version.

    Attributes:
        data: Training and held-out rows, with the dataset as given and notes on what was done to it.
        certified: The certified fit.
        baselines: What it is compared with.
        spectra: Of the data and of the kernel.
        convergence: Steps needed.
        compiled: Transformers compiled for these data, linear and softmax attention.
        watched: One small enough to watch.
        regime: Whether networks are kernel machines here.
        attribution: Which training points made one prediction.
        malleability: How easily influences change sign.
        claims: The theorems evaluated here.
        sentences: The answer in plain words.
        settings: Every choice made.
        versions: Of the libraries used.
        seconds: Time of each stage.
    """

    data: Split
    certified: Certified
    baselines: tuple[Scored, ...]
    spectra: Spectra
    convergence: Convergence
    compiled: tuple[Compiled, ...]
    watched: Watched | Skipped
    regime: KernelRegime | Skipped
    attribution: Answer | Skipped
    malleability: Malleable | Skipped
    claims: Applied
    sentences: tuple[str, ...]
    settings: Settings
    versions: dict[str, str]
    seconds: dict[str, float]

    @property
    def fits(self) -> tuple[Scored, ...]:
        """The certified fit and the baselines."""
        return (self.certified.scored, *self.baselines)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain numbers, lists and text, for JSON."""
        dataset, certified, spectra = self.data.dataset, self.certified, self.spectra
        return {
            "answer": list(self.sentences),
            "data": {
                "name": dataset.name, "rows": len(self.data.rows) + len(self.data.rows_t), "features": dataset.d,
                "task": dataset.task,
                "classes": list(dataset.classes), "source": dataset.source, "notes": list(self.data.notes),
            },
            "fits": [fit.as_dict() for fit in self.fits],
            "certificate": {
                "status": certified.fit.status.value,
                "relative_residual": certified.fit.relative_residual,
                "worst_bound": certified.worst_bound,
                "typical_output": certified.typical_output,
                "safe_decisions": certified.safe_decisions,
            },
            "spectra": {
                key: value.tolist() if hasattr(value, "tolist") else value for key, value in vars(spectra).items()
            },
            "convergence": {
                "bound": self.convergence.bound.tolist(),
                "bound_holds": self.convergence.bound_holds,
                "errors": {curve.method: curve.errors.tolist() for curve in self.convergence.curves},
                "steps_to_1e-3": {curve.method: curve.steps_to_target for curve in self.convergence.curves},
            },
            "compiled": [model.as_dict() for model in self.compiled],
            "regime": self.regime.as_dict(),
            "influence": self.attribution.as_dict(),
            "malleability": self.malleability.as_dict(),
            "claims": self.claims.as_dict(),
            "settings": asdict(self.settings),
            "versions": self.versions,
            "seconds": self.seconds,
        }  # fmt: skip


def audit(
    dataset: Dataset, settings: Settings | None = None, *, progress: Callable[[int, int, str], object] | None = None
) -> Audit:
    """Examine a dataset: a certified fit against baselines, what it takes, and how far it can be trusted.

    Args:
        dataset: Any dataset of `ridgeformer.datasets`, or your own.
        settings: The choices; the defaults are `Settings()`.
        progress: Called as `progress(done, total, what)` before each stage and once at the end.

    Raises:
        InputError: too few rows, or rows the preprocessing cannot take.

    Example:
        >>> from ridgeformer import datasets
        >>> from ridgeformer.auditing import preset
        >>> result = audit(datasets.load("wine"), preset("quick"))
        >>> result.certified.scored.test_score > 0.9, result.convergence.bound_holds
        (True, True)
    """
    settings = settings or Settings()
    clock = _Clock(progress or (lambda done, total, what: None))
    with clock:
        data = Split.of(
            dataset,
            test_fraction=settings.test_fraction,
            max_rows=settings.max_rows,
            preprocessing=settings.preprocessing,
            seed=settings.seed,
        )
        clock.next()
        certified = certified_fit(data, settings)
        clock.next()
        linear = linear_ridge(data, settings)
        baselines = (nadaraya_watson(data, settings), linear, constant(data))
        clock.next()
        spectra = examine_spectra(data.X, certified.fit.eigenvalues, certified.fit.ridge)
        clock.next()
        convergence = examine_convergence(certified.fit, settings)
        clock.next()
        assert linear.ridge is not None
        compiled = examine_compiled(data, certified, linear.ridge, settings)
        watched = attempt(lambda: choose_watched(data, certified, settings))
        clock.next()
        regime = attempt(lambda: examine_regime(data, settings))
        clock.next()
        attribution = attempt(lambda: examine_attribution(data, certified, settings))
        clock.next()
        malleability = attempt(lambda: examine_malleability(data, certified, settings))
        clock.next()
        claims = examine_claims(data, certified.fit, spectra)
    return Audit(
        data=data,
        certified=certified,
        baselines=baselines,
        spectra=spectra,
        convergence=convergence,
        compiled=compiled,
        watched=watched,
        regime=regime,
        attribution=attribution,
        malleability=malleability,
        claims=claims,
        sentences=answer(data, certified, baselines, spectra, convergence, compiled, regime, malleability),
        settings=settings,
        versions={"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        seconds=clock.seconds,
    )


def examine_attribution(data: Split, certified: Certified, settings: Settings) -> Answer:
    """Say which training rows made the prediction of the certified fit at the hardest held-out row.

    Raises:
        InputError: training rows of one class only, ...
    """
    place = hardest_row(data, certified.outputs)
    temperature = certified.scored.temperature
    return explain(data, certified.fit, place, settings.points, temperature=temperature)


def hardest_row(data: Split, outputs: Tensor) -> int:
    """Return the held-out row with the smallest margin of its own class, or the largest error.

    Rows of a class that no training row has are passed over.
    """
    if data.labels is None or data.labels_t is None:
        return int((outputs - data.yt).norm(dim=1).argmax())
    own = data.labels_t[:, None]
    outputs = outputs + data.mean
    lead = outputs.gather(1, own)[:, 0] - outputs.scatter(1, own, -torch.inf).max(1).values
    lead[~torch.isin(data.labels_t, data.labels)] = torch.inf
    return int(lead.argmin())


class _Clock:
    """Times the stages and tells `progress` about them."""

    def __init__(self, progress: Callable[[int, int, str], object]) -> None:
        self.progress = progress
        self.seconds: dict[str, float] = {}
        self.begin = 0.0

    def __enter__(self) -> None:
        self.begin = time.perf_counter()
        self.progress(0, len(STAGES), STAGES[0])

    def next(self) -> None:
        now = time.perf_counter()
        self.seconds[STAGES[len(self.seconds)]] = now - self.begin
        self.begin = now
        done = len(self.seconds)
        self.progress(done, len(STAGES), STAGES[done] if done < len(STAGES) else "done")

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.next()
