"""A fit on centres of rows that live on the workers of a Dask cluster and are never collected.

One step is one map-reduce: m r numbers go to every worker, as many come back, summed there in a fixed order.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.algorithms import Centres
from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import Kernel
from ridgeformer.solving.centre_model import CentreModel
from ridgeformer.solving.centre_products import CentreProducts
from ridgeformer.solving.distance import describe_distance
from ridgeformer.solving.engines.dask_tiles import DaskClient, current_client, keep_trying
from ridgeformer.solving.halved_centres import HalvedCentres, independent
from ridgeformer.solving.normal_equations import ROUGHLY, Descent, gram_rows
from ridgeformer.solving.plan import LOCAL_ROWS
from ridgeformer.solving.preconditioners.pivoted_cholesky import default_rank
from ridgeformer.solving.run import Status

__all__ = ["solve_on_cluster"]

FAN = 16
"""Parts that are added up at once."""

Array = NDArray[Any]


def solve_on_cluster(
    kernel: Kernel,
    X: object,
    y: object,
    ridge: float,
    *,
    algorithm: Centres | None = None,
    seed: int = 0,
    client: DaskClient | None = None,
    callback: Callable[[int, Tensor], bool | None] | None = None,
) -> CentreModel:
    """Fit coefficients on centres to rows in the partitions of a Dask array or dataframe.

    The client sees the centres, a sample of rows for the preconditioner and 2,000 rows for the estimates, no others. A
    partition that a dead worker takes with it is computed again from its graph, such as read from its Parquet file;
    the answer is the same to the last bit on processors of one kind, because sums are taken in the order of partitions.

    Args:
        kernel: any kernel that the workers can import.
        X: a Dask array (rows, features) in chunks of rows, or a Dask dataframe of numbers.
        y: the targets, a Dask array with the same chunks of rows, or the name of their column in the dataframe.
        ridge: lambda > 0.
        algorithm: how many centres, `Centres(count=2000)`; not "auto".
        seed: of the centres and samples.
        client: a `distributed.Client`; None takes the current one.
        callback: called with (step, relative residuals) after every step; True stops.

    Raises:
        InputError: no client, partitions that do not fit together, values that are missing, or none at all.
    """
    ridge, seed = positive(ridge, "ridge", "without it the system may be singular"), whole(seed, "seed", 0)
    algorithm = algorithm or Centres()
    if isinstance(algorithm.count, str):
        raise InputError(f"algorithm is {algorithm!r}; Centres(count=m) with a number was expected on a cluster.")
    client = current_client() if client is None else client
    rows = _Partitions(client, kernel, _parts(client, X, y))
    n = rows.n
    if algorithm.count is not None and algorithm.count > n:
        raise InputError(f"count is {algorithm.count:,} centres and there are {n:,} rows: take at most as many.")
    count = min(algorithm.count or default_rank(n), n)
    wanted = min(n, gram_rows(n, count) + LOCAL_ROWS)
    drawn, targets = rows.take(numpy_generator(seed, "centres").choice(n, wanted, replace=False))
    chosen = independent(kernel, drawn[:count].to(torch.float64))  # whatever the precision of the rows
    Z, S, judged_by = drawn[chosen].to(torch.float64), drawn[-LOCAL_ROWS:].to(torch.float64), targets[-LOCAL_ROWS:]
    first, sampled = (chosen < count // 2).nonzero()[:, 0], drawn[: gram_rows(n, count)]
    halved = HalvedCentres(kernel, ridge, n, Z, first, sampled, _OnWorkers(rows, Z), lambda b: b)
    status = Status.SUBSET

    def note(at: Descent) -> bool:
        nonlocal status
        if at.r is not None and callback is not None and callback(len(at.relative), at.relative[-1]):
            status = Status.STOPPED
        return status is Status.STOPPED

    at = halved.second_half(halved.begin(None), lambda _: False)
    assert at.half is not None
    halved.half = at.half
    halved.equations.solve(at, note)
    if status is Status.SUBSET and at.reached > ROUGHLY:
        status = Status.BREAKDOWN
    left_out = halved.left_out(at.b, S, judged_by).square().mean(0).sqrt()
    size = judged_by.square().mean(0).sqrt()
    advice = describe_distance(len(Z), n, halved.distance(at.b, S), size, from_above=False)
    steps = len(at.relative)
    return CentreModel(kernel, Z, at.b, ridge, n, status, advice, steps, left_out, rows.vector)


def _parts(client: Any, X: Any, y: Any) -> tuple[list[Any], bool]:
    """Return one future of (rows, targets) a partition, and whether the targets are a vector."""
    if hasattr(X, "columns") and hasattr(X, "to_delayed"):
        if not isinstance(y, str) or y not in X.columns:
            raise InputError(f"y is {y!r}; the name of a column of the dataframe was expected.")
        return [client.submit(_from_frame, part, y, pure=False) for part in client.compute(X.to_delayed())], True
    if not (hasattr(X, "chunks") and hasattr(y, "chunks")):
        raise InputError(
            f"X is {type(X).__name__} and y {type(y).__name__}; two Dask arrays, or a Dask dataframe and the name of a "
            "column, were expected: rows of this machine are for `solve`."
        )
    if X.ndim != 2 or y.ndim not in (1, 2) or X.chunks[0] != y.chunks[0]:
        raise ShapeError(
            f"X has chunks {X.chunks} and y {y.chunks}; the same chunks of rows were expected: y = y.rechunk(...)."
        )
    X, y = X.rechunk({1: -1}), y if y.ndim == 1 else y.rechunk({1: -1})
    pairs = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
    both = [(client.compute(rows), client.compute(targets)) for rows, targets in pairs]
    return [client.submit(_from_arrays, *pair, pure=False) for pair in both], y.ndim == 1


class _Partitions:
    """Rows and targets in the memory of the workers, and sums over them."""

    def __init__(self, client: Any, kernel: Kernel, parts: tuple[list[Any], bool]) -> None:
        self.client, self.kernel, (self.parts, self.vector) = client, kernel, parts
        sizes = client.gather([client.submit(_size, part, pure=False) for part in self.parts])
        self.edges = np.cumsum([0, *sizes])
        self.n = int(self.edges[-1])
        if self.n == 0:
            raise InputError("the partitions have no rows: at least one is needed.")

    def take(self, numbers: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return rows and targets of these numbers, in their order."""
        home = np.searchsorted(self.edges, numbers, side="right") - 1
        asked = [(part, np.flatnonzero(home == part)) for part in np.unique(home)]

        def step() -> list[Any]:
            return self.client.gather(
                [
                    self.client.submit(_take, self.parts[part], numbers[some] - self.edges[part], pure=False)
                    for part, some in asked
                ]
            )

        found = keep_trying(step)
        order = torch.from_numpy(np.argsort(np.concatenate([some for _, some in asked])))
        X, y = (torch.from_numpy(np.concatenate([one[place] for one in found])) for place in (0, 1))
        return X[order], y[order]

    def total(self, what: str, Z: Tensor, *arrays: Tensor, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        """Return the sums over all partitions of what `_work` returns, added in the order of partitions."""
        given = [Z.numpy(), *(array.contiguous().numpy() for array in arrays)]

        def step() -> list[Any]:
            sent = self.client.scatter((self.kernel, given), hash=False, broadcast=True)
            level = [self.client.submit(_work, what, part, sent, dtype, os.getpid(), pure=False) for part in self.parts]
            while len(level) > 1:
                groups = [level[start : start + FAN] for start in range(0, len(level), FAN)]
                level = [self.client.submit(_add, group, pure=False) for group in groups]
            return self.client.gather(level)[0]

        return [torch.from_numpy(np.array(one)) for one in keep_trying(step)]


class _OnWorkers:
    """Passes over the partitions."""

    def __init__(self, rows: _Partitions, Z: Float[Tensor, "m d"]) -> None:
        self.rows, self.Z = rows, Z

    def normal(self, P: Tensor, dtype: torch.dtype) -> Tensor:
        return self.rows.total("normal", self.Z, P, dtype=dtype)[0]

    def pull(self) -> Tensor:
        return self.rows.total("pull", self.Z)[0]

    def residual(self, B: Tensor) -> Tensor:
        return self.rows.total("residual", self.Z, B)[0]

    def judged(self, B: Tensor, S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pull, squares, change = self.rows.total("judged", self.Z, B, S)
        return pull, squares, change

    def others(self, Z: Tensor) -> _OnWorkers:
        return _OnWorkers(self.rows, Z)


# -- what the workers run ------------------------------------------------------------------------------


def _from_frame(frame: Any, target: str) -> tuple[Array, Array]:
    try:
        X, y = frame.drop(columns=target).to_numpy(np.float64), frame[target].to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"a partition has a column that is not numbers ({error}): code or drop it first.") from None
    return _from_arrays(X, y)


def _from_arrays(X: Array, y: Array) -> tuple[Array, Array]:
    kind = np.float32 if X.dtype == np.float32 else np.float64
    rows = np.array(X, dtype=kind, order="C"), np.array(y, dtype=np.float64, order="C").reshape(len(y), -1)
    if not all(np.isfinite(part).all() for part in rows):
        raise InputError("a partition has values that are missing or infinite: drop those rows, or fill them in first.")
    return rows


def _size(part: tuple[Array, Array]) -> int:
    return len(part[0])


def _take(part: tuple[Array, Array], numbers: NDArray[np.int64]) -> tuple[Array, Array]:
    return part[0][numbers], part[1][numbers]


def _work(
    what: str, part: tuple[Array, Array], sent: tuple[Kernel, list[Array]], dtype: torch.dtype, owner: int
) -> list[Array]:
    """Return what one partition adds to a sum."""
    if os.getpid() != owner:  # a process of its own: as many threads as the worker has, not as there are cores
        from distributed import get_worker

        torch.set_num_threads(max(1, get_worker().state.nthreads))
    X, y = (torch.tensor(one) for one in part)
    Z, *arrays = (torch.tensor(one) for one in sent[1])
    kernel, products = sent[0], CentreProducts(sent[0], X, Z)
    if what == "normal":
        return [products.normal(arrays[0], dtype).numpy()]
    if what == "pull":
        return [products.pull(y, torch.float32).numpy()]
    left, pull = products.residual(arrays[0], y)
    if what == "residual":
        return [pull.numpy()]
    return [one.numpy() for one in CentreProducts(kernel, X, arrays[1]).judged(left)]


def _add(parts: list[list[Array]]) -> list[Array]:
    return [np.sum(np.stack(one), axis=0) for one in zip(*parts, strict=True)]
