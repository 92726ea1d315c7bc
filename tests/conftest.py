"""Shared test settings: helper modules beside the tests are importable, hypothesis repeats itself."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

for room in ("kernels", "solvers"):
    sys.path.insert(0, str(Path(__file__).parent / room))
