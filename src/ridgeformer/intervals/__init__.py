"""Prediction intervals, prediction sets and posterior variances from exact leave-one-out: pure functions of arrays.

`Fit.interval`, `Fit.prediction_set` and `Fit.posterior` call them with what they keep; any other model that can say
what it would predict without a row can use them as well.
"""

from ridgeformer.intervals.conformal import (
    GUARANTEES,
    Interval,
    PredictionSet,
    cv_plus,
    full_conformal,
    jackknife_plus,
    jackknife_plus_set,
    local_scale,
    rows_needed,
    split_conformal,
)
from ridgeformer.intervals.gaussian_process import Posterior, log_likelihood, variance_interval

__all__ = [
    "GUARANTEES",
    "Interval",
    "Posterior",
    "PredictionSet",
    "cv_plus",
    "full_conformal",
    "jackknife_plus",
    "jackknife_plus_set",
    "local_scale",
    "log_likelihood",
    "rows_needed",
    "split_conformal",
    "variance_interval",
]
