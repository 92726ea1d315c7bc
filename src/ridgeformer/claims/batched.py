"""Linear algebra and iterations on batches of cases, differentiable, for the searches.

The iterations are on systems with a diagonal A. A method that only multiplies by A and takes inner products does the
same in every orthonormal basis, so the eigenbasis of A loses no case. `algorithms` holds the methods themselves; these
differ in the leading axis of cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import Tensor

from ridgeformer.claims.checks import Numbers


def orthonormal(M: Tensor) -> Tensor:
    """Return an orthonormal basis of the columns' span."""
    return torch.linalg.qr(M).Q


def prescribed(M: Tensor, spectrum: Tensor) -> Tensor:
    """Return the symmetric matrix with this spectrum whose eigenvectors are the orthonormalised columns of M."""
    Q = orthonormal(M)
    return (Q * spectrum[..., None, :]) @ Q.mT


def spectrum_of(K: Tensor) -> Tensor:
    """Return the eigenvalues in descending order."""
    return torch.linalg.eigvalsh(K).flip(-1)


def norm(M: Tensor) -> Tensor:
    """Return the largest singular value of each matrix."""
    return torch.linalg.matrix_norm(M, ord=2)


def apply(M: Tensor, v: Tensor) -> Tensor:
    """Return the product of each matrix with its vector."""
    return (M @ v[..., None])[..., 0]


def resolvent(K: Tensor, ridge: Tensor) -> Tensor:
    """Return (K + ridge I)^-1."""
    return torch.linalg.inv(K + ridge[..., None, None] * torch.eye(K.shape[-1], dtype=K.dtype))


@dataclass(frozen=True)
class TextbookStep:
    """One system after a step of conjugate gradients: the state, and the two scalars that led there."""

    alpha: Tensor
    r: Tensor
    p: Tensor
    gamma: Tensor
    beta: Tensor


def textbook(product: Callable[[Tensor], Tensor], y: Tensor) -> Iterator[TextbookStep]:
    """Yield conjugate gradients on A alpha = y as a textbook prints them, step by step; `product` multiplies by A."""
    alpha, r, p = torch.zeros_like(y), y, y
    while True:
        u = product(p)
        gamma = (r @ r) / (p @ u)
        alpha, new = alpha + gamma * p, r - gamma * u
        beta = (new @ new) / (r @ r)
        r, p = new, new + beta * p
        yield TextbookStep(alpha, r, p, gamma, beta)


LEAST_KAPPA = 1.1
"""Condition numbers nearer to 1 than this make errors so small that only their rounding is seen."""


def eigenvalues_and_kappa(take: Numbers, size: int) -> tuple[Tensor, Tensor]:
    """Return eigenvalues of A, (cases, size), largest first, and their condition number between 1.1 and about 1e3.

    Takes size free numbers.
    """
    low, kappa = take.positive(), LEAST_KAPPA + take.positive()
    inner = torch.sigmoid(take.vector(size - 2)).sort(dim=-1, descending=True).values
    relative = torch.cat([torch.ones_like(low)[:, None], inner, torch.zeros_like(low)[:, None]], dim=-1)
    return low[:, None] * (1 + (kappa[:, None] - 1) * relative), kappa


def a_norm(eigenvalues: Tensor, v: Tensor) -> Tensor:
    """Return sqrt(v'Av) of every case."""
    return (eigenvalues * v.square()).sum(-1).sqrt()


def richardson(eigenvalues: Tensor, b: Tensor, steps: int) -> Tensor:
    """Return alpha after `steps` of gradient descent with the step 2/(smallest + largest eigenvalue)."""
    alpha, eta = torch.zeros_like(b), 2 / (eigenvalues[:, :1] + eigenvalues[:, -1:])
    for _ in range(steps):
        alpha = alpha + eta * (b - eigenvalues * alpha)
    return alpha


def chebyshev(eigenvalues: Tensor, b: Tensor, steps: int) -> Tensor:
    """Return alpha after `steps` of Chebyshev iteration on the ends of the spectrum."""
    high, low = eigenvalues[:, :1], eigenvalues[:, -1:]
    centre, quotient = (high + low) / 2, ((high - low) / (high + low)) ** 2
    alpha, change, omega = torch.zeros_like(b), torch.zeros_like(b), torch.ones_like(centre)
    for t in range(steps):
        change = (omega - 1) * change + omega / centre * (b - eigenvalues * alpha)
        alpha = alpha + change
        omega = 1 / (1 - quotient * omega / (2 if t == 0 else 4))
    return alpha


@dataclass(frozen=True)
class Steps:
    """Conjugate gradients after some steps: coefficients, the residual carried along, and what products cost.

    Attributes:
        alpha: (cases, size).
        residual: As the recursion has it, which is b - A alpha only if every product was exact.
        drift: sum_j gamma_j e_j, e_j being by how much the product A p_j was off.
        length: sum_j abs(gamma_j) norm(p_j), (cases,).
    """

    alpha: Tensor
    residual: Tensor
    drift: Tensor
    length: Tensor


def conjugate_gradients(
    eigenvalues: Tensor, b: Tensor, steps: int, error: Callable[[int, Tensor], Tensor] | None = None
) -> Steps:
    """Return `steps` of conjugate gradients in which the product A p_j is off by `error(j, p_j)`.

    Example:
        >>> A, b = torch.tensor([[2.0, 1.0]]), torch.tensor([[2.0, 3.0]])
        >>> conjugate_gradients(A, b, steps=2).alpha.round(decimals=4)
        tensor([[1., 3.]])
    """
    return next(islice(each_step(eigenvalues, b, error), steps - 1, None))


def each_step(eigenvalues: Tensor, b: Tensor, error: Callable[[int, Tensor], Tensor] | None = None) -> Iterator[Steps]:
    """Yield the same after step 1, 2, ... without end."""
    alpha, drift, r, p = torch.zeros_like(b), torch.zeros_like(b), b, b
    length, rho = b.new_zeros(len(b)), b.square().sum(-1, keepdim=True)
    for j in count():
        off = torch.zeros_like(p) if error is None else error(j, p)
        q = eigenvalues * p + off
        gamma = rho / (p * q).sum(-1, keepdim=True)
        alpha, r, drift = alpha + gamma * p, r - gamma * q, drift + gamma * off
        length = length + gamma[:, 0].abs() * p.norm(dim=-1)
        yield Steps(alpha, r, drift, length)
        rho, previous = r.square().sum(-1, keepdim=True), rho
        p = r + rho / previous * p
