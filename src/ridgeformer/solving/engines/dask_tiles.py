"""Tiles of K on the workers of a Dask cluster: rows stay there, columns of a few numbers a row travel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.core.products import thin_product, transposed_thin_product
from ridgeformer.kernels import Kernel
from ridgeformer.solving.engines.base import LinAlgError
from ridgeformer.solving.engines.tiles import TILE, Tiles, symmetric_product

__all__ = ["DaskClient", "DaskTiles", "current_client", "keep_trying"]

TILES_PER_WORKER = 3
"""Tiles for every worker at least: more share the work more evenly, and put more rows in two places."""

ATTEMPTS, PAUSE = 6, 0.1
"""How often a step is tried when the cluster loses a part of it, and the first of the pauses, which double."""

LARGEST_RANK = 4000
"""Of the preconditioner: its core of rank^2 numbers is factorised by the client."""

LIFTS = 20
"""How often the diagonal of that core is raised, tenfold each time, before it is given up."""

Array = NDArray[Any]
Found = TypeVar("Found")

DaskClient: TypeAlias = Any
"""A `distributed.Client`; Dask need not be installed, so that its types are not known here."""


class DaskTiles(Tiles):
    """K as symmetric tiles over pairs of row blocks, each tile formed by the worker it is pinned to.

    The client keeps X and hands out its blocks once. A product sends the blocks of V, 8 n r bytes, and gets back as
    many; between workers travel the parts of sums. Sums are taken in a fixed order, so the answer does not depend
    on which worker was first. A worker that dies takes its blocks with it: they are handed out again and the step
    is repeated.

    The workers must be able to import the kernel. The client is a `distributed.Client`; None takes the current one.

    Raises:
        InputError: Dask is not installed, or there is no client, or the cluster has no workers.
    """

    name: ClassVar[str] = "dask"

    def __init__(self, kernel: Kernel, X: Float[Tensor, "n d"], working: torch.dtype, client: Any = None) -> None:
        super().__init__(kernel, X, working)
        self._client = current_client() if client is None else client
        workers = len(self._client.nthreads())
        if workers == 0:
            raise InputError("the Dask cluster has no workers: start some, or wait until they have arrived.")
        blocks = 1
        while blocks * (blocks + 1) // 2 < TILES_PER_WORKER * workers and blocks < self.n:
            blocks += 1
        self._edges = np.linspace(0, self.n, blocks + 1).astype(int).tolist()
        self._pairs = [(i, j) for i in range(blocks) for j in range(i + 1)]
        self._placed: dict[str, list[Any]] = {}

    def matmat(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V, entries in the working precision."""
        return self._persist(lambda: self._product(V, self.dtype)).to(V)

    def matmat64(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V, everything in float64."""
        return self._persist(lambda: self._product(V, torch.float64)).to(V.device)

    def preconditioner(self, ridge: float, rank: int, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
        """Return (F'F + ridge I)^-1, F'F being the Nystrom approximation from random columns; F stays on the workers.

        Building it sends the chosen rows and a triangle of rank^2 numbers to every block and gets one such matrix
        back; applying it sends and returns n r numbers.
        """
        index = torch.randperm(self.n, generator=generator)[: min(rank, LARGEST_RANK)].sort().values
        chosen = self.X[index.to(self.device)].to(torch.float64)
        core, lift = self.kernel.dense(chosen, chosen), torch.finfo(torch.float64).eps
        lower, info = torch.linalg.cholesky_ex(core)
        for _ in range(LIFTS):  # while rows are nearly alike
            if int(info) == 0:
                break
            lift *= 10
            lower, info = torch.linalg.cholesky_ex(core + lift * core.trace() * torch.eye(len(core)).to(core))
        if int(info) != 0:
            raise LinAlgError("the core of the preconditioner is not positive definite")
        common = (chosen.cpu().numpy(), lower.cpu().numpy(), self.dtype)

        def place() -> list[Any]:
            landmarks, blocks = self._send([common])[0], enumerate(self._blocks())
            return [self._submit(_factor, *self._kernel(), b, landmarks, worker=self._home(i)) for i, b in blocks]

        def factors() -> list[Any]:
            return self._once("factors", place)

        def gram() -> Tensor:
            return self._gather([self._submit(_add, [self._submit(_gram, F) for F in factors()])])

        inner = self._persist(gram)
        inner.diagonal().add_(ridge)
        inner = torch.linalg.cholesky(inner)

        def apply(r: Tensor) -> Tensor:
            def step() -> Tensor:
                parts = self._send(self._cut(r))
                pieces = [self._submit(_forward, F, part) for F, part in zip(factors(), parts, strict=True)]
                small = torch.cholesky_solve(self._gather([self._submit(_add, pieces)]), inner).numpy()
                return self._gather([self._submit(_back, F, small) for F in factors()])

            return (r - self._persist(step).to(r)) / ridge

        return apply

    # -- one step on the cluster -------------------------------------------------------------------

    def _product(self, V: Tensor, dtype: torch.dtype) -> Tensor:
        blocks, parts = self._blocks(), self._send(self._cut(V))
        into: list[list[tuple[Any, int]]] = [[] for _ in blocks]
        for number, (i, j) in enumerate(self._pairs):
            both = self._submit(
                _tile, *self._kernel(), blocks[i], blocks[j], parts[i], parts[j], i == j, dtype,
                worker=number * len(self._workers()) // len(self._pairs),
            )  # fmt: skip
            into[i].append((both, 0))
            if i != j:
                into[j].append((both, 1))
        return self._gather(
            [self._submit(_add_sides, [both for both, _ in pairs], [side for _, side in pairs]) for pairs in into]
        )

    def _persist(self, step: Callable[[], Tensor]) -> Tensor:
        """Return what a step computes; hand everything out again when a worker has taken a part with it."""
        return keep_trying(step, lambda: self._placed.clear())

    def _once(self, name: str, place: Callable[[], list[Any]]) -> list[Any]:
        """Return what is on the cluster under this name, placed there if it is not."""
        if name not in self._placed:
            self._placed[name] = place()
        return self._placed[name]

    def _workers(self) -> list[Any]:
        return self._once("workers", lambda: sorted(self._client.nthreads()))

    def _home(self, block: int) -> int:
        """Return the worker of the tile on the diagonal."""
        return self._pairs.index((block, block)) * len(self._workers()) // len(self._pairs)

    def _kernel(self) -> list[Any]:
        return self._once("kernel", lambda: self._send([self.kernel]))

    def _blocks(self) -> list[Any]:
        """Return the blocks of X, each first at one worker; workers whose tiles need it keep a copy."""

        def place() -> list[Any]:
            homes = [[self._workers()[self._home(i)]] for i in range(len(self._edges) - 1)]
            pairs = zip(self._cut(self.X), homes, strict=True)
            return [self._client.scatter([block], workers=home, hash=False)[0] for block, home in pairs]

        return self._once("blocks", place)

    def _cut(self, V: Tensor) -> list[Array]:
        return [V[a:b].cpu().numpy() for a, b in pairwise(self._edges)]

    def _send(self, things: list[Any]) -> list[Any]:
        """Send things to the workers, in turn; who needs one fetches it there."""
        return self._client.scatter(things, hash=False)

    def _submit(self, function: Callable[..., Any], *arguments: Any, worker: int | None = None) -> Any:
        pin = {} if worker is None else {"workers": [self._workers()[worker]], "allow_other_workers": True}
        return self._client.submit(function, *arguments, pure=False, **pin)

    def _gather(self, futures: list[Any]) -> Tensor:
        return torch.from_numpy(np.concatenate(self._client.gather(futures)).astype(np.float64, copy=False))


def keep_trying(step: Callable[[], Found], forget: Callable[[], None] = lambda: None) -> Found:
    """Return what a step on a cluster computes; repeat it when a worker has taken a part with it.

    `forget` is called before a repetition, to forget what was placed on workers.

    Raises:
        RidgeformerError: parts of the step were lost every time.
    """
    from distributed import KilledWorker

    for attempt in range(ATTEMPTS):
        try:
            return step()
        except (CancelledError, KilledWorker, TimeoutError, OSError):
            forget()
            time.sleep(PAUSE * 2**attempt)  # until the scheduler knows who is gone
    raise RidgeformerError(f"the Dask cluster lost parts of a step {ATTEMPTS} times: look at its workers.")


def current_client() -> DaskClient:
    """Return the current Dask client.

    Raises:
        InputError: Dask is not installed, or there is no client.
    """
    try:
        import distributed
    except ImportError:
        raise InputError("Dask is not installed: pip install 'ridgeformer[cluster]'.") from None
    try:
        return distributed.Client.current()
    except ValueError:
        raise InputError(
            "engine 'dask' needs a client: make one with distributed.Client(address) first, or give "
            "engine=DaskTiles(kernel, X, X.dtype, client)."
        ) from None


# -- what the workers run ------------------------------------------------------------------------------


def _tensor(array: Array, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return a copy: what Dask has received is not to be written to, and last bits depend on its alignment."""
    return torch.tensor(array).to(dtype)


def _tile(kernel: Kernel, X: Array, Z: Array, V: Array, W: Array, diagonal: bool, dtype: torch.dtype) -> list[Array]:
    """Return k(X, Z) W and k(Z, X) V, each entry computed once; on the diagonal only the first."""
    left, right, v, w = (_tensor(array, dtype) for array in (X, Z, V, W))
    if diagonal:
        return [symmetric_product(kernel, left, v, dtype).numpy()]
    up, down = (torch.zeros(part.shape, dtype=torch.float64) for part in (v, w))
    for a in range(0, len(left), TILE):
        for b in range(0, len(right), TILE):
            tile = kernel.dense(left[a : a + TILE], right[b : b + TILE])
            up[a : a + TILE] += thin_product(tile, w[b : b + TILE])
            down[b : b + TILE] += transposed_thin_product(tile, v[a : a + TILE])
    return [up.numpy(), down.numpy()]


def _add(parts: list[Array]) -> Array:
    return np.sum(np.stack(parts), axis=0)


def _add_sides(parts: list[list[Array]], sides: list[int]) -> Array:
    return _add([part[side] for part, side in zip(parts, sides, strict=True)])


def _factor(kernel: Kernel, X: Array, landmarks: tuple[Array, Array, torch.dtype]) -> Array:
    """Return the rows of F', k(X, Z) L^-T, for landmarks Z with k(Z, Z) = L L'."""
    Z, lower = _tensor(landmarks[0]), _tensor(landmarks[1])
    found = [
        torch.linalg.solve_triangular(lower.T, kernel.dense(rows, Z), upper=True, left=False).to(landmarks[2])
        for rows in _pieces(X)
    ]
    return torch.cat(found).numpy()


def _gram(F: Array) -> Array:
    return reduce(torch.add, (rows.T @ rows for rows in _pieces(F))).numpy()


def _forward(F: Array, part: Array) -> Array:
    return reduce(torch.add, (rows.T @ own for rows, own in zip(_pieces(F), _pieces(part), strict=True))).numpy()


def _back(F: Array, small: Array) -> Array:
    return torch.cat([rows @ _tensor(small) for rows in _pieces(F)]).numpy()


def _pieces(rows: Array) -> Iterator[Tensor]:
    """Yield a few rows at a time in float64, so that never a whole block is."""
    return (_tensor(rows[start : start + TILE]) for start in range(0, len(rows), TILE))
