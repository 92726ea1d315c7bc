"""Random tasks that every certificate test draws from."""

import torch

from ridgeformer.core.seeds import torch_generator
from tests.compiler.tasks import compiled

FEATURES = 5


def draw(supports=24, queries=4, outputs=1, tasks=None, features=FEATURES, seed=0, size=0.5):
    """Return (X, y, Xq); with `tasks`, all have a leading axis."""
    generator = torch_generator(seed, "certificate tests")
    lead = () if tasks is None else (tasks,)

    def normal(*shape):
        return torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)

    return size * normal(supports, features), normal(supports, outputs), size * normal(queries, features)


def ends(X, attention, ridge):
    """Return the ends of the spectrum of K + ridge I."""
    logits = X @ X.T
    values = torch.linalg.eigvalsh(logits if attention == "linear" else logits.exp())
    return ridge + max(0.0, float(values[0])), ridge + float(values[-1])


def build(attention, algorithm, X, **options):
    """Return a model for tasks like `draw`'s, with a ridge the algorithm converges for."""
    ridge = options.pop("ridge", 500.0 if algorithm == "neumann" else 0.5)
    if algorithm in ("chebyshev", "heavy_ball", "nesterov"):
        options.setdefault("spectrum", ends(X.reshape(-1, X.shape[-1]), attention, ridge))
    options = {"features": X.shape[-1], "steps": 7, **options}
    return compiled(attention, algorithm=algorithm, ridge=ridge, **options)


def wrong(certificate):
    """Return the checks that fail beside the accuracy, which a few steps cannot reach."""
    return [check.name for check in certificate.failed if check.name != "accuracy"]
