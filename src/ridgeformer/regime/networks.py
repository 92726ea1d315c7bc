"""The networks of the kernel-regime question: two-layer ReLU, on rows, on attention features, on trained attention."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ridgeformer.core.checks import as_matrix, positive, whole
from ridgeformer.core.errors import unknown_name
from ridgeformer.core.memory import require_memory

__all__ = ["FrozenPattern", "QKVBlock", "QKVNetwork", "ReluNetwork", "dead_share", "is_dead"]


class ReluNetwork(nn.Module):
    """2L-ReLU: f(x) = sum_r a_r relu(w_r.x) / sqrt(m), a_r = +-1 fixed, w_r ~ N(0, scale^2 I) trained.

    Several outputs share the neurons and have signs of their own. Draws are made in float64 and then rounded, so
    networks of both precisions are the same network.

    Args:
        features: d.
        width: m.
        generator: Where weights and signs are drawn from.
        outputs: c.
        scale: Standard deviation of the initial weights; 0.01 as published, 1 for unit initialisation.
        dtype: Precision.

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
        features: Any,
        width: Any,
        generator: torch.Generator,
        *,
        outputs: Any = 1,
        scale: Any = 0.01,
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

    Args:
        features: d.
        generator: Where the weights are drawn from.
        heads: How many.
        head_width: d_k, also the width of a head's values; None takes d // heads, at least 1.
        tied: W_Q = W_K.
        normalise: "layer_norm", "unit" rows, or None.
        softmax: Softmax attention with logits over sqrt(d_k), instead of linearised.
        dtype: Precision.
    """

    def __init__(
        self,
        features: Any,
        generator: torch.Generator,
        *,
        heads: Any = 1,
        head_width: Any = None,
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

    Args:
        context: The rows attended to, (n, d): the training set.
        width: Neurons of the ReLU layer.
        generator: Where everything is drawn from.
        layers: Blocks.
        outputs: c.
        scale: Of the ReLU layer's weights.
        dtype: Precision.
        block: Options of `QKVBlock`.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> X = torch.eye(4, dtype=torch.float64)
        >>> QKVNetwork(X, 16, torch_generator(0, "weights"), heads=2, tied=True)(X).shape
        torch.Size([4, 1])
    """

    context: Tensor

    def __init__(
        self,
        context: Any,
        width: Any,
        generator: torch.Generator,
        *,
        layers: Any = 1,
        outputs: Any = 1,
        scale: Any = 0.01,
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
