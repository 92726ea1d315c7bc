"""Open a known algorithm in TransformerLens.

A compiled transformer as a TransformerLens model. Left: the coefficient of the first support, read from the residual
stream after every layer along the direction of alpha. It stands still while the network takes reciprocals and steps as
conjugate gradients do. Right: the predictions of the model, those of the algorithm, those with the length of step 1
doubled on the queries, which adds the answer of step 1, and those of the model with its mean heads silenced: without
inner products every step has length zero.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import ridgeformer as rf


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer points and steps."""
    supports, steps = (5, 2) if quick else (16, 5)
    options = {"features": 2, "ridge": 5.0, "primitives": "swiglu", "reciprocal_range": (1e-6, 1e2)}
    model = rf.compile(rf.Exponential(temperature=0.25), rf.ConjugateGradients(steps=steps), **options)
    angle = torch.linspace(-2, 2, supports, dtype=torch.float64)
    grid = torch.linspace(-2.3, 2.3, 25, dtype=torch.float64)
    X, Xq = (torch.stack([values.cos(), values.sin()], 1) for values in (angle, grid))
    y = torch.sin(3 * angle)

    exported = rf.export.to_transformer_lens(model)
    io, embeds = exported.io, exported.io.inputs(X, y, Xq)["inputs_embeds"]
    logits, cache = exported.model.run_with_cache(embeds)
    layers = range(exported.model.cfg.n_layers)
    alpha = torch.stack([io.channel("alpha", cache[f"blocks.{layer}.hook_resid_post"])[0, 0, 0] for layer in layers])

    heads = [node for node in io.circuit.nodes if node.role.endswith(": mean")]

    def silence(value: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.zeros_like(value)  # the mean head is the only one of its layer

    hooks = [(f"blocks.{node.layer}.attn.hook_z", silence) for node in heads]
    silenced = exported.model.run_with_hooks(embeds, fwd_hooks=hooks)

    first = {record.name: record for record in reversed(io.records) if record.step == 1}
    gamma, queries = io.directions[first["gamma"].channel], io.channel("role query", embeds)

    def longer(stream: torch.Tensor, hook: object) -> torch.Tensor:
        return stream + queries * (stream @ gamma.read) @ gamma.write

    patch = (f"blocks.{first['gamma'].state - 1}.hook_resid_post", longer)
    patched = exported.model.run_with_hooks(embeds, fwd_hooks=[patch])
    [answer] = io.read(first["f"], cache[f"blocks.{first['f'].state - 1}.hook_resid_post"])

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    left.plot(layers, alpha, label="along the direction of alpha")
    scale = next(record.scale for record in io.records if record.name == "alpha")
    for record in (record for record in io.records if record.name == "alpha"):
        left.plot(record.state - 1, model.trace(X, y, Xq).alpha[record.step - 1, 0, 0] / scale, "ko", markersize=4)
    left.set(xlabel="layer", ylabel="coefficient of support 1", title="the residual stream (dots: the algorithm)")
    right.plot(angle, y, "ko", markersize=3, label="supports")
    right.plot(grid, io.predictions(logits)[0][:, 0], label="TransformerLens")
    right.plot(grid, model(X, y, Xq), "k:", label="conjugate gradients")
    right.plot(grid, io.predictions(patched)[0][:, 0], label="step 1 twice as long on queries")
    right.plot(
        grid, model(X, y, Xq) + answer[:, 0], "k--", linewidth=0.8, label="conjugate gradients + their first answer"
    )
    right.plot(grid, io.predictions(silenced)[0][:, 0], label="mean heads silenced")
    right.set(xlabel="angle of the row", ylabel="prediction", title="the query tokens' answer")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


if __name__ == "__main__":
    draw().savefig("open_in_lens.svg")
