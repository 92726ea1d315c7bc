"""ridgeformer: attention as kernel regression.

Example:
    >>> import ridgeformer as rf
    >>> data = rf.datasets.load("diabetes")
    >>> X = rf.datasets.unit_rows(data.X)
    >>> solution = rf.solve(rf.kernels.Exponential(temperature=0.5), X, data.y, ridge=0.1, method="cg")
    >>> solution.status.value
    'converged'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeformer import bounds, datasets, errors, kernels
from ridgeformer.compiler import Certificate, CompiledTransformer, certify, compile, load
from ridgeformer.solvers import Solution, Status, solve

if TYPE_CHECKING:
    from ridgeformer import claims, influence, regime, studies
    from ridgeformer.auditing.audit import Audit, audit
    from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge, NadarayaWatson
    from ridgeformer.estimators_cv import AttentionKernelClassifierCV, AttentionKernelRidgeCV

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

_ELSEWHERE = {
    "Audit": "auditing",
    "audit": "auditing",
    "AttentionKernelClassifier": "estimators",
    "AttentionKernelRidge": "estimators",
    "NadarayaWatson": "estimators",
    "AttentionKernelClassifierCV": "estimators_cv",
    "AttentionKernelRidgeCV": "estimators_cv",
}
"""Names whose module is imported when they are asked for: scikit-learn and Plotly double the time of an import."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ridgeformer' has no attribute {name!r}")
    if name not in _ELSEWHERE:
        return import_module(f"ridgeformer.{name}")
    return getattr(import_module(f"ridgeformer.{_ELSEWHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
