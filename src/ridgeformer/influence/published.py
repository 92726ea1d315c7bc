"""The published flip rates, in per cent, that claims and studies are compared with."""

from __future__ import annotations

__all__ = ["FLIPS", "FLIPS_AFTER_ADVERSARIAL_TRAINING"]

FLIPS: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("mnist", "all"): {"fgsm": (4.1, 34.6), "pgd": (3.3, 28.9), "mim": (3.4, 21.9)},
    ("mnist", "3,8"): {"fgsm": (8.4, 25.9), "pgd": (8.4, 41.0), "mim": (8.6, 40.5)},
    ("cifar10", "all"): {"fgsm": (3.3, 26.4), "pgd": (3.1, 19.1), "mim": (3.2, 20.5)},
    ("cifar10", "automobile,airplane"): {"fgsm": (15.2, 14.3), "pgd": (15.5, 14.0), "mim": (15.3, 14.8)},
}
"""By data, classes and attack: ReLU and attention."""

FLIPS_AFTER_ADVERSARIAL_TRAINING = {"mnist": (43.4, 42.2), "cifar10": (36.5, 38.6)}
"""Under PGD, ten classes: ReLU and attention."""
