"""Figures hold the numbers they show, to the bit, in a form plotly accepts."""

import base64

import numpy as np
import plotly.graph_objects as go
import pytest

from ridgeformer.views.explorer import figures
from ridgeformer.views.explorer.compute import influenced, run, spectrum
from ridgeformer.views.explorer.state import State
from ridgeformer.views.explorer.stream import look, pattern


def unpack(packed):
    values = np.frombuffer(base64.b64decode(packed["bdata"]), dtype="<f8")
    return values.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else values


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def all_figures(state):
    found = run(state)
    yield figures.prediction_figure(found, influenced(state).without(1) if found.task.line else None, state.point)
    if len(found.errors):
        yield figures.convergence_figure(found)
    yield figures.spectrum_figure(spectrum(state))
    yield figures.influence_figure(influenced(state), state.point)
    yield figures.stream_figure(look(state))
    if pattern(state) is not None:
        yield figures.attention_figure(pattern(state))
    yield figures.empty_figure("nothing")


ADDRESSES = [
    "",
    "point=3",
    "data=wine&temperature=13",
    "data=diabetes&temperature=10&point=4",
    "attention=vanilla&sublayer=1",
]


@pytest.mark.parametrize("address", [*ADDRESSES, "attention=linear&sublayer=2", "algorithm=nadaraya_watson", "steps=1"])
def test_plotly_accepts_every_figure(address):
    for figure in all_figures(State.parse(address)):
        go.Figure(figure)  # raises on any property it does not know


def test_a_curve_shows_the_run():
    state = State(point=5)
    found = run(state)
    shown = traces(figures.prediction_figure(found, influenced(state).without(5), 5))
    for name, values in {
        "compiled transformer": found.predicted,
        "exact kernel ridge": found.exact,
        "one softmax head (Nadaraya-Watson)": found.average,
        "training points": found.task.targets,
        "exact, without the point": influenced(state).without(5),
        "truth": found.task.truth,
    }.items():
        assert np.array_equal(unpack(shown[name]["y"]), values), name
    asked = shown["asked about"]
    assert unpack(asked["x"]).tolist() == [found.task.x[5]]
    assert unpack(asked["y"]).tolist() == [found.task.targets[5]]


def test_a_scatter_shows_the_run():
    found = run(State(data="diabetes", temperature=10.0))
    shown = traces(figures.prediction_figure(found, None, None))
    assert np.array_equal(unpack(shown["compiled transformer"]["y"]), found.predicted)
    assert np.array_equal(unpack(shown["compiled transformer"]["x"]), found.task.truth)


def test_errors_bounds_and_eigenvalues_are_those_computed():
    shown = traces(figures.convergence_figure(run(State())))
    assert np.array_equal(unpack(shown["relative error"]["y"]), run(State()).errors)
    assert np.array_equal(unpack(shown["bound"]["y"]), run(State()).bound)
    found = spectrum(State())
    shown = traces(figures.spectrum_figure(found))
    kept = unpack(shown["eigenvalues of K"]["y"])
    assert np.array_equal(kept, found.kernel[: len(kept)])
    assert unpack(shown["effective dimension"]["x"]).tolist() == [found.d_eff] * 2


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_column_of_the_stream_is_under_its_channel(address):
    view = look(State.parse(address))
    figure = figures.stream_figure(view)
    for trace, (name, columns) in zip(figure["data"], view.channels, strict=True):
        assert trace["name"] == name
        assert np.array_equal(unpack(trace["z"]), view.values[:, columns])
        assert len(unpack(trace["x"])) == len(columns) + 1
        assert np.ptp(np.diff(unpack(trace["x"]))) < 1e-9  # else plotly draws cell by cell
    edges = figures._edges(view)
    assert len(edges) == len(view.columns) + 1
    assert (np.diff(edges) > 0).all()


def test_the_pattern_is_the_one_computed():
    found = pattern(State())
    (trace,) = figures.attention_figure(found)["data"]
    assert np.array_equal(unpack(trace["z"]), found.weights)


def test_influence_bars_are_the_strongest_in_order():
    state = State(data="wine", temperature=13.0)
    change = influenced(state).change[:, 3]
    (bars,) = figures.influence_figure(influenced(state), 3)["data"]
    assert unpack(bars["x"]).tolist() == [*np.sort(change)[: figures.SHOWN], *np.sort(change)[-figures.SHOWN :]]
    assert figures.influence_figure(influenced(state), None)["data"] == []
