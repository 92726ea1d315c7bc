"""Small problems on the unit sphere, and models that differ in their primitives only."""

import torch

from tests.compiler.tasks import compiled


def problem(seed=0, k=20, q=4, features=4, outputs=None):
    generator = torch.Generator().manual_seed(seed)

    def rows(count):
        drawn = torch.randn(count, features, generator=generator, dtype=torch.float64)
        return drawn / drawn.norm(dim=1, keepdim=True)

    X, Xq = rows(k), rows(q)
    shape = (k,) if outputs is None else (k, outputs)
    return X, torch.randn(shape, generator=generator, dtype=torch.float64), Xq


def build(attention="softmax", primitives="exact", **options):
    """A small model; swiglu with a range narrower than the default, so that tests are quick."""
    if primitives == "swiglu":
        options.setdefault("reciprocal_range", (1e-6, 1e4))
    return compiled(attention, primitives=primitives, **{"features": 4, "ridge": 0.5, "steps": 5, **options})


def difference(one, other):
    return float((one - other).abs().max() / other.abs().max())
