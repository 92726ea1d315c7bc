"""The certificate of an export: what is proved of the stock class itself, from its own hidden states."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler import Certificate
from ridgeformer.compiler.certificate.certificate import TaskCheck
from ridgeformer.compiler.certificate.certification import conclude
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.network import check_ranges
from ridgeformer.compiler.certificate.written import certify_program
from ridgeformer.compiler.compile import assemble
from ridgeformer.core.checks import ArrayLike, positive
from ridgeformer.core.seeds import torch_generator
from ridgeformer.export.hf import Export, to_hf, to_transformer_lens
from ridgeformer.export.interface import Interface

__all__ = ["certify_export", "leakage"]


def certify_export(
    exported: Export, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, *, tolerance: float | None = None
) -> Certificate:
    """Run an exported model and prove how near its answers are to exact ridge regression.

    Answers, coefficients and steps are read from the hidden states of the stock class; our own forward pass has no part
    in it. The checks are those of `ridgeformer.certify`, with leakage measured through the class.
    """
    if tolerance is not None:
        tolerance = positive(tolerance, "tolerance", "no run is exact to rounding")
    io = exported.io
    model = assemble(io.spec, io.carried, io.unsketched)
    if io.spec.written:
        about = [_check_export(exported), _check_leakage(exported, X, y, Xq)]

        def records(*task: Tensor) -> dict[str, Tensor]:
            return io.trace(exported.hidden_states(*task)).values

        return certify_program(model, X, y, Xq, tolerance, run=records, about=about)

    def run(X: Tensor, y: Tensor, Xq: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        states = exported.hidden_states(X, y, Xq)
        answer, trace = torch.stack(io.predictions(states[-1])), io.trace(states).values
        lone = X.ndim == 2
        return (answer[0] if lone else answer), {name: value[:, 0] if lone else value for name, value in trace.items()}

    evidence = gather(model, X, y, Xq, run)
    whole = [_check_export(exported), _check_leakage(exported, X, y, Xq)]
    if io.spec.primitives != "exact":
        whole.append(check_ranges(model, X, y, Xq))
    return conclude(model, evidence, whole, 0.01 if tolerance is None else tolerance)


def _check_export(exported: Export) -> TaskCheck:
    """Return the finding that every weight is, bit by bit, the one that the specification exports to."""
    io = exported.io
    model = assemble(io.spec, io.carried, io.unsketched)
    if io.target == "lens":
        again = to_transformer_lens(model, max_tokens=io.max_tokens, rotate=io.rotate)
    else:
        again = to_hf(model, io.target, max_tokens=io.max_tokens, rotate=io.rotate)
    found, expected = exported.model.state_dict(), again.model.state_dict()
    changed = [name for name in expected if name not in found or not torch.equal(found[name], expected[name])]
    changed += [name for name in found if name not in expected]
    changed += [name for name in ("embed", "numbers", "directions", "records") if _differs(io, again.io, name)]
    what = (
        f"all {len(expected):,} tensors of the stock class and its interface are, bit by bit, those that the "
        "specification exports to"
    )
    if changed:
        what = (
            f"{len(changed):,} tensors of the stock class or its interface are NOT those that the specification "
            f"exports to: {changed[0]}"
        )
    measured = np.asarray(float(len(changed)))
    return TaskCheck("weights", what, "none", measured, np.zeros_like(measured), kind="observed")


def _differs(found: Interface, expected: Interface, part: str) -> bool:
    """Return whether two interfaces embed or read otherwise."""
    one, other = getattr(found, part), getattr(expected, part)
    if part == "records":
        return bool(one != other)
    pairs = [(one.get(name), other.get(name)) for name in {*one, *other}]
    if part == "directions":
        pairs = [(a and getattr(a, side), b and getattr(b, side)) for a, b in pairs for side in ("read", "write")]
    return not all(a is not None and b is not None and torch.equal(a, b) for a, b in pairs)


def leakage(exported: Export, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> float:
    """Return the largest derivative with respect to a query of what other tokens hold after any layer of the class.

    One backward pass from a random combination of all their states: a dependence would have to cancel to be missed.
    """
    io = exported.io
    given = io.inputs(X, y, Xq)
    embeds = given.pop("inputs_embeds").requires_grad_(True)
    queries = io.channel("role query", embeds.detach())[..., 0] > 0.5
    kept = list[Tensor]()
    hooks = [
        layer.register_forward_hook(
            lambda _, __, output: kept.append(output[0] if isinstance(output, tuple) else output)
        )
        for layer in _layers(exported)
    ]
    try:
        with torch.enable_grad():
            if io.target == "lens":
                exported.model(embeds, **given)
            else:
                exported.model(inputs_embeds=embeds, **given)
            generator = torch_generator(0, "leakage of an export")
            weights = torch.randn(embeds.shape, generator=generator, dtype=torch.float64).to(embeds.dtype)
            others = [(state * weights)[~queries].sum() for state in kept]
            (found,) = torch.autograd.grad(torch.stack(others).sum(), embeds)
    finally:
        for hook in hooks:
            hook.remove()
    return float(found[queries].abs().max())


def _layers(exported: Export) -> list[torch.nn.Module]:
    """Return the layers of the stock class."""
    model = exported.model
    paths = {
        "t5": "encoder.block",
        "llama": "layers",
        "bert": "encoder.layer",
        "gpt2": "h",
        "lens": "original_model.layers",
    }
    path = paths.get(exported.io.target, "encoder.albert_layer_groups")
    for name in path.split("."):
        model = getattr(model, name)
    return list(model.children())


def _check_leakage(exported: Export, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> TaskCheck:
    found = np.asarray(leakage(exported, X, y, Xq))
    what = "no other token depends on any query, after any layer of the stock class"
    condition = "the derivative through the class of a random combination of all their states is exactly 0.0"
    return TaskCheck("leakage", what, condition, found, np.zeros_like(found), kind="observed")
