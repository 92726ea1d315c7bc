"""Shared test settings: hypothesis repeats itself, scikit-learn checks its whole contract."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips a part of its contract

from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
