"""Small in-context learners and their training: linear attention of any depth, and softmax transformers.

Tasks have five features and twenty supports, whose rows share one covariance. Linear attention has the form of
[Ahn2023]: layer l adds -(1/k) sum_i r_i <x_i, A_l x> to the residual channel of every token, so that one layer with
A_l = eta Sigma^-1 is one step of covariance-preconditioned gradient descent with step eta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn

from ridgeformer.core.seeds import torch_generator
from ridgeformer.identification.tasks import Setting, TaskGroup, draw

__all__ = [
    "FEATURES",
    "FRACTIONS",
    "LinearAttentionNetwork",
    "SoftmaxNetwork",
    "covariance",
    "draw_tasks",
    "preconditioners",
    "train",
    "untrained",
]

FEATURES, SUPPORTS = 5, 20
NOISE = {"linear": 0.0, "softmax": 0.3, "process": 0.1}
"""Label noise of the tasks that each network is trained on."""

FRACTIONS = (0.1, 0.3, 1.0)
"""Of the training, where checkpoints are kept."""

ROUNDS = 150
"""Iterations of L-BFGS for linear attention."""

BATCH, QUERIES, RATE = 64, 8, 2e-3


def draw_tasks(network: str, condition: float, count: int, generator: torch.Generator) -> TaskGroup:
    """Return tasks of the training distribution: linear ones, or draws of a Gaussian process ("process")."""
    if network == "process":
        return _draw_process(count, generator)
    setting = Setting(SUPPORTS, condition, condition > 1, NOISE[network])
    return draw(setting, FEATURES, count, QUERIES, generator, turn=False)


def _draw_process(count: int, generator: torch.Generator) -> TaskGroup:
    """Return draws of a process with the kernel exp(-|x - z|^2 / (2 d)) at rows from N(0, I)."""
    rows = torch.randn(count, SUPPORTS + QUERIES, FEATURES, generator=generator, dtype=torch.float64)
    K = (-torch.cdist(rows, rows).square() / (2 * FEATURES)).exp()
    root = torch.linalg.cholesky(K + 1e-9 * torch.eye(rows.shape[1], dtype=torch.float64))
    f = (root @ torch.randn(count, rows.shape[1], 1, generator=generator, dtype=torch.float64))[..., 0]
    noise = torch.randn(count, SUPPORTS, generator=generator, dtype=torch.float64)
    X, Xq, y = rows[:, :SUPPORTS], rows[:, SUPPORTS:], f[:, :SUPPORTS] + NOISE["process"] * noise
    return TaskGroup("a Gaussian process", X, y, Xq, f[:, SUPPORTS:])


def covariance(condition: float) -> Tensor:
    """Return the covariance of the rows."""
    spectrum = torch.logspace(0, -1, FEATURES, base=condition, dtype=torch.float64)
    return torch.diag(spectrum * FEATURES / spectrum.sum())


class _LinearLayer(nn.Module):
    """One layer: every token reads the supports, r <- r - (1/k) sum_i r_i <x_i, A x>."""

    def __init__(self, A: Tensor) -> None:
        super().__init__()
        self.A = nn.Parameter(A)

    def forward(self, tokens: Tensor, queries: int) -> Tensor:
        """Return the tokens (x, r) with the next r; the last `queries` of them are read by none."""
        X, r = tokens[..., :-1], tokens[..., -1]
        k = X.shape[-2] - queries
        moments = X[..., :k, :].mT @ r[..., :k, None]
        r = r - ((X @ self.A) @ moments)[..., 0] / k
        return torch.cat([X, r[..., None]], -1)


class LinearAttentionNetwork(nn.Module):
    """Linear attention on tokens (x_i, r_i) whose features stay as they are: one matrix A_l a layer."""

    def __init__(self, layers: int, features: int, generator: torch.Generator, start: float = 0.3) -> None:
        super().__init__()
        noise = [torch.randn(features, features, generator=generator, dtype=torch.float64) for _ in range(layers)]
        eye = torch.eye(features, dtype=torch.float64)
        self.layers = nn.ModuleList([_LinearLayer(start * (eye + 0.1 * part)) for part in noise])

    @property
    def A(self) -> list[nn.Parameter]:  # noqa: N802
        """The matrices, layer by layer."""
        return list(self.parameters())

    def forward(self, tokens: Tensor, queries: int = 1) -> Tensor:
        """Return minus the residual channel of every token, which on a query is the prediction."""
        for layer in self.layers:
            tokens = layer(tokens, queries)
        return torch.cat([tokens[..., :-1], -tokens[..., -1:]], -1)


class _Block(nn.Module):
    """Softmax attention and, where asked for, normalisation before it and an MLP behind it."""

    def __init__(self, width: int, heads: int, *, mlp: bool, norm: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.second = nn.LayerNorm(width) if norm and mlp else nn.Identity()
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) if mlp else None

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        """Return the stream after the block; `mask` says who reads whom."""
        B, n, width = h.shape
        q, k, v = self.qkv(self.norm(h)).reshape(B, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        read = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        h = h + self.out(read.transpose(1, 2).reshape(B, n, width))
        return h if self.mlp is None else h + self.mlp(self.second(h))


class SoftmaxNetwork(nn.Module):
    """A softmax transformer on tokens (x_i, y_i) and queries (x, 0), which read the supports and themselves."""

    def __init__(self, layers: int, features: int, *, mlp: bool, norm: bool, seed: int, width: int = 32) -> None:
        super().__init__()
        self.read_in, self.read_out = nn.Linear(features + 1, width), nn.Linear(width, 1)
        self.query = nn.Parameter(torch.zeros(width))
        self.blocks = nn.ModuleList([_Block(width, 4, mlp=mlp, norm=norm) for _ in range(layers)])
        generator = torch_generator(seed, "initial weights")
        with torch.no_grad():
            for weight in self.parameters():
                if weight.ndim > 1:
                    weight.copy_(torch.randn(weight.shape, generator=generator) / weight.shape[1] ** 0.5)
                elif weight is self.query:
                    weight.copy_(torch.randn(weight.shape, generator=generator))
            for block in self.blocks:
                assert isinstance(block, _Block)
                block.out.weight.mul_(0.5)

    def forward(self, tokens: Tensor, queries: int = 1) -> Tensor:
        """Return one number a token, (B, n); the last `queries` tokens are queries."""
        n = tokens.shape[1]
        asks = torch.arange(n) >= n - queries
        mask = torch.eye(n, dtype=torch.bool) | ~asks[None, :]
        h = self.read_in(tokens) + asks[:, None] * self.query
        for block in self.blocks:
            h = block(h, mask)
        found: Tensor = self.read_out(h)[..., 0]
        return found


def untrained(network: str, layers: int, mlp: bool, norm: bool, seed: int) -> nn.Module:
    """Return a network that was never trained: of linear attention with random matrices, of softmax as initialised."""
    if network != "linear":
        return SoftmaxNetwork(layers, FEATURES, mlp=mlp, norm=norm, seed=seed + 1_000_003)
    made = LinearAttentionNetwork(layers, FEATURES, torch_generator(seed, "unused"))
    with torch.no_grad():
        for place, A in enumerate(made.A):
            A.copy_(torch.randn(A.shape, generator=torch_generator(seed, "untrained", place), dtype=torch.float64))
    return made


def train(
    network: str, layers: int, mlp: bool, norm: bool, condition: float, size: int, seed: int
) -> Iterator[tuple[float, nn.Module]]:
    """Train, and return copies of the network after each of the `FRACTIONS` of the training.

    `size` is the number of tasks for linear attention, which L-BFGS fits, and of steps of Adam on fresh tasks for
    softmax attention.
    """
    if network == "linear":
        return _train_linear(layers, condition, size, seed)
    return _train_softmax(network, layers, mlp, norm, condition, size, seed)


def _train_linear(layers: int, condition: float, tasks: int, seed: int) -> Iterator[tuple[float, nn.Module]]:
    made = LinearAttentionNetwork(layers, FEATURES, torch_generator(seed, "initial weights"))
    group = draw_tasks("linear", condition, tasks, torch_generator(seed, "training tasks"))
    assert group.truth is not None
    truth = group.truth
    pairs = torch.cat([group.X, group.y[..., None]], -1)
    tokens = torch.cat([pairs, nn.functional.pad(group.Xq, (0, 1))], 1)
    optimiser = torch.optim.LBFGS(
        made.parameters(), history_size=20, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = (made(tokens, QUERIES)[:, -QUERIES:, -1] - truth).square().mean()
        value.backward()
        return value

    done = 0
    for fraction in FRACTIONS:  # the same optimiser, with its history, goes on from checkpoint to checkpoint
        rounds = max(1, round(fraction * ROUNDS) - done)
        optimiser.param_groups[0] |= {"max_iter": rounds, "max_eval": 5 * rounds // 4}
        optimiser.step(loss)
        done = round(fraction * ROUNDS)
        yield fraction, deepcopy(made)


def _train_softmax(
    network: str, layers: int, mlp: bool, norm: bool, condition: float, steps: int, seed: int
) -> Iterator[tuple[float, nn.Module]]:
    made = SoftmaxNetwork(layers, FEATURES, mlp=mlp, norm=norm, seed=seed)
    optimiser = torch.optim.Adam(made.parameters(), RATE)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda t: min(1.0, (t + 1) / warm) * (0.02 + 0.98 * (1 + math.cos(math.pi * t / steps)) / 2)
    )
    generator = torch_generator(seed, "training tasks")
    kept = {max(1, round(fraction * steps)): fraction for fraction in FRACTIONS}
    for step in range(1, steps + 1):
        group = draw_tasks(network, condition, BATCH, generator)
        assert group.truth is not None
        pairs = torch.cat([group.X, group.y[..., None]], -1)
        tokens = torch.cat([pairs, nn.functional.pad(group.Xq, (0, 1))], 1).float()
        loss = (made(tokens, QUERIES)[:, -QUERIES:] - group.truth.float()).square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step in kept:
            yield kept[step], deepcopy(made)


def preconditioners(network: LinearAttentionNetwork, condition: float) -> tuple[list[float], float]:
    """Return the step size of every layer, and how far the layers are from multiples of Sigma^-1.

    The step size is the multiple of Sigma^-1 nearest to A_l in the basis where Sigma is the identity; the distance is
    the largest over layers, relative to that basis' Frobenius norm: the measure of [Ahn2023] up to the basis.
    """
    root = torch.linalg.cholesky(covariance(condition))
    sizes, apart = [], 0.0
    for A in network.A:
        whitened = root.T @ A.detach() @ root
        size = float(whitened.diagonal().mean())
        sizes.append(size)
        rest = whitened - size * torch.eye(len(whitened), dtype=torch.float64)
        apart = max(apart, float(rest.norm() / whitened.norm().clamp_min(1e-300)))
    return sizes, apart
