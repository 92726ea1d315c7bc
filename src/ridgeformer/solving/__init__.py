"""Solving (K + ridge I) alpha = y by any algorithm of `ridgeformer.algorithms`.

An iterative algorithm is a generator of states; `run` decides when it is done, and only a residual computed in float64
makes it `converged`.
"""

from ridgeformer.solving.engines import ENGINES, Engine
from ridgeformer.solving.lanczos import SpectrumEnds, lanczos_ends
from ridgeformer.solving.plan import Plan
from ridgeformer.solving.preconditioners import PRECONDITIONERS, Identity, Jacobi, Nystrom, PivotedCholesky
from ridgeformer.solving.solution import Predictions, Solution, Status, UnansweredWarning
from ridgeformer.solving.solve import solve
from ridgeformer.solving.system import RidgeSystem

__all__ = [
    "ENGINES",
    "PRECONDITIONERS",
    "Engine",
    "Identity",
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
    "lanczos_ends",
    "solve",
]
