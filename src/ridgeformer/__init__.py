"""ridgeformer: attention as kernel regression.

Example:
    >>> import ridgeformer as rf
    >>> data = rf.datasets.load("diabetes")
    >>> X = rf.datasets.unit_rows(data.X)
    >>> solution = rf.solve(rf.kernels.Exponential(temperature=0.5), X, data.y, ridge=0.1, method="cg")
    >>> solution.status.value
    'converged'
"""

from ridgeformer import bounds, claims, datasets, errors, influence, kernels, regime, studies
from ridgeformer.audit import Audit, audit
from ridgeformer.compiler import Certificate, CompiledTransformer, certify, compile, load
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge, NadarayaWatson
from ridgeformer.estimators_cv import AttentionKernelClassifierCV, AttentionKernelRidgeCV
from ridgeformer.solvers import Solution, Status, solve

__all__ = [
    "AttentionKernelClassifier",
    "AttentionKernelClassifierCV",
    "AttentionKernelRidge",
    "AttentionKernelRidgeCV",
    "Audit",
    "Certificate",
    "CompiledTransformer",
    "NadarayaWatson",
    "Solution",
    "Status",
    "audit",
    "bounds",
    "certify",
    "claims",
    "compile",
    "datasets",
    "errors",
    "influence",
    "kernels",
    "load",
    "regime",
    "solve",
    "studies",
]
