"""How wrong can it be? Every answer here is a number that an error cannot exceed, or cannot go below.

Kernel ridge regression solves (K + l I) alpha = y. An attention network, an iteration or a narrow model
solves it only approximately, in one of four ways, and each has its bounds:

- it keeps fewer directions than the kernel has: `width_rank`, `resolvent`, `effective_dimension`,
  `logit_sketch`;
- it stops after a number of steps: `iteration_rates`;
- each step is a little off: `inexact_cg`, `roundoff`;
- it hands over an answer of unknown origin, to be judged by its residual alone: `posterior`.

Names end in `_bound` or `_error_factor` for what an error cannot exceed, in `_floor` for what it cannot go
below. One function is a guide and not a theorem, `gaussian_sketch_relative_error`, and says so. All are pure
functions of numbers, lists, arrays or CPU tensors; a single number on the way in gives no axis on the way out.
Values are evaluated in float64 and correct to a few units in the last place; `roundoff` alone rounds upwards.
Identifiers such as W2 or B3 name rows of the project's list of claims.
"""

from ridgeformer.bounds.dimension import (
    effective_dimension,
    gaussian_sketch_relative_error,
    pca_relative_error,
    pca_relative_error_bound,
    shrinkage,
    smallest_pca_width,
    width_for_relative_error,
    width_from_effective_dimension,
)
from ridgeformer.bounds.inexact_cg import inexact_cg_residual_bound, residual_gap_bound
from ridgeformer.bounds.iteration_rates import (
    cg_error_factor,
    cg_prediction_bound,
    cg_steps,
    chebyshev_error_factor,
    chebyshev_steps,
    condition_number_bound,
    heavy_ball_error_factor,
    heavy_ball_steps,
    nesterov_error_factor,
    nesterov_steps,
    neumann_error_factor,
    neumann_ratio,
    neumann_terms,
    richardson_error_factor,
    richardson_steps,
)
from ridgeformer.bounds.logit_sketch import (
    gaussian_logit_sketch_bound,
    gaussian_logit_sketch_floor,
    logit_sketch_bound,
    logit_sketch_floor,
)
from ridgeformer.bounds.posterior import (
    prediction_error_from_diagonal,
    prediction_error_from_energy,
    prediction_error_from_query_norm,
    prediction_error_from_variance,
    solution_error_bound,
)
from ridgeformer.bounds.roundoff import UNIT_ROUNDOFF, residual_norm_bound, residual_roundoff, rounding_gamma
from ridgeformer.bounds.width_rank import (
    in_sample_bound,
    pca_expected_squared_error,
    pca_prediction_bound,
    pca_prediction_factor,
    pca_saturation,
    resolvent_error_bound,
    resolvent_error_floor,
    simple_prediction_bound,
    sketch_error_floor,
    tail_mass,
)

__all__ = [
    "UNIT_ROUNDOFF",
    "cg_error_factor",
    "cg_prediction_bound",
    "cg_steps",
    "chebyshev_error_factor",
    "chebyshev_steps",
    "condition_number_bound",
    "effective_dimension",
    "gaussian_logit_sketch_bound",
    "gaussian_logit_sketch_floor",
    "gaussian_sketch_relative_error",
    "heavy_ball_error_factor",
    "heavy_ball_steps",
    "in_sample_bound",
    "inexact_cg_residual_bound",
    "logit_sketch_bound",
    "logit_sketch_floor",
    "nesterov_error_factor",
    "nesterov_steps",
    "neumann_error_factor",
    "neumann_ratio",
    "neumann_terms",
    "pca_expected_squared_error",
    "pca_prediction_bound",
    "pca_prediction_factor",
    "pca_relative_error",
    "pca_relative_error_bound",
    "pca_saturation",
    "prediction_error_from_diagonal",
    "prediction_error_from_energy",
    "prediction_error_from_query_norm",
    "prediction_error_from_variance",
    "residual_gap_bound",
    "residual_norm_bound",
    "residual_roundoff",
    "resolvent_error_bound",
    "resolvent_error_floor",
    "richardson_error_factor",
    "richardson_steps",
    "rounding_gamma",
    "shrinkage",
    "simple_prediction_bound",
    "sketch_error_floor",
    "smallest_pca_width",
    "solution_error_bound",
    "tail_mass",
    "width_for_relative_error",
    "width_from_effective_dimension",
]
