"""The stream as it is shown: the library's own, sublayer by sublayer, under the names of what lives there."""

import numpy as np
import pytest
import torch

from ridgeformer.language.interpreter import interpret
from ridgeformer.views.explorer.compute import compiled
from ridgeformer.views.explorer.data import pose
from ridgeformer.views.explorer.state import State
from ridgeformer.views.explorer.stream import look, pattern, walk

STATES = [
    State(steps=3),
    State.parse("attention=linear&steps=3"),
    State.parse("attention=vanilla&steps=3"),
    State(width=15),
]


def queries(state):
    Xq = pose(state).Xq
    return Xq[torch.linspace(0, len(Xq) - 1, 5).round().long()]


@pytest.mark.parametrize("state", STATES, ids=lambda s: s.address)
def test_every_stream_and_pattern_is_the_cache_of_the_library(state):
    task = pose(state)
    _, cache = compiled(state).run_with_cache(task.X, task.y, queries(state))
    places = [key.removesuffix(".out") for key in cache if key.endswith(".out")]
    assert len(places) == look(state).last
    for number, place in enumerate(places, start=1):
        here = State(**{**vars(state), "sublayer": number})
        view, found = look(here), pattern(here)
        assert np.allclose(view.values, cache[f"{place}.out"].numpy(), atol=1e-12)
        assert view.title == place.replace(".", ": ", 1)
        if found is None:
            assert view.kind == "gated"
        else:
            assert view.kind == "attention"
            assert np.allclose(found.weights, cache[f"{place}.pattern.{found.head}"].numpy(), atol=1e-12)


@pytest.mark.parametrize("state", STATES[:3], ids=lambda s: s.address)
def test_columns_hold_the_channels_they_are_named_after(state):
    """The interpreter has channels and no columns: a named column must hold what it says the channel holds."""
    task, model = pose(state), compiled(state)
    tokens = model.tokens(len(task.X), 5)
    run = interpret(model.program, tokens, task.X, task.y[:, None], queries(state), state.steps)
    passed = [values for _, instruction, values in run if hasattr(instruction, "caption")]
    for number, values in enumerate(passed, start=1):
        view = look(State(**{**vars(state), "sublayer": number}))
        named = dict(view.channels)
        for name, columns in named.items():
            assert np.allclose(view.values[:, columns], values[name].numpy(), atol=1e-9), (number, name)
        forgotten = [name for name, value in values.items() if name not in named and float(value.abs().max()) > 0]
        assert forgotten == [], number


def test_the_embedding_comes_first_and_a_number_too_large_is_the_last():
    first, last = look(State(sublayer=0)), look(State(sublayer=9999))
    assert (first.kind, first.number, pattern(State(sublayer=0))) == ("embedding", 0, None)
    assert last.number == last.last
    assert first.tokens.count("aggregator") == 1


def test_a_walk_goes_no_further_than_it_must():
    found = walk(State(steps=40, ridge=0.123))
    found.after(3)
    assert len(found._streams) == 4


def test_every_head_can_be_seen():
    heads = [pattern(State.parse(f"attention=vanilla&sublayer=1&head={head}")).head for head in range(3)]
    assert len(set(heads)) == 3
    assert pattern(State.parse("attention=vanilla&sublayer=1&head=9")).head == heads[-1]
