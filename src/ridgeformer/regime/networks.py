"""Two-layer ReLU networks on rows, on fixed attention features, and on trained attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.memory import require_memory

__all__ = [
    "FrozenPattern",
    "LinearisedAttention",
    "QKVBlock",
    "QKVNetwork",
    "ReluNetwork",
    "dead_share",
    "expected_qkv_kernel",
    "is_dead",
    "normalise_rows",
    "qkv_features",
    "softmax_gap",
]


def normalise_rows(X: Float[Tensor, "n d"], name: str = "X", *, keep_zero: bool = False) -> Float[Tensor, "n d"]:
    """Return X with every row divided by its length; no square overflows or vanishes on the way.

    A zero row has no direction and is refused; `keep_zero` leaves it as it is.

    Example:
        >>> normalise_rows(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    largest = X.detach().abs().amax(1, keepdim=True)
    zero = (largest == 0).flatten()
    if bool(zero.any()) and not keep_zero:
        raise InputError(
            f"row {int(zero.nonzero()[0])} of {name} is all zeros ({int(zero.sum())} such rows in all) and cannot be "
            "scaled to unit length: drop it, or use attention without row normalisation."
        )
    X = X / torch.where(zero[:, None], 1.0, largest)
    return X / torch.where(zero[:, None], 1.0, X.norm(dim=1, keepdim=True))


@dataclass(frozen=True, eq=False)
class LinearisedAttention:
    """Linearised attention of any row over a fixed context, in float64; on the context itself X X'X, rows normalised.

    It is softmax attention with W_Q = W_K = W_V = I and exp(a) ~ 1 + a, up to the constant term that only centred
    rows lose (`softmax_gap`). A row x that is not in the context attends to it: X'X x. Gradients flow through
    x and not through the context.

    With `recompute` every layer attends with its own input, otherwise all with the context's first Gram matrix. `rank`
    is the number of leading directions kept of every attention matrix; None keeps all. `normalise` scales rows to unit
    length after every layer.

    Raises:
        InputError: a row whose features are zero and have no direction.

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
        >>> torch.allclose(LinearisedAttention(X, normalise=False)(X), X @ X.T @ X)
        True
    """

    context: ArrayLike
    layers: int = 1
    recompute: bool = True
    rank: int | None = None
    normalise: bool = True
    _keys: list[Tensor] = field(init=False, repr=False, default_factory=list)
    _values: list[Tensor] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        rows = as_matrix(self.context, "context").detach().to(torch.float64)
        whole(self.layers, "layers", 0)
        if self.rank is not None and whole(self.rank, "rank", 1) > min(rows.shape):
            raise InputError(f"rank is {self.rank}; an attention matrix of {tuple(rows.shape)} rows has less.")
        values = rows
        for layer in range(self.layers):
            attending = values if self.recompute else rows
            self._keys.append(self._truncate(attending))
            self._values.append(values)
            values = self._attend(attending, layer)

    def __call__(self, X: ArrayLike) -> Float[Tensor, "n d"]:
        """Return the features of rows (n, d)."""
        like = as_matrix(self.context, "context").to(torch.float64)
        rows = x = as_query(X, like, "X")
        for layer in range(self.layers):
            x = self._attend(x if self.recompute else rows, layer)
        return x

    def _attend(self, x: Tensor, layer: int) -> Tensor:
        attended = (x @ self._keys[layer].T) @ self._values[layer]
        return normalise_rows(attended, "the attention features") if self.normalise else attended

    def _truncate(self, keys: Tensor) -> Tensor:
        """Return the keys projected on their top directions, so that keys keys' is the truncated Gram matrix."""
        if self.rank is None:
            return keys
        _, _, Vt = torch.linalg.svd(keys, full_matrices=False)
        return keys @ Vt[: self.rank].T @ Vt[: self.rank]


def softmax_gap(X: ArrayLike, scale: float) -> float:
    """Return the relative distance of (scale/n) X X'X from softmax(scale X X') X, in Frobenius norm (L16).

    exp(a) ~ 1 + a also leaves the mean row and the row sums: the gap vanishes with `scale` for centred rows only,
    and tends to 1 for all others.

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [-1.0, 0.5], [0.0, -0.5]], dtype=torch.float64)
        >>> softmax_gap(X, 0.001) < 1e-3, softmax_gap(X + 1, 0.001) > 0.9
        (True, True)
    """
    X = as_matrix(X).detach().to(torch.float64)
    scale = positive(scale, "scale", "the factor of the logits")
    exact = torch.softmax(scale * X @ X.T, dim=1) @ X
    linear = scale / X.shape[0] * X @ (X.T @ X)
    return float((exact - linear).norm() / exact.norm())


def qkv_features(
    X: ArrayLike, generator: torch.Generator, *, heads: int = 1, head_width: int | None = None, tied: bool = False
) -> Float[Tensor, "n p"]:
    """Return linearised attention features (X W_Q W_K'X') X of random heads, side by side over sqrt(heads).

    Entries of W_Q and W_K (d, head_width) are N(0, 1/head_width); values are the rows themselves. The kernel of the
    features is the average of the heads' kernels; `expected_qkv_kernel` is its mean over draws.

    `head_width` None takes d; `tied` heads have W_Q = W_K.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> qkv_features(torch.eye(3), torch_generator(0, "heads"), heads=2).shape
        torch.Size([3, 6])
    """
    X = as_matrix(X).detach().to(torch.float64)
    d, heads = X.shape[1], whole(heads, "heads", 1)
    width = d if head_width is None else whole(head_width, "head_width", 1)
    features, C = [], X.T @ X
    for _ in range(heads):
        queries = torch.randn(d, width, generator=generator, dtype=torch.float64) / sqrt(width)
        keys = queries if tied else torch.randn(d, width, generator=generator, dtype=torch.float64) / sqrt(width)
        features.append(X @ queries @ (keys.T @ C))
    return torch.cat(features, dim=1) / sqrt(heads)


def expected_qkv_kernel(X: ArrayLike, *, head_width: int | None = None, tied: bool = False) -> Float[Tensor, "n n"]:
    """Return E[K] of `qkv_features`: tr(G^2)/d_k G, and (1 + 1/d_k) G^3 more if queries and keys are tied.

    Independent heads, averaged, therefore keep the condition number of G; cubing it takes tied weights or one draw.
    """
    X = as_matrix(X).detach().to(torch.float64)
    width = X.shape[1] if head_width is None else whole(head_width, "head_width", 1)
    G = X @ X.T
    kernel = G.square().sum() / width * G
    return kernel + (1 + 1 / width) * G @ G @ G if tied else kernel


class ReluNetwork(nn.Module):
    """2L-ReLU: f(x) = sum_r a_r relu(w_r.x) / sqrt(m), a_r = +-1 fixed, w_r ~ N(0, scale^2 I) trained.

    Several outputs share the neurons and have signs of their own. Draws are made in float64 and then rounded, so
    networks of both precisions are the same network.

    The `scale` of the initial weights is 0.01 as published; 1 is unit initialisation.

    Raises:
        InputError: weights, gradients and Adam's moments would not fit into memory.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> network = ReluNetwork(3, 8, torch_generator(0, "weights"), outputs=2)
        >>> network(torch.ones(5, 3, dtype=torch.float64)).shape
        torch.Size([5, 2])
    """

    signs: Tensor

    def __init__(
        self,
        features: int,
        width: int,
        generator: torch.Generator,
        *,
        outputs: int = 1,
        scale: float = 0.01,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        d, m = whole(features, "features", 1), whole(width, "width", 1)
        c, s = whole(outputs, "outputs", 1), positive(scale, "scale", "zero weights have no gradient")
        needed = m * d * (8 + 4 * torch.finfo(dtype).bits // 8)
        require_memory(needed, f"a network of width {m:,} on {d:,} features", "use a smaller width, or float32")
        weights = torch.randn(m, d, generator=generator, dtype=torch.float64) * s
        self.weights = nn.Parameter(weights.to(dtype))
        self.register_buffer("signs", (torch.randint(2, (m, c), generator=generator) * 2 - 1).to(dtype))

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """Return the outputs."""
        return (x @ self.weights.T).relu() @ self.signs / sqrt(self.signs.shape[0])


class FrozenPattern(nn.Module):
    """The linearisation of a `ReluNetwork`: every neuron stays active where its initial weights made it so.

    The network is linear in the scale of its weights, so its expansion is sum_r a_r 1[w_r0.x > 0] w_r.x / sqrt(m):
    what `Linearised` gives for any module, in half the time.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> network = ReluNetwork(3, 8, torch_generator(0, "weights"))
        >>> x = torch.ones(5, 3, dtype=torch.float64)
        >>> torch.equal(FrozenPattern(network)(x), network(x))
        True
    """

    origin: Tensor
    signs: Tensor

    def __init__(self, network: ReluNetwork) -> None:
        super().__init__()
        self.weights = nn.Parameter(network.weights.detach().clone())
        self.register_buffer("origin", network.weights.detach().clone())
        self.register_buffer("signs", network.signs)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """Return the outputs of the expansion at the present weights."""
        active = x @ self.origin.T > 0
        return (x @ self.weights.T * active) @ self.signs / sqrt(self.signs.shape[0])


class QKVBlock(nn.Module):
    """Linearised or softmax attention with trained queries, keys and values over rows given with the call.

    Entries of W_Q and W_K are drawn from N(0, 1/d_k) and those of W_V from N(0, 1/d), so that one head with tied
    identity weights would be X X'X. Heads stand side by side.

    `head_width`, d_k, is also the width of a head's values; None takes d // heads, at least 1. `tied` means W_Q = W_K.
    Rows are normalised by "layer_norm", to "unit" length, or not (None). Softmax attention has logits over sqrt(d_k).
    """

    def __init__(
        self,
        features: int,
        generator: torch.Generator,
        *,
        heads: int = 1,
        head_width: int | None = None,
        tied: bool = False,
        normalise: str | None = "unit",
        softmax: bool = False,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        d, h = whole(features, "features", 1), whole(heads, "heads", 1)
        k = max(1, d // h) if head_width is None else whole(head_width, "head_width", 1)
        if normalise not in ("layer_norm", "unit", None):
            raise unknown_name("normalisation", normalise, ("layer_norm", "unit"))

        def draw(deviation: float) -> nn.Parameter:
            values = torch.randn(h, d, k, generator=generator, dtype=torch.float64) * deviation
            return nn.Parameter(values.to(dtype))

        self.queries = draw(1 / sqrt(k))
        self.keys = None if tied else draw(1 / sqrt(k))
        self.values = draw(1 / sqrt(d))
        self.normalise, self.softmax, self.outputs = normalise, softmax, h * k
        self.layer_norm = nn.LayerNorm(h * k, dtype=dtype) if normalise == "layer_norm" else None

    def forward(self, x: Float[Tensor, "n d"], context: Float[Tensor, "k d"]) -> Float[Tensor, "n p"]:
        """Return what each row of x reads from the context."""
        keys = self.queries if self.keys is None else self.keys
        logits = (x @ self.queries) @ (context @ keys).transpose(1, 2)
        weights = torch.softmax(logits / sqrt(keys.shape[2]), dim=2) if self.softmax else logits
        read = (weights @ (context @ self.values)).movedim(0, 1).flatten(1)
        if self.layer_norm is not None:
            return self.layer_norm(read)
        return nn.functional.normalize(read, dim=1) if self.normalise == "unit" else read


class QKVNetwork(nn.Module):
    """Blocks of trained attention over a fixed context, then a `ReluNetwork`; all but the signs is trained.

    The context passes through the same blocks, so that a second block attends to what the first made of it.

    The context is the training set. `block` holds options of `QKVBlock`.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> X = torch.eye(4, dtype=torch.float64)
        >>> QKVNetwork(X, 16, torch_generator(0, "weights"), heads=2, tied=True)(X).shape
        torch.Size([4, 1])
    """

    context: Tensor

    def __init__(
        self,
        context: ArrayLike,
        width: int,
        generator: torch.Generator,
        *,
        layers: int = 1,
        outputs: int = 1,
        scale: float = 0.01,
        dtype: torch.dtype = torch.float64,
        **block: Any,
    ) -> None:
        super().__init__()
        rows = as_matrix(context, "context").detach().to(dtype)
        self.register_buffer("context", rows)
        self.blocks, features = nn.ModuleList(), rows.shape[1]
        for _ in range(whole(layers, "layers", 1)):
            layer = QKVBlock(features, generator, dtype=dtype, **block)
            self.blocks.append(layer)
            features = layer.outputs
        self.head = ReluNetwork(features, width, generator, outputs=outputs, scale=scale, dtype=dtype)

    def attended(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        """Return the rows the ReLU layer sees."""
        context = self.context
        for position, block in enumerate(self.blocks):
            x = block(x, context)
            if position + 1 < len(self.blocks):
                context = block(context, context)
        return x

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """Return the outputs."""
        return self.head(self.attended(x))


def dead_share(network: ReluNetwork, X: Float[Tensor, "n d"]) -> float:
    """Return the share of neurons that are inactive on every row: they have no gradient and never come back.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> network = ReluNetwork(2, 1000, torch_generator(0, "weights"))
        >>> 0.4 < dead_share(network, torch.ones(5, 2, dtype=torch.float64)) < 0.6
        True
    """
    with torch.no_grad():
        return float((~(X.to(network.weights) @ network.weights.T > 0).any(0)).double().mean())


def is_dead(model: nn.Module, X: Float[Tensor, "n d"]) -> bool:
    """Return whether no output on any row has a gradient: training cannot move such a network.

    Every row and output enters with a weight of its own, so that gradients cancel in no generic case.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    outputs = model(X.to(parameters[0]))
    weights = torch.linspace(1, 2, outputs.numel(), dtype=outputs.dtype, device=outputs.device).sqrt()
    gradients = torch.autograd.grad(weights @ outputs.flatten(), parameters, allow_unused=True)
    return all(gradient is None or not bool(gradient.any()) for gradient in gradients)
