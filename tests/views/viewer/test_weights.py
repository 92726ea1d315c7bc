"""The entries that are not zero are the whole sublayer: naive arithmetic with them gives what the model computed."""

import numpy as np
import pytest
import torch

from ridgeformer.compiler.sublayers import GATES
from tests.views.viewer_models import MODELS, cache_of, view_of


def side(entries, X):
    return sum((weight * X[:, column] for column, weight in entries), X.new_zeros(len(X)))


def gated(module, X):
    """Add every unit, one after the other."""
    after = X.clone()
    for unit in module["units"]:
        product = side(unit["a"], X) * GATES[unit["gate"]](side(unit["b"], X))
        for column, weight in unit["d"]:
            after[:, column] += weight * product
    return after


def attended(module, X, patterns):
    """Add every move of every head, with weights that the cache holds."""
    after = X.clone()
    for head in module["heads"]:
        for of, to, weight in head["moves"]:
            after[:, to] += weight * (patterns[head["name"]] @ X[:, of])
    return after


@pytest.mark.parametrize("name", MODELS)
def test_before_plus_terms_is_after(name):
    view, (_, cache) = view_of(name), cache_of(name)
    small = 2e-5 if "float32" in name else 1e-12
    for sublayer, before, after in zip(view.sublayers, view.stream[:-1], view.stream[1:], strict=True):
        module, X = view.modules[sublayer.module], torch.from_numpy(before)
        if sublayer.kind == "gated":
            found = gated(module, X)
        else:
            patterns = {h["name"]: cache[f"{sublayer.place}.pattern.{h['name']}"].double() for h in module["heads"]}
            found = attended(module, X, patterns)
        assert np.allclose(found, after, rtol=small, atol=small * np.abs(before).max())


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_pattern(name):
    view, (_, cache) = view_of(name), cache_of(name)
    small = 1e-5 if "float32" in name else 1e-12
    for sublayer, before in zip(view.sublayers, view.stream[:-1], strict=True):
        for head in view.modules[sublayer.module].get("heads", []):
            X = torch.from_numpy(before)
            scores = sum((w * torch.outer(X[:, i], X[:, j]) for i, j, w in head["scores"]), X.new_zeros(len(X), len(X)))
            pattern = cache[f"{sublayer.place}.pattern.{head['name']}"].double()
            if head["kind"] == "linear":
                read = pattern != 0
                assert torch.allclose(scores[read], pattern[read], rtol=small, atol=1e-300)
            else:
                read = (pattern > 0) & (pattern > 1e-30)
                row = torch.where(read, scores, -torch.inf)
                assert torch.allclose(row.softmax(-1)[read], pattern[read], rtol=1e3 * small, atol=small)
