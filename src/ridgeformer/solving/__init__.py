"""Solving (K + ridge I) alpha = y by any algorithm of `ridgeformer.algorithms`.

An iterative algorithm is a generator of states; `run` decides when it is done, and only a residual computed in float64
makes it `converged`.
"""

from ridgeformer.solving.engines import ENGINES, Engine
from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues, lanczos
from ridgeformer.solving.fit import Fit
from ridgeformer.solving.likelihood import (
    LikelihoodGradient,
    MostLikely,
    likelihood_gradient,
    maximise_likelihood,
)
from ridgeformer.solving.plan import Plan
from ridgeformer.solving.preconditioners import PRECONDITIONERS, Identity, Jacobi, Nystrom, PivotedCholesky
from ridgeformer.solving.predictions import Predictions, UnansweredWarning
from ridgeformer.solving.run import Status
from ridgeformer.solving.solver import solve
from ridgeformer.solving.system import RidgeSystem

__all__ = [
    "ENGINES",
    "PRECONDITIONERS",
    "Engine",
    "ExtremeEigenvalues",
    "Fit",
    "Identity",
    "Jacobi",
    "LikelihoodGradient",
    "MostLikely",
    "Nystrom",
    "PivotedCholesky",
    "Plan",
    "Predictions",
    "RidgeSystem",
    "Status",
    "UnansweredWarning",
    "lanczos",
    "likelihood_gradient",
    "maximise_likelihood",
    "solve",
]
