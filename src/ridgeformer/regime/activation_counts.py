"""How many neurons two rows share: exact integer counts, by bits, for any number of neurons.

Neuron r is active on row i if w_r.x_i > 0. The tangent kernel of a two-layer ReLU network needs nothing else of the
weights than the number of neurons active on both rows of each pair.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Lock

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from ridgeformer.core.seeds import torch_generator

__all__ = ["BLOCK", "Counts", "draw_patterns", "gram_factor", "pack_patterns", "shared_neurons", "stream_counts"]

Counts = NDArray[np.int64]

BLOCK = 2**14
"""Neurons of one task: long enough that a call costs little beside its work, short enough for the cache."""

DRAWN = 2**11
"""Neurons drawn at once inside a task, a multiple of 64; their sums stay in the cache until the signs are packed."""

ROWS = 40
"""Rows whose sums are taken at once; the zeros above the factor's diagonal are skipped in steps of this."""


def pack_patterns(active: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return activation patterns (n, m) as bits, 64 neurons a word; the last word is filled with inactive ones."""
    n, m = active.shape
    if m % 64:
        active = np.concatenate([active, np.zeros((n, -m % 64), dtype=bool)], axis=1)
    return np.packbits(active, axis=1).view(np.uint64)


def shared_neurons(packed: NDArray[np.uint64]) -> Counts:
    """Return how many neurons are active on both rows of each pair, (n, n), exactly.

    A conjunction and a population count treat 64 neurons at a time; the counts are integers, so nothing is lost
    at any width, where float32 counters stop at 2^24. Up to `BLOCK` neurons fit into 16 bits.

    Example:
        >>> active = np.array([[True, True, False], [True, False, True]])
        >>> shared_neurons(pack_patterns(active)).tolist()
        [[2, 1], [1, 2]]
    """
    n, words = packed.shape
    small = np.uint16 if 64 * words <= BLOCK else np.int64  # narrow sums are the faster ones
    counts = np.zeros((n, n), dtype=small)
    both, ones = np.empty((n, words), dtype=np.uint64), np.empty((n, words), dtype=np.uint8)
    for i in range(n):
        np.bitwise_and(packed[i:], packed[i], out=both[i:])
        np.bitwise_count(both[i:], out=ones[i:])
        ones[i:].sum(axis=1, dtype=small, out=counts[i, i:])
    return (counts + np.triu(counts, 1).T).astype(np.int64)


def gram_factor(X: Float[Tensor, "n d"]) -> Float[Tensor, "n r"]:
    """Return a lower trapezoidal F with F F' = X X' and at most min(n, d) columns, in float64.

    Where rows are dependent F is not unique and follows round-off, so it is computed on one thread: the same rows give
    the same F, and one seed the same network, whatever number of threads torch may use.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.linalg.qr(X.to(torch.float64).T, mode="r").R.T.contiguous()
    finally:
        torch.set_num_threads(before)


def draw_patterns(factor: Float[Tensor, "n r"], neurons: int, generator: torch.Generator) -> NDArray[np.uint64]:
    """Return packed patterns of `neurons` Gaussian neurons on rows whose Gram matrix is factor factor'.

    The sums w.x_i of a neuron with w ~ N(0, I) are jointly N(0, G), and so are the entries of factor z with
    z ~ N(0, I_r): the weights themselves are never drawn. Their signs do not depend on the scale of w.

    Args:
        factor: Lower trapezoidal, as `gram_factor` gives it; what stands above the diagonal is not read in full.
        neurons: How many.
        generator: Where the draws come from.
    """
    n, r = factor.shape
    z, F = torch.empty(r, DRAWN, dtype=factor.dtype), factor.numpy()
    sums = np.empty((n, DRAWN), dtype=F.dtype)
    packed = np.empty((n, -(-neurons // 64)), dtype=np.uint64)
    for first in range(0, neurons, DRAWN):
        z.normal_(generator=generator)
        for top in range(0, n, ROWS):  # skips most of the zeros above the diagonal
            rows = slice(top, top + ROWS)
            np.matmul(F[rows, : top + ROWS], z.numpy()[: top + ROWS], out=sums[rows])
        words = pack_patterns(sums[:, : neurons - first] > 0)
        packed[:, first // 64 : first // 64 + words.shape[1]] = words
    return packed


def stream_counts(
    factor: Float[Tensor, "n r"],
    neurons: int,
    seed: int,
    threads: int,
    progress: Callable[[int], None] | None = None,
) -> Counts:
    """Return the shared-neuron counts of so many Gaussian neurons, drawn block by block and forgotten.

    Every block has a generator of its own and integers add up in any order, so the result depends on the seed and
    not on the number of threads. Memory does not grow with the number of neurons.

    Args:
        factor: A float32 factor of the Gram matrix on the CPU.
        neurons: How many.
        seed: Seed of the whole stream.
        threads: Threads that share the blocks.
        progress: Called with the number of neurons of every finished block.
    """
    blocks, lock = count(), Lock()

    def work() -> Counts:
        torch.set_num_threads(1)  # the blocks are the parallel part
        total = np.zeros((factor.shape[0], factor.shape[0]), dtype=np.int64)
        while True:
            with lock:
                block = next(blocks)
            drawn = min(BLOCK, neurons - block * BLOCK)
            if drawn <= 0:
                return total
            total += shared_neurons(draw_patterns(factor, drawn, torch_generator(seed, "neurons", block)))
            if progress is not None:
                with lock:
                    progress(drawn)

    before = torch.get_num_threads()
    try:
        with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
            totals = [pool.submit(work) for _ in range(threads)]
            return np.sum([total.result() for total in totals], axis=0)
    finally:
        torch.set_num_threads(before)
