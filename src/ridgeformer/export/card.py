"""The model card of an export: what it computes, what is proved of it, what was switched off, and how to run it."""

from __future__ import annotations

from importlib.metadata import version

import torch

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.export.hf import Export
from ridgeformer.language.roles import ANCHOR

__all__ = ["SNIPPET", "model_card"]

SNIPPET = """
import json
import sys
import torch
from safetensors.torch import load_file
{imports}
here = sys.argv[1] if len(sys.argv) > 1 else "."
facts, io = json.load(open(here + "/ridgeformer.json")), load_file(here + "/io.safetensors")
dtype = torch.{dtype}
{load}

def tokens(role, X, y):  # features, targets, perhaps half the squared length, and 1, through the role's embedding
    half = [(X @ io["carried"].to(dtype)).square().sum(1, keepdim=True) / 2] if facts["takes_squares"] else []
    found = torch.cat([X, y, *half, torch.ones(len(X), 1, dtype=dtype)], 1) @ io["embed." + role]
    return found + io["numbers." + role][: len(X)] if "numbers." + role in io else found

rows = torch.randn(15, {features}, generator=torch.Generator().manual_seed(0), dtype=dtype)  # your rows
X, Xq = torch.nn.functional.normalize(rows).split([12, 3])
y = X[:, :1].expand(12, {outputs})  # your targets
none = torch.zeros(1, {features}, dtype=dtype), torch.zeros(1, {outputs}, dtype=dtype)
given = {{"support": (X, y), "anchor": (X, y), "query": (Xq, torch.zeros(3, {outputs}, dtype=dtype))}}
embeds = torch.cat([tokens(role, *given.get(role, none)) for role in facts["roles"]])[None]
with torch.no_grad():
{run}
"""
"""What runs an export where ridgeformer is not installed."""

LOAD = 'model = {kind}.from_pretrained(here, dtype=dtype, attn_implementation="eager"{options})'
RUN = """\
    hidden = model(inputs_embeds=embeds{masks}).last_hidden_state[0]
queries = (hidden @ io["read.role query"].to(dtype))[:, 0] > 0.5
print((facts["answer"]["scale"] * hidden @ io["read." + facts["answer"]["channel"]].to(dtype))[queries].tolist())"""

LENS_IMPORTS = """\
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge
"""
LENS_LOAD = """\
config = TransformerBridgeConfig(**json.load(open(here + "/config.json")))
model = TransformerBridge.boot_native(config, dtype=dtype)
model.load_state_dict(load_file(here + "/model.safetensors"))"""
LENS_RUN = """\
    logits = model(embeds)[0]
print(logits[logits[:, -1] > 0.5][:, :-1].tolist())"""

MASKS = """,
        attention_mask=torch.zeros(1, 1, *[embeds.shape[1]] * 2, dtype=dtype),
        position_ids=torch.zeros(1, embeds.shape[1], dtype=torch.long)"""


CARD = """\
---
library_name: {library}
tags: [ridgeformer, known-algorithm, interpretability]
---
# {steps} steps of {family} in {kind}

The weights of this unmodified `{kind}` were compiled, not trained. Its forward pass {does}, by {steps} steps of
{family}. It has {layers} layers and {parameters:,} weights in {dtype}, and takes {features}
features and {outputs} output(s) a row, up to {max_tokens} tokens: {sequence}.

## Accuracy
{accuracy}

## What was switched off
{norms} Masks between token roles are in the weights: a logit that may not be read is lowered by a constant whose
exponential is exactly 0. {hidden}

## Run it
ridgeformer is not needed; `{library}` {version} was tested.

```python
{snippet}
```

## Look inside
`ridgeformer.json` names every channel (`directions`, with the hidden states that hold it), every sublayer (`layers`)
and the circuit: each head and gated layer with what it reads and writes (`circuit`). `io.safetensors` has the direction
of every channel: `hidden @ io["read.alpha"]` are the coefficients.
"""

RMS = "RMSNorm with epsilon 2^126 and gain 2^63 is the identity, bit for bit"
LAYER = (
    "LayerNorm has epsilon 2^126 and gain 2^63, and every column has a negated twin, so that its mean is 0 up to "
    "rounding. Embeddings of positions and types are zero, and so are the feed-forward layers."
)
CAUSAL = "A mask of zeros makes the attention bidirectional."
NORMS = {
    "lens": "The native model of TransformerLens has no norm and no causal mask; embeddings of positions are zero.",
    "t5": f"{RMS}; relative position biases are zero.",
    "llama": f"{RMS}; every position is 0, so that rotary embeddings do nothing. {CAUSAL}",
    "bert": LAYER,
    "albert": LAYER,
    "gpt2": f"{LAYER} {CAUSAL}",
}


def model_card(exported: Export) -> str:
    """Return the card as Markdown."""
    io, kind = exported.io, type(exported.model).__name__
    spec, budget = io.spec, sum(parameter.numel() for parameter in exported.model.parameters())
    lens, library = io.target == "lens", "transformer-lens" if io.target == "lens" else "transformers"
    options = ", add_pooling_layer=False" if io.target in ("bert", "albert") else ""
    snippet = SNIPPET.format(
        dtype=spec.dtype, features=spec.features, outputs=spec.outputs,
        imports=LENS_IMPORTS if lens else f"from transformers import {kind}\n",
        load=LENS_LOAD if lens else LOAD.format(kind=kind, options=options),
        run=LENS_RUN if lens else RUN.format(masks=MASKS if io.causal else ""),
    )  # fmt: skip
    sequence = (
        "supports, their anchors, a null token, queries" if ANCHOR in io.roles else "supports, aggregator, queries"
    )
    hidden = "Channels stand in columns of their own."
    if io.rotate is not None:
        hidden = f"A random rotation (seed {io.rotate}) hides the channels; `io.safetensors` has their directions."
    return CARD.format(
        steps=spec.steps, family=spec.algorithm.family, kind=kind, does=_does(exported), layers=_depth(exported),
        parameters=budget, dtype=spec.dtype, features=spec.features, outputs=spec.outputs, max_tokens=io.max_tokens,
        sequence=sequence, accuracy=_accuracy(exported), norms=NORMS[io.target], hidden=hidden,
        library=library, version=version(library), snippet=snippet.strip(),
    )  # fmt: skip


def _does(exported: Export) -> str:
    """Return what the forward pass does, in words."""
    spec = exported.io.spec
    if spec.written:
        options = {name: value for name, value in spec.as_dict()["algorithm"].items() if name not in ("name", "steps")}
        given = ", ".join(f"{name} {value:g}" for name, value in options.items() if value is not None) or "no options"
        return (
            f"runs the program `{spec.algorithm.name}` ({given}) on its support tokens and answers at its query tokens"
        )
    temperature = getattr(spec.kernel, "temperature", 1.0)
    return (
        f"solves kernel ridge regression ({spec.kernel.name} kernel, temperature {temperature:g}, ridge "
        f"{spec.ridge:g}) on the support tokens it is given and predicts the query tokens"
    )


def _depth(exported: Export) -> int:
    return int(exported.model.cfg.n_layers if exported.io.target == "lens" else exported.model.config.num_hidden_layers)


def _accuracy(exported: Export) -> str:
    """Return what is proved on a probe, by the certificate from the hidden states of the class."""
    spec = exported.io.spec
    generator = torch_generator(0, "probe of a model card")
    rows = torch.randn(15, spec.features, generator=generator, dtype=torch.float64)
    rows = rows / rows.norm(dim=1, keepdim=True)
    y = torch.randn(12, spec.outputs, generator=generator, dtype=torch.float64)
    try:
        certificate = exported.certify(rows[:12], y, rows[12:])
    except RidgeformerError as error:
        return f"Nothing was proved on random unit rows ({str(error).rstrip('.')})."
    if spec.written:
        return (
            "On 12 random unit rows and 3 queries the records of this class are within "
            f"{certificate.within:.1e} of those of the program's interpreter, relative to the largest, at every step."
        )
    return (
        "On 12 random unit rows and 3 queries the answers of this class are proved to be within a relative distance of "
        f"{certificate.within:.1e} of exact kernel ridge regression, from its own hidden states; "
        "`ridgeformer certify DIR DATA` does the same on your data."
    )
