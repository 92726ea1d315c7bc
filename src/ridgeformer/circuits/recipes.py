"""The family of known circuits: recipes from one seed, and the exported model that a recipe makes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from math import exp
from typing import Any

import torch
from torch import Tensor

from ridgeformer import algorithms as available
from ridgeformer.circuits.distractors import distract
from ridgeformer.circuits.truth import Truth, derive
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile as compile_model
from ridgeformer.compiler.layout import arrange
from ridgeformer.compiler.lowering import lower as lower_program
from ridgeformer.compiler.specification import write_program
from ridgeformer.core.checks import whole
from ridgeformer.core.seeds import spawn, torch_generator
from ridgeformer.export import Export, to_transformer_lens
from ridgeformer.export.lowering import lower
from ridgeformer.kernels import Exponential, Gaussian, Kernel

__all__ = ["QUERIES", "SUPPORTS", "KnownCircuit", "Recipe", "family", "make"]

TEMPERATURE, RIDGE = 1.0, 0.5
SUPPORTS, QUERIES, MAX_TOKENS = 8, 3, 32
DECOYS = 2
"""Decoy heads beside every attention sublayer of a distracted model."""

Task = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Recipe:
    """What a known circuit is made from.

    Attributes:
        kernel: "exponential" or "gaussian".
        algorithm: "vanilla" (attention alone), "richardson", "chebyshev", "nesterov" or "cg".
        steps: Of the algorithm; the depth follows.
        features: Of a row.
        carried: Columns that the features are sketched to; `features` without a sketch.
        idle: Columns of the stream that hold nothing.
        decoys: Decoy heads beside every attention sublayer; with them come dead channels and decoy layers.
        rotate: Seed of the rotation of the stream; None without one.
        seed: Of the sketch and the decoys.
    """

    kernel: str
    algorithm: str
    steps: int
    features: int
    carried: int
    idle: int
    decoys: int
    rotate: int | None
    seed: int

    @property
    def hidden(self) -> bool:
        """Whether it belongs to the rotated, distracted half."""
        return self.rotate is not None and self.decoys > 0

    @property
    def name(self) -> str:
        """Such as "gaussian-vanilla-4-sketched-hidden"."""
        marks = {"sketched": self.carried < self.features, "padded": self.idle > 0, "hidden": self.hidden}
        return "-".join([self.kernel, self.algorithm, str(self.steps), *(mark for mark, on in marks.items() if on)])


@dataclass(frozen=True, eq=False)
class KnownCircuit:
    """An exported model with the truth about it.

    Attributes:
        recipe: What it was made from.
        export: The TransformerLens model and its interface.
        truth: Which parts and edges carry data to the prediction.
    """

    recipe: Recipe
    export: Export
    truth: Truth

    def task(self, seed: int) -> Task:
        """Return rows between half a unit and a unit long, and normal targets: 8 supports, their targets, 3 queries.

        Rows of one length would make the squared length, which Gaussian kernels compute, the same on all data.
        """
        generator = torch_generator(seed, "tasks of a known circuit")
        rows = torch.randn(SUPPORTS + QUERIES, self.recipe.features, generator=generator, dtype=torch.float64)
        length = 0.5 + 0.5 * torch.rand(len(rows), 1, generator=generator, dtype=torch.float64)
        rows = length * rows / rows.norm(dim=1, keepdim=True)
        y = torch.randn(SUPPORTS, generator=generator, dtype=torch.float64)
        return rows[:SUPPORTS], y, rows[SUPPORTS:]

    def embeds(self, *seeds: int) -> Tensor:
        """Return what the model is called with for the tasks of these seeds, (tasks, tokens, d_model)."""
        return torch.cat([self.export.io.inputs(*self.task(seed))["inputs_embeds"] for seed in seeds])

    @cached_property
    def tokens(self) -> dict[str, Tensor]:
        """Role to a boolean mask over the tokens of a task."""
        io, first = self.export.io, self.embeds(0)[0]
        return {role.value: io.channel(f"role {role.value}", first)[:, 0] > 0.5 for role in io.roles}

    def facts(self) -> dict[str, Any]:
        """Return recipe, data and truth as plain JSON values."""
        edges = {
            kind: [list(edge) for edge, found in self.truth.edges.items() if found is kind] for kind in (True, None)
        }
        return {
            "recipe": asdict(self.recipe),
            "data": {
                "supports": SUPPORTS,
                "queries": QUERIES,
                "rows": "length uniform in [0.5, 1]",
                "targets": "standard normal",
            },
            "nodes": dict(self.truth.nodes),
            "edges": edges[True],
            "unscored_edges": edges[None],
            "question": None if self.truth.question is None else asdict(self.truth.question),
        }


def family(seed: int = 0) -> tuple[Recipe, ...]:
    """Return 64 recipes: 32 circuits, each plain and, with other seeds, rotated and distracted.

    Example:
        >>> recipes = family()
        >>> len(recipes), sum(recipe.hidden for recipe in recipes), recipes[1].name
        (64, 32, 'exponential-vanilla-2-hidden')
    """
    seed = whole(seed, "seed", 0)
    shapes = [("vanilla", steps, *shape) for steps in (2, 4, 8) for shape in ((3, 3, 0), (5, 3, 0))]
    shapes += [(name, steps, 3, 3, 0) for name in ("richardson", "chebyshev", "nesterov") for steps in (2, 3)]
    shapes += [("cg", 1, 3, 3, 0), ("cg", 2, 3, 3, 0), ("vanilla", 3, 3, 3, 8), ("richardson", 1, 4, 2, 4)]
    found = []
    for number, (kernel, shape) in enumerate(product(("exponential", "gaussian"), shapes)):
        own, other, rotation = (int(value) for value in spawn(seed, "circuits", number).generate_state(3))
        plain = Recipe(kernel, *shape, decoys=0, rotate=None, seed=own)
        found += [plain, replace(plain, decoys=DECOYS, rotate=rotation, seed=other)]
    return tuple(found)


def make(recipe: Recipe) -> KnownCircuit:
    """Return the model of a recipe, exported to TransformerLens, with its truth."""
    model = _compiled(recipe)
    exported = to_transformer_lens(model, max_tokens=MAX_TOKENS, rotate=recipe.rotate)
    return KnownCircuit(recipe, exported, derive(lower(model, MAX_TOKENS)))


def _compiled(recipe: Recipe) -> CompiledTransformer:
    """Return the compiled model, with distractors in its program."""
    kernel: Kernel = {"exponential": Exponential, "gaussian": Gaussian}[recipe.kernel](temperature=TEMPERATURE)
    largest = RIDGE + SUPPORTS * (exp(1 / TEMPERATURE) if recipe.kernel == "exponential" else 1.0)
    options: dict[str, Any] = {"features": recipe.features, "ridge": RIDGE, "share_channels": False}
    if recipe.algorithm == "vanilla":
        algorithm: available.Algorithm = available.Richardson(steps=recipe.steps)
        options["attention"] = "vanilla"
    else:
        span = (1e-4, 32.0) if recipe.algorithm == "cg" else (1e-2, 1.0)
        options |= {"primitives": "swiglu", "reciprocal_range": span}
        if recipe.algorithm == "cg":
            algorithm = available.ConjugateGradients(steps=recipe.steps)
        elif recipe.algorithm == "richardson":
            algorithm = available.Richardson(steps=recipe.steps, step_size=1 / largest)
        else:
            kind = {"chebyshev": available.Chebyshev, "nesterov": available.Nesterov}[recipe.algorithm]
            algorithm = kind(steps=recipe.steps, spectrum=(RIDGE, largest))
    if recipe.carried < recipe.features:
        full = compile_model(kernel, algorithm, **options)
        copies = sum(channel.size == "features" for channel in full.program.channels.values())
        options["width"] = full.budget.width - copies * (recipe.features - recipe.carried)
        options |= {"sketch": "orthogonal", "seed": recipe.seed}
    model = compile_model(kernel, algorithm, **options)
    if not recipe.decoys and not recipe.idle:
        return model
    spec, program = model.spec, write_program(model.spec)
    if recipe.decoys:
        spec, program = replace(spec, tied=False), distract(program, recipe.steps, recipe.seed, recipe.decoys)
    layout = arrange(program, spec.carried, spec.outputs, share=False)
    layout = replace(layout, width=layout.used + recipe.idle)
    embedding = model.carried if model.embedding is None else model.embedding
    weights = lower_program(program, layout, spec, embedding)
    return CompiledTransformer(spec, program, layout, weights, embedding, model.unsketched)
