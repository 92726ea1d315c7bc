"""Families that are no function of the Gram matrix alone: kernels, preconditioners, sparsity, one pass, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients, Richardson
from ridgeformer.identification.candidates import Family, Member
from ridgeformer.identification.linear_families import LINEAR, RIDGES, _depths, _grid
from ridgeformer.identification.problems import DenseSystem, Problems, last_steps
from ridgeformer.identification.tasks import TaskGroup

__all__ = ["FAMILIES"]


def _flat(values: Tensor, M: int, T: int) -> Tensor:
    """Return parameters or steps, (M,), as one entry a column, (M x T,)."""
    return values[:, None].expand(M, T).reshape(-1)


def _preconditioned(primal: bool) -> Callable[..., Tensor]:
    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        """Conjugate gradients divided by the diagonal of K + ridge I, or of X'X + ridge I."""
        ridge = theta[:, 0].clamp(-40, 20).exp() * problems.scale(mean)

        def of_group(group: TaskGroup) -> Tensor:
            X, y = group.X, group.y
            (T, _, _), M = X.shape, len(theta)
            G, b = (X.mT @ X, (X.mT @ y[..., None])[..., 0]) if primal else (X @ X.mT, y)
            n = G.shape[-1]
            A = (G[None] + ridge[:, None, None, None] * torch.eye(n, dtype=X.dtype)).reshape(M * T, n, n)
            diagonal = A.diagonal(dim1=-2, dim2=-1).T
            columns = b.T[:, None].expand(n, M, T).reshape(n, M * T)
            found = last_steps(ConjugateGradients(), DenseSystem(A, 0.0), columns, _flat(steps, M, T),
                               precondition=lambda r: r / diagonal)  # fmt: skip
            rows = group.Xq if primal else group.Xq @ X.mT
            return torch.einsum("tqn,nmt->mtq", rows, found.reshape(n, M, T))

        return problems.by_group(of_group)

    return predict


def _kernel(name: str, X: Tensor, Z: Tensor, temperature: Tensor) -> Tensor:
    """Return exp(<x, z> / tau) or exp(-|x - z|^2 / (2 tau)) for every temperature, (M, T, n, m)."""
    logits = X @ Z.mT
    if name == "gaussian":
        logits = logits - X.square().sum(-1)[..., :, None] / 2 - Z.square().sum(-1)[..., None, :] / 2
    return (logits[None] / temperature[:, None, None, None]).clamp_max(300.0).exp()


def _temperature(theta: Tensor, problems: Problems) -> Tensor:
    return theta.clamp(-6, 12).exp() * problems.mean_square


def _average(kernel: str) -> Callable[..., Tensor]:
    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        temperature = _temperature(theta[:, 0], problems)

        def of_group(group: TaskGroup) -> Tensor:
            logits = group.Xq @ group.X.mT
            if kernel == "gaussian":
                logits = logits - group.X.square().sum(-1)[:, None, :] / 2
            return (torch.softmax(logits[None] / temperature[:, None, None, None], -1) @ group.y[..., None])[..., 0]

        return problems.by_group(of_group)

    return predict


def _kernel_method(kernel: str, run: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return predictions k(x)'alpha; `run` gets K (M, T, k, k), y (T, k), theta and steps, and returns (M, T, k)."""

    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        temperature = _temperature(theta[:, 0], problems)

        def of_group(group: TaskGroup) -> Tensor:
            alpha = run(_kernel(kernel, group.X, group.X, temperature), group.y, theta, steps)
            return (_kernel(kernel, group.Xq, group.X, temperature) @ alpha[..., None])[..., 0]

        return problems.by_group(of_group)

    return predict


def _shifted(K: Tensor, log_ridge: Tensor) -> Tensor:
    return K + log_ridge.clamp(-30, 20).exp()[:, None, None, None] * torch.eye(K.shape[-1], dtype=K.dtype)


def _solve(K: Tensor, y: Tensor, theta: Tensor, steps: Tensor) -> Tensor:
    A = _shifted(K, theta[:, 1].clamp_min(-20))
    return torch.linalg.solve_ex(A, y[..., None].expand(len(A), *y.shape, 1))[0][..., 0]


def _columns(K: Tensor, y: Tensor) -> tuple[Tensor, Tensor, int, int, int]:
    M, T, k, _ = K.shape
    return K.reshape(M * T, k, k), y.T[:, None].expand(k, M, T).reshape(k, M * T), M, T, k


def _conjugate(K: Tensor, y: Tensor, theta: Tensor, steps: Tensor) -> Tensor:
    A, b, M, T, k = _columns(_shifted(K, theta[:, 1]), y)
    found = last_steps(ConjugateGradients(), DenseSystem(A, 0.0), b, _flat(steps, M, T))
    return found.reshape(k, M, T).permute(1, 2, 0)


def _descend(K: Tensor, y: Tensor, theta: Tensor, steps: Tensor) -> Tensor:
    A, b, M, T, k = _columns(_shifted(K, theta[:, 1]), y)
    inverse = _flat((-theta[:, 2].clamp(-30, 10)).exp(), M, T)
    found = last_steps(Richardson(), DenseSystem(A, 0.0), b, _flat(steps, M, T), (inverse, inverse))
    return found.reshape(k, M, T).permute(1, 2, 0)


def _attention_only(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    """Gradient descent in a stock softmax transformer: steps divided by row sums plus the ridge, queries lagging."""
    temperature, ridge = _temperature(theta[:, 0], problems), theta[:, 1].clamp(-30, 20).exp()[:, None, None]

    def of_group(group: TaskGroup) -> Tensor:
        K = _kernel("exponential", group.X, group.X, temperature)
        Kq = _kernel("exponential", group.Xq, group.X, temperature)
        alpha, f = torch.zeros_like(K[..., 0]), torch.zeros_like(Kq[..., 0])
        found = f
        for t in range(1, int(steps.max()) + 1):
            f = f + ((Kq @ alpha[..., None])[..., 0] - f) * ridge / (Kq.sum(-1) + ridge)
            alpha = alpha - ((K @ alpha[..., None])[..., 0] + ridge * alpha - group.y) / (K.sum(-1) + ridge)
            found = torch.where(steps[:, None, None] == t, f, found)
        return found

    return problems.by_group(of_group)


FISTA = 200
SETTLED = 1e-13  # change of a weight in one iteration below which the lasso has converged


def _soft(w: Tensor, level: Tensor) -> Tensor:
    return w.sign() * (w.abs() - level).clamp_min(0)


def _proximal(converged: bool) -> Callable[..., Tensor]:
    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        """The lasso, or a few steps of proximal gradient descent towards it; the penalty is in units of k."""
        penalty = theta[:, 0].clamp(-20, 5).exp()
        step = None if converged else theta[:, 1].clamp(-10, 10).exp() / problems.scale(torch.tensor(True))

        Xs = [group.X / group.X.shape[1] ** 0.5 for group in problems.groups]
        G = torch.cat([X.mT @ X for X in Xs])
        b = torch.cat([X.mT @ one.y[..., None] / X.shape[1] ** 0.5 for X, one in zip(Xs, problems.groups, strict=True)])
        size = 1 / torch.linalg.eigvalsh(G)[:, -1:, None].clamp_min(1e-12) if step is None else step
        w = ahead = torch.zeros(*b.shape[:2], len(theta), dtype=b.dtype)  # (T, d, M): one product a step for all M
        found, momentum = w, torch.ones(len(b), 1, len(theta), dtype=b.dtype)
        for t in range(1, 1 + (FISTA if converged else int(steps.max()))):
            new = _soft(ahead - size * (G @ ahead - b), size * penalty)
            if converged:  # accelerated, and restarted where the momentum points uphill
                uphill = ((ahead - new) * (new - w)).sum(1, keepdim=True) > 0
                momentum = torch.where(uphill, 1.0, momentum)
                following = (1 + (1 + 4 * momentum.square()).sqrt()) / 2
                ahead, momentum = new + (momentum - 1) / following * (new - w), following
            else:
                ahead = new
            settled = converged and t % 20 == 0 and bool((new - w).abs().max() < SETTLED)
            w = new
            found = w if converged else torch.where(steps == t, w, found)
            if settled:
                break
        Xq = torch.cat([group.Xq for group in problems.groups])
        return torch.einsum("tqd,tdm->mtq", Xq, found)

    return predict


def _sparse_average(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    """Posterior mean of w if each coefficient is zero or N(0, s^2): the average over all subsets of features."""
    noise, slab, odds = theta[:, 0].exp(), theta[:, 1].exp(), theta[:, 2]
    d = problems.tasks.features
    subsets = torch.tensor(list(product((0.0, 1.0), repeat=d)), dtype=torch.float64)

    def of_group(group: TaskGroup) -> Tensor:
        X, y = group.X, group.y
        G, b = X.mT @ X, (X.mT @ y[..., None])[..., 0]
        keep = subsets[:, None, :]
        inner = keep[..., :, None] * keep[..., None, :] * G  # (subsets, T, d, d)
        A = inner[None] * (slab / noise)[:, None, None, None, None] + torch.eye(d, dtype=X.dtype)
        rhs = (keep * b)[None].expand(len(theta), *inner.shape[:-1])
        L = torch.linalg.cholesky(A)
        half = torch.linalg.solve_triangular(L, rhs[..., None], upper=False)[..., 0]
        ratio = (slab / noise)[:, None, None]
        evidence = 0.5 * ratio / noise[:, None, None] * half.square().sum(-1) - L.diagonal(dim1=-2, dim2=-1).log().sum(
            -1
        )
        weights = torch.softmax(evidence + odds[:, None, None] * subsets.sum(-1)[None, :, None], 1)
        w = torch.cholesky_solve(rhs[..., None], L)[..., 0] * ratio[..., None] * subsets[None, :, None, :]
        return torch.einsum("tqd,mtd->mtq", group.Xq, (weights[..., None] * w).sum(1))

    return problems.by_group(of_group)


def _one_pass(normalised: bool) -> Callable[..., Tensor]:
    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        """The delta rule: one pass over the supports in order, w += eta x (y - x'w)."""
        unit = 1.0 if normalised else problems.scale(torch.tensor(True))
        size = (theta[:, 0].clamp(-20, 5).exp() / unit)[:, None]

        def of_group(group: TaskGroup) -> Tensor:
            w = torch.zeros(len(theta), len(group.X), group.X.shape[-1], dtype=torch.float64)
            for x, y in zip(group.X.unbind(1), group.y.unbind(1), strict=True):
                gain = size / x.square().sum(-1).clamp_min(1e-300) if normalised else size.expand(-1, len(x))
                w = w + (gain * (y - (w * x).sum(-1)))[..., None] * x
            return torch.einsum("tqd,mtd->mtq", group.Xq, w)

        return problems.by_group(of_group)

    return predict


def _neighbours(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    def of_group(group: TaskGroup) -> Tensor:
        order = torch.cdist(group.Xq, group.X).argsort(-1)
        y = group.y[:, None].expand(-1, order.shape[1], -1).gather(-1, order)
        return torch.stack([y[..., : min(int(k), y.shape[-1])].mean(-1) for k in steps])

    return problems.by_group(of_group)


def _constant(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    q = problems.queries.shape[1]
    return problems.mean_targets[None, :, None].expand(len(theta), -1, q)


def _by_matrix(P: Callable[[Tensor, Problems], Tensor], sizes: int) -> Callable[..., Tensor]:
    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        """Descend by w += eta_t P (X'y - X'X w) / k for one matrix P that all tasks share."""
        matrix = P(theta, problems)[:, None]  # (M, 1, d, d)

        def of_group(group: TaskGroup) -> Tensor:
            X, k = group.X, group.X.shape[1]
            divisor = torch.where(mean, float(k), 1.0)[:, None, None]
            G, b = X.mT @ X, (X.mT @ group.y[..., None])[..., 0]
            w = torch.zeros(len(theta), *b.shape, dtype=X.dtype)
            found = w
            for t in range(1, int(steps.max()) + 1):
                size = theta[:, min(t - 1, sizes - 1), None, None] if sizes else 1.0
                w = w + size * (matrix @ ((b - (G @ w[..., None])[..., 0]) / divisor)[..., None])[..., 0]
                found = torch.where(steps[:, None, None] == t, w, found)
            return torch.einsum("tqd,mtd->mtq", group.Xq, found)

        return problems.by_group(of_group)

    return predict


COVARIANCE_STEPS = 4


def _inverse_covariance(theta: Tensor, problems: Problems) -> Tensor:
    covariance = problems.tasks.covariance
    assert covariance is not None
    return torch.linalg.inv(covariance)[None].expand(len(theta), -1, -1)


def _free_matrix(theta: Tensor, problems: Problems) -> Tensor:
    d = problems.tasks.features
    rows, columns = torch.tril_indices(d, d)
    L = theta.new_zeros(len(theta), d, d)
    L[:, rows, columns] = theta
    return L @ L.mT / problems.scale(torch.tensor(True))


def _free_starts(problems: Problems, targets: Tensor) -> Tensor:
    rows, columns = torch.tril_indices(problems.tasks.features, problems.tasks.features)
    identity = (rows == columns).double()
    starts = [0.3 * identity, 0.8 * identity]
    if problems.tasks.covariance is not None:
        root = torch.linalg.cholesky(torch.linalg.inv(problems.tasks.covariance) * problems.scale(torch.tensor(True)))
        starts += [0.5**0.5 * root[rows, columns], root[rows, columns]]
    return torch.stack(starts)


def _show(*names: str) -> Callable[[Tensor, float], dict[str, float]]:
    return lambda theta, scale: {name: float(value.exp()) for name, value in zip(names, theta, strict=False)}


def _show_kernel(*names: str) -> Callable[[Tensor, float], dict[str, float]]:
    def show(theta: Tensor, scale: float) -> dict[str, float]:
        shown = {"temperature over mean squared length": float(theta[0].clamp(-6, 12).exp())}
        return shown | {name: float(value.exp()) for name, value in zip(names, theta[1:], strict=True)}

    return show


def _show_jacobi(theta: Tensor, scale: float) -> dict[str, float]:
    return {"ridge": float(theta[0].clamp(-40, 20).exp()) * scale}


def _show_steps(theta: Tensor, scale: float) -> dict[str, float]:
    return {f"step {place}": float(size) for place, size in enumerate(theta, start=1) if float(size) != 0}


TEMPERATURES, LEVELS = (-2.0, -1.0, 0.0, 1.0, 2.5), (-7.0, -3.0, -1.0, 0.5, 2.0)

_OTHERS: tuple[Family, ...] = (
    Family("jacobi_pcg", "conjugate gradients with Jacobi's preconditioner", _depths(1, 2, 3, 4, 5, 6, mean=False),
           ("ridge",), _preconditioned(False), _grid((*RIDGES, -4.5, -2.0)), _show_jacobi),
    Family("jacobi_pcg_primal", "conjugate gradients on the normal equations with Jacobi's preconditioner",
           _depths(1, 2, 3, 4, 5, 6, mean=False), ("ridge",), _preconditioned(True), _grid((*RIDGES, -4.5, -2.0)),
           _show_jacobi),
    Family("nadaraya_watson", "a Nadaraya-Watson average (softmax attention)", (Member(),), ("temperature",),
           _average("exponential"), _grid((-3.0, *TEMPERATURES)), _show_kernel()),
    Family("nadaraya_watson_gaussian", "a Nadaraya-Watson average with the Gaussian kernel", (Member(),),
           ("temperature",), _average("gaussian"), _grid((-3.0, *TEMPERATURES)), _show_kernel()),
    *(Family(f"kernel_ridge_{kernel}", f"kernel ridge regression with the {kernel} kernel", (Member(),),
             ("temperature", "ridge"), _kernel_method(kernel, _solve), _grid(TEMPERATURES, LEVELS),
             _show_kernel("ridge"), kind="exact") for kernel in ("exponential", "gaussian")),
    *(Family(f"kernel_cg_{kernel}", f"conjugate gradients with the {kernel} kernel",
             _depths(1, 2, 3, 4, 5, 6, mean=False), ("temperature", "ridge"), _kernel_method(kernel, _conjugate),
             _grid(TEMPERATURES, LEVELS), _show_kernel("ridge")) for kernel in ("exponential", "gaussian")),
    *(Family(f"kernel_gd_{kernel}", f"gradient descent with the {kernel} kernel",
             _depths(1, 2, 3, 4, 6, 8, mean=False), ("temperature", "ridge", "step"), _kernel_method(kernel, _descend),
             _grid(TEMPERATURES, (-7.0, -1.0, 0.5), (-5.0, -3.0, -1.5)), _show_kernel("ridge", "step"))
      for kernel in ("exponential", "gaussian")),
    Family("attention_only_gd", "gradient descent by softmax attention alone",
           _depths(2, 3, 4, 5, 6, 8, mean=False), ("temperature", "ridge"), _attention_only,
           _grid(TEMPERATURES, LEVELS), _show_kernel("ridge")),
    Family("lasso", "the lasso", (Member(),), ("penalty",), _proximal(True),
           _grid((-5.0, -3.0, -2.0, -1.0)), _show("penalty")),
    Family("ista", "proximal gradient descent (ISTA)", tuple(Member(t) for t in (2, 3, 4, 6)), ("penalty", "step"),
           _proximal(False), _grid((-5.0, -2.5, -1.0), (-1.0, 0.0)), _show("penalty")),
    Family("sparse_average", "a Bayesian average over subsets of features", (Member(),), ("noise", "slab", "odds"),
           _sparse_average, _grid((-3.0, -1.0), (-2.0, 0.0), (-1.0,)), _show("noise variance", "slab variance", "odds"),
           most_features=5),
    Family("delta_rule", "one pass of the delta rule", (Member(),), ("step",), _one_pass(False),
           _grid((-3.0, -2.0, -1.0, 0.0)), _show()),
    Family("kaczmarz", "one pass of the normalised delta rule", (Member(),), ("step",), _one_pass(True),
           _grid((-2.0, -1.0, 0.0)), _show("step")),
    Family("knn", "nearest neighbours", tuple(Member(k) for k in (1, 2, 3, 5)), (), _neighbours, _grid(),
           lambda theta, scale: {}),
    Family("mean", "the mean of the targets", (Member(),), (), _constant, _grid(), lambda theta, scale: {}),
    Family("gd_covariance", "covariance-preconditioned gradient descent",
           tuple(Member(t, True) for t in range(1, COVARIANCE_STEPS + 1)),
           tuple(f"step {t}" for t in range(1, COVARIANCE_STEPS + 1)),
           _by_matrix(_inverse_covariance, COVARIANCE_STEPS),
           lambda problems, targets: torch.tensor([[0.3, 0.6, 0.9, 1.2], [0.5, 1.0, 1.5, 0.7], [0.2, 0.2, 0.3, 0.3],
                                                   [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64),
           _show_steps, frozenset({"gd_matrix"}), needs_covariance=True),
    Family("gd_matrix", "gradient descent preconditioned by a fixed matrix", tuple(Member(t, True) for t in (1, 2, 3)),
           ("matrix",), _by_matrix(_free_matrix, 0), _free_starts, lambda theta, scale: {}, most_features=6),
)  # fmt: skip

FAMILIES: dict[str, Family] = {family.name: family for family in (*LINEAR, *_OTHERS)}
"""All families by name; a new one is one entry."""
