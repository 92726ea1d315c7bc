"""Shared test settings: hypothesis repeats itself, scikit-learn checks its whole contract."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips a part of its contract

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


@pytest.fixture
def unchecked():
    """Switch runtime type checks off, so that a value of a wrong type meets the library's own error."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
