"""Width against rank: what a compiled transformer loses that carries fewer columns than there are features."""

from __future__ import annotations

from typing import Any

from ridgeformer import bounds
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.compiler.certificate.certification import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.expected import measure_sketch
from ridgeformer.compiler.compile import compile
from ridgeformer.kernels import DotProduct
from ridgeformer.studies.compiled_problem import KERNELS, problem_with_condition_number
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "measure"]

SUPPORTS, FEATURES, KAPPA = 48, 24, 100.0
STEPS = 80  # enough for conjugate gradients to leave nothing that the sketch's error could be mistaken for


def measure(attention: str, sketch: str, decay: str, width: int, dtype: str, seed: int) -> dict[str, Any]:
    """Return what a model that carries `width` of the features loses, relative to norm(y) or norm(K).

    `kernel` is norm(K - Kh), `tail` the sum of eigenvalues past the width, which is sometimes quoted as its bound (W1,
    false), `floor` what no sketch of this rank can beat (linear attention only: softmax carries logits, W6). `error` is
    the in-sample error of the network and `bound` s/(s + ridge) plus what the steps may leave (W2, W3); `best` is the
    worst case of the best sketch, `expected` its root mean square for random targets (W5), `dimension` d_eff/(m + 1),
    which is above `best` (W4).

    Example:
        >>> row = measure("linear", "pca", "log", 8, "float64", seed=0)
        >>> row["floor"] <= row["kernel"] * (1 + 1e-9), row["error"] <= row["bound"]
        (True, True)
    """
    problem = problem_with_condition_number(attention, SUPPORTS, FEATURES, KAPPA, decay, seed)
    common: dict[str, Any] = {"features": FEATURES, "ridge": problem.ridge, "dtype": dtype}
    kernel, algorithm = KERNELS[attention], ConjugateGradients(steps=STEPS)
    overhead = compile(kernel, algorithm, **common).budget.overhead
    model = compile(kernel, algorithm, width=width + overhead, sketch=sketch, reference=problem.X, seed=seed, **common)
    evidence = gather(model, problem.X, problem.y, problem.X)[0]
    true, lost = evidence.true, measure_sketch(evidence)
    spectrum = (true.eigenvalues - true.ridge).clamp_min(0).numpy()
    size, norm = float(true.y.norm()), float(spectrum.max())
    steps = float(promise_of(evidence).predictions[-1].norm()) / size
    lost_by_model = {
        "kernel": lost.difference / norm,
        "tail": bounds.tail_mass(spectrum, width) / norm,
        "error": float((evidence.predictions - true.f).norm()) / size,
        "bound": float(bounds.in_sample_bound(lost.bound, true.ridge, 1.0)) + lost.rounding + steps,
    }
    best_sketch: dict[str, float | None] = dict.fromkeys(("floor", "best", "expected", "dimension"))
    if isinstance(kernel, DotProduct):  # carries features, whose best sketch is known
        dimension = bounds.pca_relative_error_bound(bounds.effective_dimension(spectrum, true.ridge), width)
        best_sketch = {
            "floor": bounds.sketch_error_floor(spectrum, width) / norm,
            "best": bounds.pca_relative_error(spectrum, width, true.ridge),
            "expected": (bounds.pca_expected_squared_error(spectrum, width, true.ridge) / SUPPORTS) ** 0.5,
            "dimension": min(1.0, dimension),
        }
    return lost_by_model | best_sketch


def _grid(widths: list[int], decays: list[str]) -> list[dict[str, Any]]:
    return product(
        attention=["linear", "softmax"], sketch=["pca", "gaussian", "orthogonal"], decay=decays, width=widths,
        dtype=["float64", "float32"],
    )  # fmt: skip


STUDY = Study(
    name="width-rank",
    version=2,
    what="What compiled transformers lose that carry fewer columns than there are features.",
    function="ridgeformer.studies.width_rank:measure",
    presets={
        "quick": Preset(_grid([2, 6, 12, 18, 22], ["log"]), seeds=3),
        "default": Preset(_grid(list(range(1, FEATURES, 2)), ["log", "linear", "power"]), seeds=5),
        "paper": Preset(_grid(list(range(1, FEATURES)), ["log", "linear", "power"]), seeds=20),
    },
    seconds=600.0,
    memory=4 << 30,
)
