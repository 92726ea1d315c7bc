"""How wrong can it be? Every answer here is a number that an error cannot exceed, or cannot go below.

Kernel ridge regression solves (K + l I) alpha = y. An attention network, an iteration or a narrow model
solves it only approximately, in one of four ways, and each has its bounds:

- it keeps fewer directions than the kernel has: `width_rank`, `logit_sketch`;
- it stops after a number of steps: `iteration_rates`;
- each step is a little off: `roundoff`;
- it hands over an answer of unknown origin, to be judged by its residual alone: `posterior`.

Names end in `_bound` or `_error_factor` for what an error cannot exceed, in `_floor` for what it cannot go
below. One function is a guide and not a theorem, `gaussian_sketch_relative_error`, and says so. All are pure
functions of numbers, lists, arrays or CPU tensors. Values are evaluated in float64 and correct to a few units in the
last place; bounds on round-off alone are rounded upwards. Identifiers such as W2 or B3 name rows of the project's list
of claims.

Arguments have one meaning everywhere:

- `spectrum`: eigenvalues >= 0 of K, in any order; zeros may be left out;
- `ridge`: l > 0; A = K + l I;
- `kappa`: the condition number of A, >= 1, or any upper bound on it;
- `kernel_norm`, `operator_norm`, `difference`: the spectral norm of K, of A, of K - Kh, or any upper bound on it;
- `width`: the number m >= 0 of directions kept, or the rank allowed; `d_eff`: the effective dimension, >= 0;
- `steps`, `terms`: the number t >= 0 of them; `eps`: the relative error allowed, > 0;
- plurals such as `query_norms` or `residual_norms`: one number or a vector, an entry for each query or output. Bounds
  at queries have the shape (queries, outputs), without the axis of an argument that is one number.
"""

from ridgeformer.bounds import iteration_rates, logit_sketch, posterior, roundoff, width_rank
from ridgeformer.bounds.iteration_rates import *  # noqa: F403
from ridgeformer.bounds.logit_sketch import *  # noqa: F403
from ridgeformer.bounds.posterior import *  # noqa: F403
from ridgeformer.bounds.roundoff import *  # noqa: F403
from ridgeformer.bounds.width_rank import *  # noqa: F403

__all__: list[str] = []
__all__ += iteration_rates.__all__
__all__ += logit_sketch.__all__
__all__ += posterior.__all__
__all__ += roundoff.__all__
__all__ += width_rank.__all__
