"""ridgeformer: attention as kernel regression.

Example:
    >>> import ridgeformer as rf
    >>> data = rf.datasets.load("diabetes")
    >>> X = rf.datasets.unit_rows(data.X)
    >>> fit = rf.solve(rf.Exponential(temperature=0.5), X, data.y, ridge=0.1, algorithm="cg")
    >>> fit.status.value
    'converged'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeformer import (
        algorithms,
        bounds,
        claims,
        datasets,
        export,
        identification,
        influence,
        intervals,
        kernels,
        programs,
        regime,
        studies,
    )
    from ridgeformer.algorithms import (
        Auto,
        Centres,
        Chebyshev,
        ConjugateGradients,
        Direct,
        HeavyBall,
        MixedConjugateGradients,
        MixedDirect,
        NadarayaWatson,
        Nesterov,
        Neumann,
        Richardson,
    )
    from ridgeformer.algorithms.written import algorithm
    from ridgeformer.auditing.run import Audit, audit
    from ridgeformer.compiler import Certificate, CompiledTransformer, certify, load_model
    from ridgeformer.compiler.compile import compile
    from ridgeformer.compiler.cost import budget
    from ridgeformer.core import errors
    from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge, NadarayaWatsonRegressor
    from ridgeformer.estimators_cv import AttentionKernelClassifierCV, AttentionKernelRidgeCV
    from ridgeformer.identification import Identification, identify
    from ridgeformer.kernels import DotProduct, Exponential, Gaussian, GramPower, ReluNTK
    from ridgeformer.solving import Fit, Status, maximise_likelihood
    from ridgeformer.solving.solver import solve

__all__ = [
    "AttentionKernelClassifier",
    "AttentionKernelClassifierCV",
    "AttentionKernelRidge",
    "AttentionKernelRidgeCV",
    "Audit",
    "Auto",
    "Centres",
    "Certificate",
    "Chebyshev",
    "CompiledTransformer",
    "ConjugateGradients",
    "Direct",
    "DotProduct",
    "Exponential",
    "Fit",
    "Gaussian",
    "GramPower",
    "HeavyBall",
    "Identification",
    "MixedConjugateGradients",
    "MixedDirect",
    "NadarayaWatson",
    "NadarayaWatsonRegressor",
    "Nesterov",
    "Neumann",
    "ReluNTK",
    "Richardson",
    "Status",
    "algorithm",
    "algorithms",
    "audit",
    "bounds",
    "budget",
    "certify",
    "claims",
    "compile",
    "datasets",
    "errors",
    "export",
    "identification",
    "identify",
    "influence",
    "intervals",
    "kernels",
    "load_model",
    "maximise_likelihood",
    "programs",
    "regime",
    "solve",
    "studies",
]

_HOMES = {
    "algorithms": (
        "Auto",
        "Centres",
        "Chebyshev",
        "ConjugateGradients",
        "Direct",
        "HeavyBall",
        "MixedConjugateGradients",
        "MixedDirect",
        "NadarayaWatson",
        "Nesterov",
        "Neumann",
        "Richardson",
    ),
    "algorithms.written": ("algorithm",),
    "auditing": ("Audit", "audit"),
    "compiler": ("Certificate", "CompiledTransformer", "certify", "load_model"),
    "compiler.compile": ("compile",),
    "compiler.cost": ("budget",),
    "estimators": ("AttentionKernelClassifier", "AttentionKernelRidge", "NadarayaWatsonRegressor"),
    "estimators_cv": ("AttentionKernelClassifierCV", "AttentionKernelRidgeCV"),
    "identification": ("Identification", "identify"),
    "kernels": ("DotProduct", "Exponential", "Gaussian", "GramPower", "ReluNTK"),
    "solving": ("Fit", "Status", "maximise_likelihood", "solve"),
}
"""The module each name is imported from on first use; importing torch alone takes a second."""

_MODULES = {"errors": "core.errors"}

_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ridgeformer' has no attribute {name!r}")
    if name not in _HOME:
        return import_module(f"ridgeformer.{_MODULES.get(name, name)}")
    return getattr(import_module(f"ridgeformer.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
