"""The model of rounding that expected lines are held against; it is no theorem, and proved lines do not use it."""

from __future__ import annotations

__all__ = ["FLOOR", "MODEL", "MODELLED"]

FLOOR = 4.0
"""Rounding may leave a relative A-norm error of FLOOR (1 + largest logit) eps kappa (see `Evidence.floor`)."""

MODEL = (
    f"FLOOR (1 + largest logit) eps kappa is added to relative errors, with FLOOR = {FLOOR:g}, eps of the weights' "
    "precision, and kappa the condition number of the system or of the method, whichever is larger; and what conjugate "
    "gradients leave when their divisors become too small to divide by"
)
"""The model in words."""

MODELLED = "rounding as modelled"
"""How the condition of an expected line refers to it."""
