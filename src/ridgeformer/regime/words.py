"""The answer about the kernel regime in plain words, made from the numbers."""

from __future__ import annotations

from ridgeformer.regime.criteria import Criterion
from ridgeformer.regime.measure import Measurement

__all__ = ["CLOSE", "influence_supported", "obstacles", "sentences"]

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
    found = {
        "the kernel moved {}": measured.kernel_drift,
        "the outputs are {} from the linearised network's": None if away is None else away.relative,
        "the outputs are {} from kernel ridge regression's": None if ridge is None else ridge.relative,
    }
    unknown = "{} (not measured)"
    return tuple(
        said.format(_percent(value)) if value is not None else unknown.format(said.replace(" {}", ""))
        for said, value in found.items()
        if value is None or not value <= CLOSE
    )


def influence_supported(measured: Measurement) -> bool:
    """Return whether nothing keeps influence by the tangent kernel from describing the trained network."""
    return not obstacles(measured)


def sentences(measured: Measurement, criteria: tuple[Criterion, ...]) -> tuple[str, ...]:
    """Return the sentences of the answer, most important first."""
    found = [_limit(measured), *_training(measured), _influence(measured)]
    if criteria:
        found.append(_widths(criteria))
    return tuple(found)


def _limit(measured: Measurement) -> str:
    if measured.kernel_start is None:
        return (
            f"At width {measured.width:,} this network is compared with its own kernel at initialisation: its limit "
            "has no closed form here."
        )
    away, ridge = measured.kernel_start.whitened, measured.kernel_start.ridge
    where = f"within {_percent(away)} of" if away <= CLOSE else f"{_percent(away)} away from"
    return (
        f"At width {measured.width:,} this network's kernel is {where} its limit in the ridge-whitened sense "
        f"(ridge {ridge:.2g}), and its average entry within {_percent(measured.kernel_start.frobenius)}."
    )


def _training(measured: Measurement) -> list[str]:
    if measured.diverged:
        return [f"Training diverged after {measured.steps} steps: give a smaller --rate."]
    said = []
    if measured.dead:
        said.append("The network is dead: no output has a gradient, so nothing it does is learnt.")
    if measured.kernel_drift is not None and measured.weight_movement is not None:
        said.append(
            f"During training the kernel moved {_percent(measured.kernel_drift)} and the weights "
            f"{_percent(measured.weight_movement)}; the training error ended at {measured.train_error:.3g}, the test "
            f"error at {measured.test_error:.3g} (kernel ridge regression: {measured.ridge_test_error:.3g})."
        )
    distances = {
        "its own linearisation, trained alike": measured.to_linearised,
        "the limit kernel's predictor at the same training time": measured.to_ntk,
        "kernel ridge regression": measured.to_ridge,
    }
    parts = [f"{_percent(one.relative)} from {name}" for name, one in distances.items() if one is not None]
    if parts:
        said.append(f"Its test outputs are {', '.join(parts)}.")
    return said


def _influence(measured: Measurement) -> str:
    if influence_supported(measured):
        near = measured.kernel_start is not None and measured.kernel_start.whitened <= CLOSE
        whose = "the limit kernel or the network's own" if near else "the network's own kernel"
        return f"Influence by NTK is supported, with {whose}: kernel and outputs stayed within {_percent(CLOSE)}."
    return (
        f"Influence by NTK is not supported, because {' and '.join(obstacles(measured))}; at most {_percent(CLOSE)} is "
        "asked for."
    )


def _widths(criteria: tuple[Criterion, ...]) -> str:
    said: dict[bool, list[str]] = {True: [], False: []}
    for one in criteria:
        least = one.log10_sufficient if one.log10_expected is None else one.log10_expected
        named = "" if one.name in MEANINGS[one.name] else f" ({one.name})"
        said[one.reachable].append(f"{MEANINGS[one.name]}{named} asks for about 10^{max(least, 0):.1f}")
    parts = [
        f"{word}: {', '.join(said[key])}" for key, word in ((True, "reachable"), (False, "out of reach")) if said[key]
    ]
    return f"Widths at initialisation, {'; '.join(parts)}."


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:,.0f} %"
