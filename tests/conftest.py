"""Shared test settings: helper modules beside the tests are importable, hypothesis repeats itself."""

import os
import sys
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips a part of its contract

from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

ROOMS = (
    ".",
    "kernels",
    "solving",
    "views/explorer",
    "solving/engines",
    "compiler",
    "auditing",
    "claims",
    "studies",
    "influence",
    "views",
)

for room in ROOMS:
    sys.path.insert(0, str(Path(__file__).parent / room))
sys.path.append(str(Path(__file__).parent.parent))  # the adversary, `hostile`
