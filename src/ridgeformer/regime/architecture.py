"""Which network: a name, its options, and how it is built for a training set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ridgeformer.core.checks import ArrayLike, as_matrix
from ridgeformer.core.errors import InputError, RidgeformerError, ShapeError, unknown_name
from ridgeformer.regime.networks import LinearisedAttention, QKVNetwork, ReluNetwork
from ridgeformer.regime.tangent_kernel import call_checked

__all__ = ["Architecture", "Built", "CustomArchitecture"]

NAMES = ("relu", "mlp-attn", "qkv")


@dataclass(frozen=True, eq=False)
class Built:
    """A network for one training set.

    Attributes:
        features: What is done to rows before the network sees them, once and for all; nothing in it is trained.
        model: The network on those features.
        closed_form: Whether the tangent kernel has its closed form and its limit: a plain ReLU layer.
    """

    features: Callable[[Tensor], Tensor]
    model: nn.Module
    closed_form: bool


@dataclass(frozen=True)
class Architecture:
    """2L-ReLU on rows ("relu"), on fixed attention features ("mlp-attn"), or on trained attention ("qkv").

    Attributes:
        name: One of the three.
        scale: Standard deviation of the ReLU layer's weights: 0.01 as published, 1 for unit initialisation.
        layers: LinearisedAttention layers.
        recompute: "mlp-attn": every layer attends with its own input, or all with the first Gram matrix.
        rank: "mlp-attn": truncated attention, the number of leading directions kept; None keeps all.
        normalise: Rows of unit length after every layer.
        heads, head_width, tied, layer_norm, softmax: "qkv": options of `QKVBlock`; layer_norm replaces unit rows.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> built = Architecture("mlp-attn").build(X, 16, 1, torch_generator(0, "weights"))
        >>> built.model(built.features(X)).shape
        torch.Size([3, 1])
    """

    name: str = "relu"
    scale: float = 0.01
    layers: int = 1
    recompute: bool = True
    rank: int | None = None
    normalise: bool = True
    heads: int = 1
    head_width: int | None = None
    tied: bool = False
    layer_norm: bool = False
    softmax: bool = False

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise unknown_name("network", self.name, NAMES)

    def build(
        self, X: ArrayLike, width: int, outputs: int, generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Built:
        """Return the network of this width for the training rows X, drawn from the generator."""
        X = as_matrix(X)
        if self.name == "qkv":
            model = QKVNetwork(
                X, width, generator, layers=self.layers, outputs=outputs, scale=self.scale, dtype=dtype,
                heads=self.heads, head_width=self.head_width, tied=self.tied, softmax=self.softmax,
                normalise="layer_norm" if self.layer_norm else "unit" if self.normalise else None,
            )  # fmt: skip
            return Built(_same, model, closed_form=False)
        features: Callable[[Tensor], Tensor] = _same
        if self.name == "mlp-attn":
            features = LinearisedAttention(X, self.layers, self.recompute, self.rank, self.normalise)
        network = ReluNetwork(X.shape[1], width, generator, outputs=outputs, scale=self.scale, dtype=dtype)
        return Built(features, network, closed_form=True)


@dataclass(frozen=True)
class CustomArchitecture:
    """A network of your own.

    Attributes:
        factory: Called with (features, outputs, width); returns a module that maps (n, features) to (n, outputs). What
            it draws comes from a copy of torch's global generator with a seed of its own.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> mine = CustomArchitecture(lambda d, c, m: nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c)))
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> mine.build(X, 16, 1, torch_generator(0, "weights")).model(X).shape
        torch.Size([3, 1])
    """

    factory: Callable[[int, int, int], nn.Module]

    def build(
        self, X: ArrayLike, width: int, outputs: int, generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Built:
        """Return the module, in evaluation mode and the precision asked for.

        Raises:
            InputError: the factory or the module fails, or gives something else than was asked for.
        """
        X = as_matrix(X)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            with _guarded(f"the factory, called with {(X.shape[1], outputs, width)},"):
                model: object = self.factory(X.shape[1], outputs, width)
        if not isinstance(model, nn.Module):
            raise InputError(f"the factory returned {type(model).__name__}; a torch.nn.Module was expected.")
        model = model.to(dtype).eval()
        with _guarded(f"{type(model).__name__}, given rows of {X.shape[1]} features,"):
            columns = call_checked(model, X[:2].to(dtype)).shape[1]
        if columns != outputs:
            raise ShapeError(f"{type(model).__name__} has {columns} outputs; the targets have {outputs}.")
        return Built(_same, model, closed_form=False)


@contextmanager
def _guarded(who: str) -> Iterator[None]:
    """Turn whatever the user's code raises into one sentence."""
    try:
        yield
    except RidgeformerError:
        raise
    except Exception as error:
        raise InputError(
            f"{who} raised {type(error).__name__}: {error}. A function (features, outputs, width) that returns a "
            "module from (n, features) to (n, outputs) was expected."
        ) from error


def _same(X: Tensor) -> Tensor:
    return X
