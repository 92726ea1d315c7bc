"""W7: does width p + c run conjugate gradients exactly?"""

from __future__ import annotations

import torch

from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential

ALLOWED = {"linear": 11, "softmax": 12}
STEPS, RIDGE, TEMPERATURE = 6, 0.5, 1.0


def check(cases: int) -> Evidence:
    """Compile both routes for several numbers of features and compare every step with textbook CG."""
    trials, figures, tasks = [], [], drawn(cases, 1)
    for route, allowed in ALLOWED.items():
        gaps, overheads = [], []
        for features in (2, 5, 9):
            kernel = DotProduct() if route == "linear" else Exponential(TEMPERATURE)
            model = compile(kernel, ConjugateGradients(steps=STEPS), features=features, ridge=RIDGE)
            overheads.append(model.budget.overhead)
            gaps += [_largest_gap(model, route, features, task) for task in range(tasks)]
        equal = f"{route} attention: every iterate equals CG's to 1e-10"
        trials.append(Trial(equal, len(gaps), sum(g > 1e-10 for g in gaps)))
        trials.append(Trial(f"{route} attention: c <= {allowed}, whatever p", 3, sum(c > allowed for c in overheads)))
        figures += [
            Figure(f"overhead c, {route} attention", float(max(overheads))),
            Figure(f"largest difference from textbook CG, {route} attention", max(gaps)),
        ]
    return Evidence(stated=tuple(trials), figures=tuple(figures))


def _largest_gap(model: CompiledTransformer, route: str, features: int, task: int) -> float:
    generator = torch_generator(task, "W7", route, features)
    X = torch.randn(8, features, generator=generator, dtype=torch.float64) / features**0.5
    y = torch.randn(8, generator=generator, dtype=torch.float64)
    K = X @ X.T if route == "linear" else (X @ X.T / TEMPERATURE).exp()
    trace = model.trace(X, y, X[:1])
    expected = _textbook(K, y)
    steps = min(STEPS, features if route == "linear" else STEPS)  # beyond its rank CG has converged
    found = trace.alpha[:steps].reshape(steps, -1)
    return float(((found - expected[:steps]).norm(dim=1) / expected[:steps].norm(dim=1)).max())


def _textbook(K: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    alpha, r, p, found = torch.zeros_like(y), y, y, []
    for _ in range(STEPS):
        u = K @ p + RIDGE * p
        gamma = (r @ r) / (p @ u)
        alpha, new = alpha + gamma * p, r - gamma * u
        p, r = new + (new @ new) / (r @ r) * p, new
        found.append(alpha)
    return torch.stack(found)


W7 = Claim(
    id="W7",
    source="width-rank note, width-rank theorem",
    origin=Origin.QUOTED,
    quote="If m >= p + c (channels for CG state), then there exists a parameterization realizing t CG steps on KRR "
    "exactly (up to numeric precision)",
    title="Width p + c is enough for any number of exact CG steps",
    stated="With c further channels for the state of the iteration, a transformer runs t steps of conjugate gradients "
    "exactly, whatever t.",
    formula=r"m \ge p + c \;\Rightarrow\; t \text{ exact CG steps}",
    verdict=Verdict.TRUE,
    condition="A reciprocal unit, and for softmax attention a product unit; c at most 11 (linear) and 12 (softmax), "
    "independent of p, k, q and t.",
    check=check,
)
