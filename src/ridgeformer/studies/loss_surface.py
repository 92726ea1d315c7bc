"""The loss surface around trained weights, in two directions, for both networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch.autograd.functional import vhp

from ridgeformer import datasets
from ridgeformer.core.errors import unknown_name
from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.datasets import Split
from ridgeformer.regime import Architecture, Training, train
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "choose_directions", "curvature", "measure"]

Height: TypeAlias = Callable[[Tensor], Tensor]  # the loss at some weights; twice differentiable almost everywhere
DIRECTIONS = ("random", "hessian")
MODELS = {"relu": "relu", "attention": "mlp-attn"}


def measure(
    data: str, rows: int, width: int, directions: str, loss: str, epochs: int, reach: float, side: int, seed: int
) -> list[dict[str, Any]]:
    """Return one row a model and grid point: the training loss at w + |w| (a u + b v).

    u and v are orthonormal in the space of all first-layer weights, and nothing is scaled neuron by neuron; a and b
    are lengths over that of the trained weights w, so models compare.

    The networks are trained by Adam with the published rate and penalty on all classes of the data, with unit rows.
    `directions` are "random", or "hessian": the two of largest curvature at w. The grid goes from -`reach` to `reach`
    with an odd number of points a side, so that w itself is one.

    Example:
        >>> found = measure("digits", 30, 8, "random", "mse", 5, 0.5, 3, seed=0)
        >>> len(found), found[4]["a"], found[4]["b"]
        (18, 0.0, 0.0)
    """
    problem = Split.for_networks(datasets.load(data), rows=rows, test_rows=10, seed=seed)
    training = Training("adam", loss, epochs=epochs)
    found, grid = [], np.linspace(-reach, reach, side).tolist()
    for model, name in MODELS.items():
        built = Architecture(name).build(problem.X, width, problem.y.shape[1], torch_generator(seed, "network"))
        seen = built.features(problem.X)
        train(built.model, seen, problem.y, training, torch_generator(seed, "batches"))
        weights = built.model.get_parameter("weights").detach().clone()

        def at(moved: Tensor, built: Any = built, seen: Tensor = seen) -> Tensor:
            outputs = torch.func.functional_call(built.model, {"weights": moved}, (seen,))
            return training.objective(outputs, problem.y)

        u, v = choose_directions(at, weights, directions, seed)
        size = float(weights.norm())
        bent = {"bend_a": size**2 * curvature(at, weights, u), "bend_b": size**2 * curvature(at, weights, v)}
        with torch.no_grad():
            found += [
                {"model": model, "a": a, "b": b, "height": float(at(weights + size * (a * u + b * v)))} | bent
                for a in grid
                for b in grid
            ]
    return found


def choose_directions(at: Height, weights: Tensor, name: str, seed: int) -> tuple[Tensor, Tensor]:
    """Return two orthonormal directions shaped like the weights.

    "random" is two Gaussian draws, orthonormalised, with no scaling neuron by neuron; "hessian" is the eigenvectors of
    the two largest eigenvalues of the second derivative at these weights, by Lanczos from a seeded start.

    Example:
        >>> at = lambda w: (torch.tensor([1.0, 9.0, 4.0]).double() * w.square()).sum()
        >>> u, v = choose_directions(at, torch.ones(3).double(), "hessian", seed=0)
        >>> u.abs().argmax().item(), v.abs().argmax().item()
        (1, 2)
    """
    if name not in DIRECTIONS:
        raise unknown_name("directions", name, DIRECTIONS)
    size = weights.numel()
    start = numpy_generator(seed, "directions").standard_normal((size, 2))
    if name == "random":
        pair = np.linalg.qr(start)[0]
    else:

        def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
            direction = torch.from_numpy(vector.reshape(tuple(weights.shape))).to(weights)
            return vhp(at, weights, direction)[1].double().numpy().ravel()

        hessian = LinearOperator((size, size), matvec=product, dtype=np.float64)
        values, vectors = eigsh(hessian, k=2, which="LA", v0=start[:, 0])
        pair = np.asarray(vectors[:, np.argsort(values)[::-1]])
    u, v = (torch.from_numpy(np.ascontiguousarray(column)).to(weights).reshape(weights.shape) for column in pair.T)
    return u, v


def curvature(at: Height, weights: Tensor, direction: Tensor) -> float:
    """Return the second derivative of the loss along a direction, d'Hd.

    Example:
        >>> curvature(lambda w: 3 * w.square().sum(), torch.ones(2).double(), torch.tensor([1.0, 0.0]).double())
        6.0
    """
    return float((direction * vhp(at, weights, direction)[1]).sum())


def _grid(data: list[str], rows: int, width: int, epochs: int, side: int) -> list[dict[str, Any]]:
    return product(
        data=data, rows=[rows], width=[width], directions=["random", "hessian"], loss=["cross_entropy"],
        epochs=[epochs], reach=[1.0], side=[side],
    )  # fmt: skip


STUDY = Study(
    name="loss-surface",
    version=1,
    what="The training loss around trained weights, in two random or two steepest directions.",
    function="ridgeformer.studies.loss_surface:measure",
    presets={
        "quick": Preset(_grid(["digits"], 100, 64, 200, 11), seeds=3),
        "default": Preset(_grid(["digits"], 250, 256, 500, 21), seeds=5),
        "paper": Preset(_grid(["mnist", "cifar10"], 1000, 1024, 500, 31), seeds=5),
    },
    within=("model", "a", "b"),
    seconds=3600.0,
    memory=4 << 30,
)
