"""The tangent kernel of a finite two-layer ReLU network, from its activation pattern alone.

For f(x) = sum_r a_r relu(w_r.x) / sqrt(m) with a_r = +-1 fixed and w trained, the gradient with respect to w_r is
a_r 1[w_r.x > 0] x / sqrt(m), so K_m = (X X') o (D D') / m with D the 0/1 pattern: no Jacobian is ever needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import require_memory
from ridgeformer.regime.activation_counts import (
    BLOCK,
    Counts,
    gram_factor,
    stream_counts,
)
from ridgeformer.regime.rows import normalise_rows

__all__ = ["finite_relu_ntk", "finite_relu_ntks", "relu_ntk_of_weights"]


def relu_ntk_of_weights(X: Any, weights: Any) -> Float[Tensor, "n n"]:
    """Return the tangent kernel of the network whose first-layer weights are given, one neuron a row.

    Equal to the autodiff kernel to round-off; only the weights' directions matter.

    Args:
        X: Rows (n, d).
        weights: (m, d).

    Example:
        >>> relu_ntk_of_weights([[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [-1.0, 2.0]])
        tensor([[0.5000, 0.5000], [0.5000, 2.0000]], dtype=torch.float64)
    """
    X = as_matrix(X).detach()
    W = as_query(weights, X, "weights").detach()
    counts = torch.zeros(X.shape[0], X.shape[0], dtype=torch.float64, device=X.device)
    for neurons in W.split(BLOCK):  # exact: a block has fewer neurons than float32 counts
        counts += _dot_products((X @ neurons.T > 0).float())
    return _kernel(X, counts, W.shape[0])


def finite_relu_ntk(
    X: Any,
    width: Any,
    generator: torch.Generator,
    *,
    threads: Any = 2,
    progress: Callable[[int], None] | None = None,
) -> Float[Tensor, "n n"]:
    """Return the tangent kernel of a random two-layer ReLU network of any width, weights N(0, s^2 I).

    Exact in distribution: the sums w.x are drawn through a factor of the Gram matrix, the weights never. The kernel
    does not depend on s. Time grows as width, memory does not. The factor is float32: a sum closer to zero than
    about 1e-7 of its size can take the wrong side, which is below the sampling error up to a width of 1e13.

    Args:
        X: Rows (n, d).
        width: Number of neurons m.
        generator: Where the stream's seed is drawn from.
        threads: Threads that share the work; the result does not depend on it.
        progress: Called with the number of neurons of every finished block.

    Example:
        >>> from ridgeformer.core.seeds import torch_generator
        >>> K = finite_relu_ntk([[1.0, 0.0], [0.0, 1.0]], 1000, torch_generator(0, "neurons"))
        >>> K[0, 1].item(), bool(abs(K[0, 0] - 0.5) < 0.06)
        (0.0, True)
    """
    for _, kernel in finite_relu_ntks(X, [width], generator, threads=threads, progress=progress):
        return kernel
    raise AssertionError("unreachable: one width gives one kernel")


def finite_relu_ntks(
    X: Any,
    widths: Sequence[Any],
    generator: torch.Generator,
    *,
    threads: Any = 2,
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, Float[Tensor, "n n"]]]:
    """Yield (width, kernel) for rising widths of one growing network: each keeps the neurons of the one before.

    The cost is that of the largest width alone. The arguments are those of `finite_relu_ntk`.

    Raises:
        InputError: widths that do not rise, or n x n matrices that do not fit into memory.
    """
    X, threads = as_matrix(X).detach(), whole(threads, "threads", 1)
    widths = [whole(width, "width", 1) for width in widths]
    if sorted(set(widths)) != widths or not widths:
        raise InputError(f"widths are {widths}; rising numbers were expected: sort them and drop repetitions.")
    n = X.shape[0]
    require_memory(8 * n * (n * (threads + 3) + threads * BLOCK // 4), f"a kernel of {n:,} rows", "use fewer rows")
    seed = int(torch.randint(2**62, (), generator=generator))
    # signs do not depend on the rows' lengths, the range of float32 does
    factor = gram_factor(normalise_rows(X.to(torch.float64), keep_zero=True)).to("cpu", torch.float32)
    counts: Counts = np.zeros((n, n), dtype=np.int64)
    for stage, (before, width) in enumerate(zip([0, *widths], widths, strict=False)):
        counts = counts + stream_counts(factor, width - before, seed + stage, threads, progress)
        yield width, _kernel(X, torch.from_numpy(counts), width)


def _kernel(X: Tensor, counts: Tensor, width: int) -> Tensor:
    return _dot_products(X).mul_((counts.to(torch.float64) / width).to(X))


def _dot_products(M: Tensor) -> Tensor:
    """Return M M', one of its two off-diagonal quarters copied and not computed: a fourth of the time is saved."""
    half = len(M) // 2
    top, low = M[:half], M[half:]
    products = M.new_empty(len(M), len(M))
    products[:half] = top @ M.T
    products[half:, :half] = products[:half, half:].T
    products[half:, half:] = low @ low.T
    return products
