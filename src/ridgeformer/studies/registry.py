"""The studies that have a name."""

from __future__ import annotations

from typing import Any

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.studies import (
    condition_numbers,
    depth_accuracy,
    identified_models,
    influence_over_time,
    interventions,
    loss_surface,
    malleability,
    ntk_distance,
    trained_learners,
    width_rank,
)
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.studies.task import find_object

__all__ = ["STUDIES", "find_study", "nothing"]


def nothing(number: int, seed: int) -> dict[str, Any]:
    """Return its number.

    Example:
        >>> nothing(3, seed=0)
        {'value': 3}
    """
    return {"value": number}


OVERHEAD = Study(
    name="overhead",
    version=1,
    what="Tasks that do nothing, to see what the mechanism costs and whether a cluster answers.",
    function="ridgeformer.studies.registry:nothing",
    presets={
        "quick": Preset(product(number=range(100))),
        "default": Preset(product(number=range(1000))),
        "paper": Preset(product(number=range(10_000))),
    },
)

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        depth_accuracy.STUDY,
        width_rank.STUDY,
        ntk_distance.STUDY,
        condition_numbers.STUDY,
        malleability.STUDY,
        interventions.STUDY,
        influence_over_time.STUDY,
        loss_surface.STUDY,
        identified_models.COMPILED,
        identified_models.NULLS,
        identified_models.POWER,
        trained_learners.STUDY,
        OVERHEAD,
    )
}
"""Studies by name; a new one is one file and one line here."""


def find_study(name: Study | str) -> Study:
    """Return a study by name, or what "module:STUDY" names; a study is returned as it is.

    Example:
        >>> find_study("overhead").name
        'overhead'
    """
    if isinstance(name, Study):
        return name
    if ":" not in str(name):
        if name not in STUDIES:
            raise unknown_name("study", name, STUDIES)
        return STUDIES[name]
    named = find_object(str(name))
    if not isinstance(named, Study):
        raise InputError(f"{name} is a {type(named).__name__}; a Study was expected.")
    return named
