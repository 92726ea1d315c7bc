"""Open a known algorithm in TransformerLens.

A compiled transformer as a TransformerLens model. Left: the coefficient of the first support, read from the residual
stream after every layer along the direction of alpha. It stands still while the network takes reciprocals and steps as
conjugate gradients do. Right: the predictions of the model; with the length of step 1 doubled on the queries, which
adds the answer of step 1; and with its mean heads silenced: without inner products every step has length zero. Circles
are the values of conjugate gradients for each.
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
    grid = torch.linspace(-2.3, 2.3, 25 if quick else 103, dtype=torch.float64)
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

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    left.step(layers, alpha, where="post", label="read from the stream along alpha")
    records = [record for record in io.records if record.name == "alpha"]
    values = model.trace(X, y, Xq).alpha[:, 0, 0]
    told = {"linestyle": "none", "marker": "o", "color": "black", "markersize": 5, "markerfacecolor": "none"}
    for record in records:
        value, label = float(values[record.step - 1]) / record.scale, "conjugate gradients, after each step"
        left.plot(record.state - 1, value, **told, label=label if record.step == 1 else None)
        left.annotate(f"step {record.step}", (record.state - 1, value), (4, 5), textcoords="offset points", fontsize=8)
    left.set(xlabel="layer", ylabel="coefficient of support 1", title="What the residual stream holds")
    left.set_xlim(right=1.12 * len(layers))
    left.legend(loc="lower left", fontsize=8)

    right.plot(angle, y, "x", color="gray", markersize=5, label="supports: the data")
    for name, found in (("the model", logits), ("step 1 twice as long", patched), ("mean heads silenced", silenced)):
        right.plot(grid, io.predictions(found)[0][:, 0], label=name)
    expected = model(X, y, Xq)
    sparse = slice(None, None, 6)
    for number, values in enumerate((expected, expected + answer[:, 0], torch.zeros_like(expected))):
        label = None if number else "what conjugate gradients say"
        right.plot(grid[sparse], values[sparse], **told, label=label)
    right.set(xlabel="angle of the row", ylabel="prediction", title="What the queries answer")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=3, fontsize=8)
    return figure


if __name__ == "__main__":
    draw().savefig("open_in_lens.svg")
