"""Every number of the explorer is the library's: computed here another way, by its public calls."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError
from ridgeformer.views.explorer.compute import certify_run, compiled, influenced, run, spectrum, width_range
from ridgeformer.views.explorer.data import pose
from ridgeformer.views.explorer.state import State

STATES = [
    State(),
    State(steps=20, algorithm="richardson"),
    State(steps=15, algorithm="chebyshev", ridge=1.0),
    State(ridge=200.0, algorithm="neumann"),
    State(attention="linear", algorithm="pcg", ridge=0.01),
    State(attention="vanilla", algorithm="richardson", ridge=1.0, steps=30),
    State(attention="imitation", ridge=0.5, steps=5),
    State(data="steps", width=16, sketch="orthogonal"),
    State(data="wine", rows=60, temperature=13.0, output=1),
    State(data="digits", rows=80, ridge=1.0, output=3, width=40),
    State(data="diabetes", rows=50, attention="linear", ridge=5.0),
]


def kernel_and_rows(state):
    task = pose(state)
    if state.attention == "imitation":
        return rf.kernels.DotProduct(), task.X - task.X.mean(0), task.Xq - task.X.mean(0)
    linear = state.attention == "linear"
    return (rf.kernels.DotProduct() if linear else rf.kernels.Exponential(state.temperature)), task.X, task.Xq


def fit(state, keep=None):
    """Exact kernel ridge regression by `rf.solve`, of all points or of those to keep."""
    kernel, X, Xq = kernel_and_rows(state)
    keep = torch.arange(len(X)) if keep is None else keep
    solution = rf.solve(kernel, X[keep], pose(state).y[keep], ridge=state.ridge, algorithm="direct")
    return solution.predict(Xq).numpy() + pose(state).mean


@pytest.mark.parametrize("state", STATES, ids=lambda s: s.address or "default")
def test_predictions_are_the_librarys(state):
    found, task = run(state), pose(state)
    assert np.allclose(found.predicted, compiled(state)(task.X, task.y, task.Xq).numpy() + task.mean, atol=1e-12)
    assert np.allclose(found.exact, fit(state), atol=1e-7)
    head = rf.NadarayaWatson(state.temperature).fit(task.X.numpy(), task.y.numpy()).predict(task.Xq.numpy())
    assert np.allclose(found.average, head + task.mean, atol=1e-12)
    assert np.array_equal(found.steps[-1], found.predicted) or state.steps == 1


@pytest.mark.parametrize("state", STATES[:8], ids=lambda s: s.address or "default")
def test_convergence_is_the_certificates(state):
    found, task = run(state), pose(state)
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
    keep = torch.tensor([i for i in range(len(pose(state).X)) if i != point])
    found = influenced(state)
    assert np.allclose(found.exact, fit(state), atol=1e-8)
    assert np.allclose(found.without(point), fit(state, keep), atol=1e-6)


@pytest.mark.parametrize("attention", ["linear", "softmax", "vanilla", "imitation"])
def test_the_range_of_widths_is_what_compile_takes(attention):
    state = State.parse(f"attention={attention}")
    least, full = width_range(state)
    features = pose(state).X.shape[1]
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
