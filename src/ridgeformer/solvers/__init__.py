"""Solvers for (K + ridge I) alpha = y: one method a file, one frozen `Solution` for all.

An iterative method is a generator of states; `run` decides when it is done, and only a residual computed
in float64 makes it `converged`. A new method is one file and one line in `solve.ITERATIVE`.
"""

from ridgeformer.solvers.engines import ENGINES, Engine
from ridgeformer.solvers.iterate import Iterate, Workshop
from ridgeformer.solvers.lanczos import SpectrumEnds, lanczos_ends
from ridgeformer.solvers.plan import Plan
from ridgeformer.solvers.preconditioners import PRECONDITIONERS, Identity, Jacobi, Nystrom, PivotedCholesky
from ridgeformer.solvers.solution import Predictions, Solution, Status, UnansweredWarning
from ridgeformer.solvers.solve import METHODS, solve
from ridgeformer.solvers.system import RidgeSystem

__all__ = [
    "ENGINES",
    "METHODS",
    "PRECONDITIONERS",
    "Engine",
    "Identity",
    "Iterate",
    "Jacobi",
    "Nystrom",
    "PivotedCholesky",
    "Plan",
    "Predictions",
    "RidgeSystem",
    "Solution",
    "SpectrumEnds",
    "Status",
    "UnansweredWarning",
    "Workshop",
    "lanczos_ends",
    "solve",
]
