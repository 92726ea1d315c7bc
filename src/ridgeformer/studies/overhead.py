"""Tasks that do nothing: what the mechanism itself costs."""

from __future__ import annotations

from typing import Any

from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "nothing"]


def nothing(number: int, seed: int) -> dict[str, Any]:
    """Return its number.

    Example:
        >>> nothing(3, seed=0)
        {'value': 3}
    """
    return {"value": number}


STUDY = Study(
    name="overhead",
    version=1,
    what="Tasks that do nothing, to see what the mechanism costs and whether a cluster answers.",
    function="ridgeformer.studies.overhead:nothing",
    presets={
        "quick": Preset(product(number=range(100))),
        "default": Preset(product(number=range(1000))),
        "paper": Preset(product(number=range(10_000))),
    },
)
