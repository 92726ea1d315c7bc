"""Compiled models, their tasks and their exports, each built once."""

from functools import cache

import torch

import ridgeformer as rf
from ridgeformer.export import to_hf, to_transformer_lens

COUNTS = (12, 3)


def task(seed=0, k=12, q=3, features=4, outputs=None, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(k + q, features, generator=generator, dtype=torch.float64)
    rows = rows / rows.norm(dim=1, keepdim=True)
    y = torch.randn((k,) if outputs is None else (k, outputs), generator=generator, dtype=torch.float64)
    return rows[:k].to(dtype), y.to(dtype), rows[k:].to(dtype)


@cache
def compiled(route, steps, dtype="float64", outputs=1, kernel="exponential", **options):
    kernel = {"exponential": rf.Exponential, "gaussian": rf.Gaussian}[kernel](temperature=0.5)
    common = {"features": 4, "ridge": 0.1, "dtype": dtype, "outputs": outputs, **options}
    if route == "vanilla":
        return rf.compile(kernel, rf.Richardson(steps=steps), attention="vanilla", **common)
    return rf.compile(kernel, rf.ConjugateGradients(steps=steps), primitives="swiglu", **common)


@cache
def exported(target, route, steps, dtype="float64", rotate=None, max_tokens=256, **options):
    model = compiled(route, steps, dtype, **options)
    if target == "lens":
        return to_transformer_lens(model, max_tokens=max_tokens, rotate=rotate)
    return to_hf(model, target, max_tokens=max_tokens, rotate=rotate)


def difference(export, model, X, y, Xq):
    [found] = export(X, y, Xq)
    expected = model(X, y, Xq)
    return float((found - expected.reshape(found.shape)).abs().max())
