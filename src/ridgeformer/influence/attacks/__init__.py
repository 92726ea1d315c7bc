"""Attacks on rows, one a file: they raise any objective, in any norm, with explicit bounds or none.

A new one is a file with an `Attack`, and one line in `ATTACKS`.
"""

from __future__ import annotations

from typing import Any

from ridgeformer.core.errors import unknown_name
from ridgeformer.influence.attacks.base import Attack, Objective
from ridgeformer.influence.attacks.fgsm import FGSM
from ridgeformer.influence.attacks.mim import MIM
from ridgeformer.influence.attacks.pgd import PGD
from ridgeformer.influence.attacks.random_noise import RandomNoise

__all__ = ["ATTACKS", "FGSM", "MIM", "PGD", "Attack", "Objective", "RandomNoise", "build_attack"]

ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in (FGSM, PGD, MIM, RandomNoise)}


def build_attack(name: str, eps: Any, *, norm: str = "linf", bounds: Any = None) -> Attack:
    """Return the named attack with its default steps.

    Example:
        >>> build_attack("pgd", 0.3).steps
        40
    """
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    return ATTACKS[name](eps, norm, bounds)
