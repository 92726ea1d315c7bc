"""B1: is one linear-attention block one step of preconditioned conjugate gradients?"""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict, concluding
from ridgeformer.claims.tasks import unit_task
from ridgeformer.compiler.compile import compile
from ridgeformer.kernels import DotProduct
from ridgeformer.solving import PRECONDITIONERS, RidgeSystem

SUPPORTS, FEATURES, STEPS, RIDGE = 12, 8, 6, 0.5


def _task(number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a task whose rows have lengths from 1 to 3, so that Jacobi's scaling changes something."""
    X, y, Xq = unit_task(SUPPORTS, FEATURES, 2, "B1", number)
    return torch.linspace(1, 3, SUPPORTS, dtype=torch.float64)[:, None] * X, y, Xq


def _textbook(preconditioner: str, task: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return alpha after every step of the textbook's method, (steps, supports)."""
    X, y, _ = task
    system = RidgeSystem(DotProduct(), X, RIDGE)
    inverse = PRECONDITIONERS[preconditioner].build(system, torch.Generator())
    states = ConjugateGradients().iterate(system, y[:, None], spectrum=(RIDGE, RIDGE), precondition=inverse)
    return torch.stack([state.alpha[:, 0] for state in islice(states, STEPS)])


def _formula(task: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return the same by the formula as printed: p <- r + beta p, without a preconditioner in it."""
    X, y, _ = task
    A = X @ X.T + RIDGE * torch.eye(SUPPORTS, dtype=torch.float64)
    alpha, r, p, found = torch.zeros_like(y), y, y, []
    for _ in range(STEPS):
        gamma = r @ r / (p @ A @ p)
        alpha, new = alpha + gamma * p, r - gamma * A @ p
        r, p = new, new + (new @ new) / (r @ r) * p
        found.append(alpha)
    return torch.stack(found)


def _differing(a: Tensor, b: Tensor) -> int:
    """Count the steps after which two runs differ by more than 1e-9 of the solution."""
    return int(((a - b).norm(dim=1) > 1e-9 * b[-1].norm()).sum())


def check(cases: int) -> Evidence:
    """Count a compiled step's sublayers, and compare formula, networks and textbook step by step."""
    models = {
        name: compile(DotProduct(), ConjugateGradients(steps=STEPS, preconditioner=M), features=FEATURES, ridge=RIDGE)
        for name, M in (("cg", None), ("pcg", "jacobi"))
    }
    differing = {"formula, PCG": 0, "formula, CG": 0, "network, CG": 0, "network, PCG": 0}
    tasks = [_task(number) for number in range(drawn(cases, 2))]
    for task in tasks:
        plain, jacobi, formula = _textbook("identity", task), _textbook("jacobi", task), _formula(task)
        runs = {solver: model.trace(*task).alpha[..., 0] for solver, model in models.items()}
        differing["formula, PCG"] += _differing(formula, jacobi)
        differing["formula, CG"] += _differing(formula, plain)
        differing["network, CG"] += _differing(runs["cg"], plain)
        differing["network, PCG"] += _differing(runs["pcg"], jacobi)
    budget, steps = models["pcg"].budget, STEPS * len(tasks)
    figures = (
        Figure("attention sublayers a step", float(budget.attention_per_step), shown="4"),
        Figure("gated sublayers a step", float(budget.gated_per_step)),
        Figure("heads a step", float(budget.heads_per_step)),
        Figure("attention sublayers a step without preconditioner", float(models["cg"].budget.attention_per_step)),
    )
    one, same = "a block takes a step of PCG", "the formula takes the steps of conjugate gradients"
    return Evidence(
        stated=(
            *concluding(one, Trial("one attention sublayer is one step", 1, int(budget.attention_per_step > 1))),
            *concluding(same, Trial("the formula shown takes the steps of PCG", steps, differing["formula, PCG"])),
        ),
        corrected=(
            *concluding(same, Trial("it takes those of plain CG, to 1e-9", steps, differing["formula, CG"])),
            Trial("the compiled CG network takes them too", steps, differing["network, CG"]),
            *concluding(one, Trial("a compiled block of four takes those of PCG", steps, differing["network, PCG"])),
        ),
        figures=figures,
    )


B1 = Claim(
    id="B1",
    source="theoretical analysis, lemma 3",
    origin=Origin.QUOTED,
    quote="A Linear Attention Transformer (LAT) block can implement one step of PCG",
    title="One linear-attention block is one step of preconditioned conjugate gradients",
    stated="A linear-attention block performs one step of PCG, its scalars coming from an aggregator token and the "
    "product by A from attention.",
    formula=r"\alpha_{t+1}=\alpha_t+\gamma_tp_t,\quad r_{t+1}=r_t-\gamma_tAp_t,\quad p_{t+1}=r_{t+1}+\beta_tp_t",
    verdict=Verdict.AMENDED,
    corrected="The formula shown is plain CG; PCG turns with the preconditioned residual. In the known construction a "
    "step takes four attention sublayers and two gated ones, because product, step size, move and turn need each "
    "other's results. Fewer has not been shown impossible.",
    corrected_formula=r"z_{t+1}=M^{-1}r_{t+1},\quad \beta_t = \frac{r_{t+1}^\top z_{t+1}}{r_t^\top z_t},\quad "
    r"p_{t+1}=z_{t+1}+\beta_tp_t",
    condition="Equality of steps holds until conjugate gradients lose orthogonality.",
    check=check,
)
