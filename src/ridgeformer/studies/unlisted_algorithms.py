"""Regression algorithms on many tasks at once that are no candidates of `identify`, and ridge regression.

Each is a function (X, y, Xq) of tasks (T, k, d), (T, k), (T, q, d) that returns the predictions, (T, q).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator

__all__ = [
    "Model",
    "adam",
    "barzilai_borwein",
    "conjugate_residuals",
    "descent",
    "elastic_net",
    "fixed_polynomial",
    "forgetting",
    "partial_least_squares",
    "passes",
    "principal",
    "reweighted",
    "ridge",
    "rmsprop",
    "scaled_penalty",
    "sweeps",
    "theil_sen",
    "times",
]

Model: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Tasks (T, k, d), (T, k), (T, q, d) to predictions (T, q)."""


def times(A: Tensor, v: Tensor) -> Tensor:
    """Return A v, task by task."""
    return (A @ v[..., None])[..., 0]


def _normal_equations(X: Tensor, y: Tensor, level: float) -> tuple[Tensor, Tensor]:
    return X.mT @ X + level * torch.eye(X.shape[-1], dtype=X.dtype), times(X.mT, y)


def ridge(level: float) -> Model:
    """Return ridge regression."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A, b = _normal_equations(X, y, level)
        return times(Xq, torch.linalg.solve(A, b))

    return model


def descent(update: Callable[[Tensor, Tensor, int, dict[str, Tensor]], Tensor], steps: int) -> Model:
    """Return an optimiser on the mean squared error: (gradient, weights, step, its state) to new weights."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        w, state = X.new_zeros(len(X), X.shape[-1]), dict[str, Tensor]()
        for t in range(1, steps + 1):
            w = update(times(X.mT, times(X, w) - y) / X.shape[1], w, t, state)
        return times(Xq, w)

    return model


def adam(size: float, steps: int) -> Model:
    """Return a few steps of Adam."""

    def update(g: Tensor, w: Tensor, t: int, state: dict[str, Tensor]) -> Tensor:
        state["m"] = 0.9 * state.get("m", torch.zeros_like(g)) + 0.1 * g
        state["v"] = 0.99 * state.get("v", torch.zeros_like(g)) + 0.01 * g.square()
        return w - size * (state["m"] / (1 - 0.9**t)) / ((state["v"] / (1 - 0.99**t)).sqrt() + 1e-8)

    return descent(update, steps)


def rmsprop(size: float, steps: int) -> Model:
    """Return a few steps of RMSProp."""

    def update(g: Tensor, w: Tensor, t: int, state: dict[str, Tensor]) -> Tensor:
        state["v"] = 0.9 * state.get("v", torch.zeros_like(g)) + 0.1 * g.square()
        return w - size * g / (state["v"].sqrt() + 1e-8)

    return descent(update, steps)


def fixed_polynomial(size: float, steps: int, *, growing: bool) -> Model:
    """Return the mean of descent iterates 1 ... t, or descent with the momentum (t - 1) / (t + 2)."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        G, b = _normal_equations(X, y, 0.0)
        w = before = total = torch.zeros_like(b)
        for t in range(1, steps + 1):
            ahead = w + (t - 1) / (t + 2) * (w - before) if growing else w
            w, before = ahead + size * (b - times(G, ahead)), w
            total = total + w
        return times(Xq, w if growing else total / steps)

    return model


def sweeps(level: float, sweeps: int, damping: float | None) -> Model:
    """Return Gauss-Seidel sweeps over the normal equations, or damped Jacobi ones."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A, b = _normal_equations(X, y, level)
        diagonal, w = A.diagonal(dim1=-2, dim2=-1), torch.zeros_like(b)
        for _ in range(sweeps):
            if damping is not None:
                w = w + damping * (b - times(A, w)) / diagonal
                continue
            for j in range(X.shape[-1]):
                new = w[:, j] + (b[:, j] - (A[:, j] * w).sum(-1)) / diagonal[:, j]
                w = torch.cat([w[:, :j], new[:, None], w[:, j + 1 :]], 1)
        return times(Xq, w)

    return model


def conjugate_residuals(level: float, steps: int) -> Model:
    """Return the Krylov method that minimises the residual of the normal equations and not the energy."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A, r = _normal_equations(X, y, level)
        w, p, Ar = torch.zeros_like(r), r, times(A, r)
        Ap = Ar
        for _ in range(steps):
            energy = (r * Ar).sum(-1, keepdim=True)
            size = energy / Ap.square().sum(-1, keepdim=True).clamp_min(1e-250)
            w, r = w + size * p, r - size * Ap
            Ar = times(A, r)
            beta = (r * Ar).sum(-1, keepdim=True) / energy.clamp_min(1e-250)
            p, Ap = r + beta * p, Ar + beta * Ap
        return times(Xq, w)

    return model


def barzilai_borwein(level: float, steps: int) -> Model:
    """Return gradient descent whose every step has the exact line-search size of the step before."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A, b = _normal_equations(X, y, level)
        w, r, size = torch.zeros_like(b), b, 1 / A.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
        for _ in range(steps):
            size_now = size
            size = r.square().sum(-1, keepdim=True) / (r * times(A, r)).sum(-1, keepdim=True).clamp_min(1e-250)
            w = w + size_now * r
            r = b - times(A, w)
        return times(Xq, w)

    return model


def reweighted(level: float, weigh: Callable[[Tensor], Tensor]) -> Model:
    """Return regression by iterated reweighting of the supports."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        weights, eye = torch.ones_like(y), torch.eye(X.shape[-1], dtype=X.dtype)
        w = torch.zeros_like(X[:, 0])
        for _ in range(10):
            A = X.mT @ (weights[..., None] * X) + level * eye
            w = torch.linalg.solve(A, times(X.mT, weights * y))
            weights = weigh(y - times(X, w))
        return times(Xq, w)

    return model


def theil_sen(seed: int) -> Model:
    """Return the median, coordinate by coordinate, of least squares on 25 random subsets of d + 1 supports."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        k, d = X.shape[1:]
        picks = torch.rand(25, k, generator=torch_generator(seed, "subsets", k)).argsort(1)[:, : min(k, d + 1)]
        found = [torch.linalg.lstsq(X[:, rows], y[:, rows, None]).solution[..., 0] for rows in picks]
        return times(Xq, torch.stack(found).median(0).values)

    return model


def passes(size: Callable[[int, Tensor], Tensor | float], passes: int) -> Model:
    """Return the delta rule with a step by place and row, over the supports in order."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        w = torch.zeros_like(X[:, 0])
        for place in range(passes * X.shape[1]):
            x, target = X[:, place % X.shape[1]], y[:, place % X.shape[1]]
            w = w + size(place, x) * (target - (w * x).sum(-1))[:, None] * x
        return times(Xq, w)

    return model


def partial_least_squares(parts: int) -> Model:
    """Return partial least squares of centred rows: conjugate gradients on their normal equations, and an intercept."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        centre, level = X.mean(1, keepdim=True), y.mean(1, keepdim=True)
        A, r = _normal_equations(X - centre, y - level, 0.0)
        w, p, rho = torch.zeros_like(r), r, r.square().sum(-1, keepdim=True)
        for _ in range(parts):
            Ap = times(A, p)
            size = rho / (p * Ap).sum(-1, keepdim=True).clamp_min(1e-250)
            w, r, old = w + size * p, r - size * Ap, rho
            rho = r.square().sum(-1, keepdim=True)
            p = r + rho / old.clamp_min(1e-250) * p
        return times(Xq - centre, w) + level

    return model


def principal(kept: float) -> Model:
    """Return least squares on as many principal directions as carry a fraction of the variance."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        U, S, Vh = torch.linalg.svd(X, full_matrices=False)
        energy = S.square().cumsum(-1) / S.square().sum(-1, keepdim=True)
        used = torch.cat([torch.ones_like(energy[:, :1]), (energy[:, :-1] < kept).to(S)], 1)
        return times(Xq, times(Vh.mT, used * times(U.mT, y) / S))

    return model


def scaled_penalty(level: float, *, trace: bool) -> Model:
    """Return ridge regression whose penalty is in units of each feature's, or of the mean, sum of squares."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A, b = _normal_equations(X, y, 0.0)
        sizes = A.diagonal(dim1=-2, dim2=-1)
        sizes = sizes.mean(-1, keepdim=True).expand_as(sizes) if trace else sizes
        return times(Xq, torch.linalg.solve(A + torch.diag_embed(level * sizes), b))

    return model


def forgetting(level: float, factor: float) -> Model:
    """Return ridge regression whose supports count the less the earlier they stand."""
    inner = ridge(level)

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        root = factor ** (torch.arange(X.shape[1] - 1, -1, -1, dtype=X.dtype) / 2)
        return inner(root[:, None] * X, root * y, Xq)

    return model


def elastic_net(l2: float, l1: float) -> Model:
    """Return the elastic net, by proximal gradient descent; penalties are in units of the number of supports."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A, b = _normal_equations(X, y, l2 * X.shape[1])
        penalty, size = l1 * X.shape[1], 1 / torch.linalg.eigvalsh(A)[:, -1:]
        w = torch.zeros_like(b)
        for _ in range(400):
            w = w + size * (b - times(A, w))
            w = w.sign() * (w.abs() - size * penalty).clamp_min(0)
        return times(Xq, w)

    return model
