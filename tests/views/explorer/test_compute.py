"""Every number of the explorer is the library's: computed here another way, by its public calls."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError
from ridgeformer.language.interpreter import interpret
from ridgeformer.views.explorer.compute import (
    certify_run,
    compiled,
    leave_one_out,
    look,
    run,
    spectrum,
    walk,
    width_range,
)
from ridgeformer.views.explorer.data import load_regression
from ridgeformer.views.explorer.state import State

STATES = [
    State(),
    State(steps=20, algorithm="richardson"),
    State(steps=15, algorithm="chebyshev", ridge=1.0),
    State(ridge=200.0, algorithm="neumann"),
    State(kernel="dot_product", attention="linear", algorithm="pcg", ridge=0.01),
    State(attention="vanilla", algorithm="richardson", ridge=1.0, steps=30),
    State(kernel="dot_product", attention="imitation", ridge=0.5, steps=5),
    State(kernel="gaussian", steps=16),
    State(kernel="gaussian", attention="vanilla", algorithm="richardson", ridge=1.0, steps=30),
    State(steps=20, algorithm="heavy_ball", ridge=1.0),
    State.parse("attention=linear&algorithm=nesterov&ridge=1&steps=20"),
    State(data="steps", width=16, sketch="orthogonal"),
    State(data="wine", rows=60, temperature=13.0, output=1),
    State(data="digits", rows=80, ridge=1.0, output=3, width=40),
    State(data="diabetes", rows=50, kernel="dot_product", attention="linear", ridge=5.0),
]


def kernel_and_rows(state):
    task = load_regression(state)
    if state.attention == "imitation":
        return rf.kernels.DotProduct(), task.X - task.X.mean(0), task.Xq - task.X.mean(0)
    linear = state.attention == "linear"
    if state.kernel == "gaussian":
        return rf.kernels.Gaussian(state.temperature), task.X, task.Xq
    return (rf.kernels.DotProduct() if linear else rf.kernels.Exponential(state.temperature)), task.X, task.Xq


def fit(state, keep=None):
    """Exact kernel ridge regression by `rf.solve`, of all points or of those to keep."""
    kernel, X, Xq = kernel_and_rows(state)
    keep = torch.arange(len(X)) if keep is None else keep
    fit = rf.solve(kernel, X[keep], load_regression(state).y[keep], ridge=state.ridge, algorithm="direct")
    return fit.predict(Xq).numpy() + load_regression(state).mean


@pytest.mark.parametrize("state", STATES, ids=lambda s: s.address or "default")
def test_predictions_are_the_librarys(state):
    found, task = run(state), load_regression(state)
    assert np.allclose(found.predicted, compiled(state)(task.X, task.y, task.Xq).numpy() + task.mean, atol=1e-12)
    assert np.allclose(found.exact, fit(state), atol=1e-7)
    head = rf.NadarayaWatsonRegressor(state.temperature).fit(task.X.numpy(), task.y.numpy()).predict(task.Xq.numpy())
    assert np.allclose(found.average, head + task.mean, atol=1e-12)
    assert np.array_equal(found.steps[-1], found.predicted) or state.steps == 1


@pytest.mark.parametrize("state", STATES[:8], ids=lambda s: s.address or "default")
def test_convergence_is_the_certificates(state):
    found, task = run(state), load_regression(state)
    curve = rf.certify(compiled(state), task.X, task.y, task.Xq).curves["error per step"]
    assert np.allclose(found.errors, curve.measured[0, :, 0], rtol=1e-6, atol=1e-13)
    assert np.allclose(found.bound, curve.bound[0, :, 0])
    assert (found.errors <= found.bound).all()
    assert found.holds


def test_a_sketch_moves_the_limit_away_from_the_exact_answer():
    full, narrow = run(State(steps=30)), run(State(steps=30, width=16))
    assert np.array_equal(full.limit, full.exact)
    assert narrow.features == (9, 5)
    assert narrow.distance(narrow.limit) > 10 * full.distance(full.predicted)
    assert narrow.distance(narrow.predicted) == pytest.approx(narrow.distance(narrow.limit), rel=1e-3)


def test_one_head_takes_no_steps():
    found = run(State(algorithm="nadaraya_watson"))
    assert len(found.errors) == len(found.bound) == 0
    assert np.allclose(found.predicted, found.average, atol=1e-12)


def test_spectrum_is_that_of_the_kernel_matrix():
    state = State(data="wine", rows=60, temperature=13.0)
    kernel, X, _ = kernel_and_rows(state)
    values = np.linalg.eigvalsh(kernel(X, X).numpy())[::-1]
    found = spectrum(state)
    assert np.allclose(found.kernel, values, atol=1e-9)
    assert found.d_eff == pytest.approx((values / (values + state.ridge)).sum())
    assert spectrum(replace(state, steps=3)) is found


@pytest.mark.parametrize("state", [STATES[0], STATES[4], STATES[6], STATES[8]], ids=lambda s: s.address or "default")
@pytest.mark.parametrize("point", [0, 7])
def test_influence_is_a_refit_without_the_point(state, point):
    keep = torch.tensor([i for i in range(len(load_regression(state).X)) if i != point])
    found = leave_one_out(state)
    assert np.allclose(found.exact, fit(state), atol=1e-8)
    assert np.allclose(found.exact - found.change[point], fit(state, keep), atol=1e-6)


@pytest.mark.parametrize("attention", ["linear", "softmax", "vanilla", "imitation"])
def test_the_range_of_widths_is_what_compile_takes(attention):
    state = State.parse(f"attention={attention}")
    least, full = width_range(state)
    features = load_regression(state).X.shape[1]
    assert run(replace(state, width=least)).features == (features, 1)
    assert run(replace(state, width=full - 1)).features[1] < features
    assert run(replace(state, width=full)).features == (features, features)
    with pytest.raises(InputError, match=f"at least {least}"):
        run(replace(state, width=least - 1))


def test_what_the_library_refuses_is_refused_in_its_words():
    with pytest.raises(InputError, match=r"the Neumann series needs \|\|K\|\| < ridge"):
        run(State(algorithm="neumann"))


def test_states_of_one_problem_share_its_result():
    assert run(State(point=3, sublayer=9)) is run(State())
    assert run(State(ridge=0.2)) is not run(State())


def test_the_certificate_is_the_librarys():
    few, enough = certify_run(State(steps=3)), certify_run(State(steps=30))
    assert [check.name for check in few.failed] == ["accuracy"]
    assert enough.holds


STREAMS = [
    State(steps=3),
    State.parse("attention=linear&steps=3"),
    State.parse("attention=vanilla&steps=3"),
    State(width=15),
]


def queries(state):
    Xq = load_regression(state).Xq
    return Xq[torch.linspace(0, len(Xq) - 1, 5).round().long()]


@pytest.mark.parametrize("state", STREAMS, ids=lambda s: s.address)
def test_every_stream_and_pattern_is_the_cache_of_the_library(state):
    task = load_regression(state)
    _, cache = compiled(state).run_with_cache(task.X, task.y, queries(state))
    places = [key.removesuffix(".out") for key in cache if key.endswith(".out")]
    assert len(places) == look(state).last
    for number, place in enumerate(places, start=1):
        here = State(**{**vars(state), "sublayer": number})
        view = look(here)
        assert np.allclose(view.values, cache[f"{place}.out"].numpy(), atol=1e-12)
        assert view.title == place.replace(".", ": ", 1)
        if view.weights is None:
            assert view.kind == "gated"
        else:
            assert view.kind == "attention"
            assert np.allclose(view.weights, cache[f"{place}.pattern.{view.head}"].numpy(), atol=1e-12)


@pytest.mark.parametrize("state", STREAMS[:3], ids=lambda s: s.address)
def test_columns_hold_the_channels_they_are_named_after(state):
    """The interpreter has channels and no columns: a named column must hold what it says the channel holds."""
    task, model = load_regression(state), compiled(state)
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
    assert (first.kind, first.number, first.weights) == ("embedding", 0, None)
    assert last.number == last.last
    assert first.tokens.count("aggregator") == 1


def test_a_walk_goes_no_further_than_it_must():
    found = walk(State(steps=40, ridge=0.123))
    found.after(3)
    assert len(found._streams) == 4


def test_every_head_can_be_seen():
    heads = [look(State.parse(f"attention=vanilla&sublayer=1&head={head}")).head for head in range(3)]
    assert len(set(heads)) == 3
    assert look(State.parse("attention=vanilla&sublayer=1&head=9")).head == heads[-1]
