"""Claims of the literature about trained in-context learners, re-examined on the networks of `identify-trained`.

Each stands with the measure it was published with, taken on trained networks and on their untrained twins, beside what
`identify` says. A claim whose networks were not trained makes no statement here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ridgeformer.core.statistics import mean_interval

__all__ = ["CLAIMS", "TrainedClaim"]

Row: TypeAlias = Mapping[str, Any]

COMMAND = "ridgeformer reproduce identify-trained --preset default"


@dataclass(frozen=True)
class TrainedClaim:
    """A claim about a class of networks.

    Attributes:
        source: Its key in the references.
        claim: In words.
        measure: The published measure, in words.
        column: Where the rows have it.
        concerns: Whether a row is of a network that the claim is about.
        named: Whether a row's answer names the claimed algorithm.
    """

    source: str
    claim: str
    measure: str
    column: str
    concerns: Callable[[Row], bool]
    named: Callable[[Row], bool]

    def examine(self, trained: Sequence[Row], untrained: Sequence[Row]) -> tuple[int, str, str, str, str]:
        """Return the number of networks, the measure on them and on untrained twins, our answer, and a verdict."""
        if not trained:
            return 0, "", "", "", f"not yet run: {COMMAND}"
        ours, null = (self._mean([row[self.column] for row in rows]) for rows in (trained, untrained))
        named = sum(self.named(row) for row in trained)
        near = sorted({str(row["best"]) for row in trained if row["reason"] is not None})
        beside = f"; else no answer, nearest {', '.join(near)}" if near else ""
        says = f"{named} of {len(trained)} named so{beside}"
        if named == len(trained):
            verdict = "confirmed by the predictions"
        elif named:
            verdict = "confirmed for some"
        else:
            verdict = "not confirmed"
        return len(trained), ours, null, says, verdict

    @staticmethod
    def _mean(values: Sequence[float]) -> str:
        low, high = mean_interval(values)
        interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
        return f"{sum(values) / len(values):.3f}{interval}"


def _names(*keys: str) -> Callable[[Row], bool]:
    """Return whether the answer holds one of these keys; {layers} stands for the depth of the network."""
    return lambda row: bool({key.format(layers=row["layers"]) for key in keys} & set(row["identified"].split()))


def _of_family(*families: str) -> Callable[[Row], bool]:
    return lambda row: any(key.partition("-")[0] in families for key in row["identified"].split())


CLAIMS = (
    TrainedClaim(
        "vonOswald2023",
        "One layer of linear attention, trained on isotropic tasks, makes one step of gradient descent",
        "cosine of the induced weights with those of gradient descent",
        "sim_w_gd",
        lambda row: row["network"] == "linear" and row["condition"] == 1 and row["layers"] == 1,
        _names("gd-1/k", "gd-1", "gd_covariance-1/k"),
    ),
    TrainedClaim(
        "Ahn2023",
        "L layers of linear attention make L steps of gradient descent preconditioned by the inverse covariance",
        "largest relative distance of a layer's matrix from a multiple of the inverse covariance (0 is equal)",
        "from_covariance",
        lambda row: row["network"] == "linear" and row["condition"] > 1,
        _names("gd_covariance-{layers}/k"),
    ),
    TrainedClaim(
        "Fu2024",
        "Softmax transformers run a higher-order method such as Newton's",
        "cosine of the errors with Newton-Schulz iteration",
        "sim_e_newton",
        lambda row: row["network"] == "softmax",
        _of_family("newton_schulz", "newton_identity"),
    ),
    TrainedClaim(
        "Yan2026",
        "Softmax transformers trained on Gaussian processes run preconditioned Richardson iteration with the kernel",
        "cosine of the errors with kernel gradient descent, at the output (the source probes layer by layer)",
        "sim_e_richardson",
        lambda row: row["network"] == "process",
        _of_family("kernel_gd_gaussian", "kernel_gd_exponential", "attention_only_gd"),
    ),
)
"""The claims, in the order of their publication."""
