"""The tangent kernel of a finite two-layer ReLU network, from its activation pattern alone.

For f(x) = sum_r a_r relu(w_r.x) / sqrt(m) with a_r = +-1 fixed and w trained, the gradient with respect to w_r is
a_r 1[w_r.x > 0] x / sqrt(m), so K_m = (X X') o (D D') / m with D the 0/1 pattern: no Jacobian is ever needed. Counting
the neurons active on both rows of each pair is enough; the counts are exact integers, held as bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import ClassVar
from weakref import ref

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import require_memory
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel
from ridgeformer.regime.networks import ReluNetwork, normalise_rows
from ridgeformer.regime.training import Training, train

__all__ = ["NetworkNTK", "finite_relu_ntk", "finite_relu_ntks", "network_kernel", "relu_ntk_of_weights"]


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
    z ~ N(0, I_r): the weights themselves are never drawn. Their signs do not depend on the scale of w. The factor is
    lower trapezoidal, as `gram_factor` gives it; what stands above the diagonal is not read in full.
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
    factor: Float[Tensor, "n r"], neurons: int, seed: int, threads: int, progress: Callable[[int], None] | None = None
) -> Counts:
    """Return the shared-neuron counts of Gaussian neurons, drawn block by block and never stored.

    Every block has a generator of its own and integers add up in any order, so the result depends on the seed and
    not on the number of threads. Memory does not grow with the number of neurons.

    `factor` is a float32 factor of the Gram matrix on the CPU; `progress` gets the number of neurons of each block.
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


def relu_ntk_of_weights(X: ArrayLike, weights: ArrayLike) -> Float[Tensor, "n n"]:
    """Return the tangent kernel of the network whose first-layer weights are given, one neuron a row.

    Equal to the autodiff kernel to round-off; only the weights' directions matter.

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
    X: ArrayLike,
    width: int,
    generator: torch.Generator,
    *,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Float[Tensor, "n n"]:
    """Return the tangent kernel of a random two-layer ReLU network of any width, weights N(0, s^2 I).

    Exact in distribution: the sums w.x are drawn through a factor of the Gram matrix, the weights never. The kernel
    does not depend on s. Time grows as width, memory does not. The factor is float32: a sum closer to zero than
    about 1e-7 of its size can take the wrong side, which is below the sampling error up to a width of 1e13.

    The result does not depend on the number of threads. `progress` gets the number of neurons of each finished block.

    Example:
        >>> K = finite_relu_ntk([[1.0, 0.0], [0.0, 1.0]], 1000, torch_generator(0, "neurons"))
        >>> K[0, 1].item(), bool(abs(K[0, 0] - 0.5) < 0.06)
        (0.0, True)
    """
    return next(finite_relu_ntks(X, [width], generator, threads=threads, progress=progress))[1]


def finite_relu_ntks(
    X: ArrayLike,
    widths: Sequence[int],
    generator: torch.Generator,
    *,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, Float[Tensor, "n n"]]]:
    """Yield (width, kernel) for rising widths of one growing network: each keeps the neurons of the one before.

    The cost is that of the largest width alone. The arguments are those of `finite_relu_ntk`.
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


@dataclass(frozen=True, eq=False)
class NetworkNTK(Kernel):
    """k(x, z) = <x, z> times the share of neurons active at both: `relu_ntk_of_weights`, at new rows as well.

    Which neurons are active does not change under small moves, so gradients go through <x, z> alone: exact wherever
    no w_r.x is zero.

    Example:
        >>> NetworkNTK(torch.tensor([[1.0, 0.0], [-1.0, 2.0]]))([[1.0, 0.0]], [[1.0, 1.0]])
        tensor([[0.5000]], dtype=torch.float64)
    """

    weights: Tensor
    _kept: list[tuple[ref[Tensor], int, Tensor]] = field(default_factory=list, init=False, repr=False)

    name: ClassVar[str] = "network_ntk"
    semidefinite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", as_matrix(self.weights, "weights").detach())

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return dot products times shares; patterns are counted in float32, exact up to 2^24 neurons."""
        left = self._active(X)
        right = left if Z is X else self._active(Z)
        return X @ Z.T * ((left @ right.T).double() / len(self.weights)).to(X)

    def diagonal(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Return |x|^2 times the share of active neurons."""
        return X.square().sum(1) * self._active(X).double().mean(1).to(X)

    def _active(self, X: Tensor) -> Tensor:
        """Return the patterns of the rows, in the precision of the weights.

        Those of the last two tensors are kept: every step of an attack asks for the fit's own rows again.
        """
        known = next((one for one in self._kept if one[0]() is X and one[1] == X._version), None)
        if known is None:
            pattern = (X.detach().to(self.weights.dtype) @ self.weights.to(X.device).T > 0).float()
            known = (ref(X), X._version, pattern)
        self._kept[:] = [known, *(one for one in self._kept if one is not known)][:2]
        return known[2]


def network_kernel(X: ArrayLike, y: ArrayLike, width: int, seed: int, training: Training | None = None) -> NetworkNTK:
    """Return the kernel of a network drawn for rows X, at initialisation or after training on X and y.

    Without training `y` only says how many outputs there are. Another seed is another draw of weights and batches.

    Example:
        >>> network_kernel([[1.0, 0.0]], [[1.0]], 8, seed=0).weights.shape
        torch.Size([8, 2])
    """
    X = as_matrix(X, "X").detach()
    y = torch.as_tensor(y, dtype=X.dtype).reshape(len(X), -1)
    network = ReluNetwork(X.shape[1], width, torch_generator(seed, "network"), outputs=y.shape[1], dtype=X.dtype)
    if training is not None:
        train(network, X, y, training, torch_generator(seed, "batches"))
    return NetworkNTK(network.weights)
