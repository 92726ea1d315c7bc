"""Panels hold the numbers they show, to the bit, and their sentences quote them."""

import base64
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.core.words import number
from ridgeformer.views.explorer import panels
from ridgeformer.views.explorer.compute import leave_one_out, look, run, spectrum
from ridgeformer.views.explorer.data import receive
from ridgeformer.views.explorer.state import State
from ridgeformer.views.figures import packed


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def figure_of(name, state):
    return panels.PANELS[name](state)[0]


def sentence_of(name, state):
    return panels.PANELS[name](state)[1]


ADDRESSES = [
    "",
    "point=3",
    "data=wine&temperature=13",
    "data=diabetes&temperature=10&point=4",
    "attention=vanilla&sublayer=1",
]


@pytest.mark.parametrize("address", [*ADDRESSES, "attention=linear&sublayer=2", "algorithm=nadaraya_watson", "steps=1"])
def test_plotly_accepts_every_figure(address):
    for panel in panels.PANELS.values():
        go.Figure(packed(panel(State.parse(address))[0]))  # raises on any property it does not know
    go.Figure(packed(panels.empty_figure("nothing")))


def test_a_curve_shows_the_run():
    state = State(point=5)
    found, left_out = run(state), leave_one_out(state)
    shown = traces(figure_of("prediction", state))
    for name, values in {
        "compiled transformer": found.predicted,
        "exact kernel ridge": found.exact,
        "one softmax head": found.average,
        "training points": found.task.targets,
        "exact, without the point": left_out.exact - left_out.change[5],
        "truth": found.task.truth,
    }.items():
        assert np.array_equal(np.asarray(shown[name]["y"]), values), name
    asked = shown["selected"]
    assert np.asarray(asked["x"]).tolist() == [found.task.x[5]]
    assert np.asarray(asked["y"]).tolist() == [found.task.targets[5]]


def test_a_scatter_shows_the_run():
    state = State(data="diabetes", temperature=10.0)
    found = run(state)
    shown = traces(figure_of("prediction", state))
    assert np.array_equal(np.asarray(shown["compiled transformer"]["y"]), found.predicted)
    assert np.array_equal(np.asarray(shown["compiled transformer"]["x"]), found.task.truth)


def test_an_upload_of_two_classes_is_drawn_as_labels_spread_out():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 2))
    lines = ["a,b,answer", *(f"{a},{b},{'yes' if a > b else 'no'}" for a, b in rows)]
    encoded = base64.b64encode("\n".join(lines).encode()).decode()
    state = State(data=receive("two.csv", f"data:text/csv;base64,{encoded}", "answer"), rows=30, output=1)
    figure, _ = panels.prediction(state)
    assert figure["layout"]["xaxis"]["ticktext"] == ["no (-1)", "yes (+1)"]
    drawn = np.concatenate(
        [np.asarray(trace["x"]) for trace in figure["data"] if trace["name"] == "compiled transformer"]
    )
    assert len(np.unique(drawn)) == len(drawn)  # no point hides another
    assert np.abs(np.abs(drawn) - 1).max() < 0.5  # and each stays with its label


def test_errors_bounds_and_eigenvalues_are_those_computed():
    shown = traces(figure_of("convergence", State()))
    assert np.array_equal(np.asarray(shown["relative error"]["y"]), run(State()).errors)
    assert np.array_equal(np.asarray(shown["bound"]["y"]), run(State()).bound)
    found = spectrum(State())
    shown = traces(figure_of("spectrum", State()))
    kept = np.asarray(shown["eigenvalues of K"]["y"])
    assert np.array_equal(kept, found.kernel[: len(kept)])
    assert np.asarray(shown["effective dimension"]["x"]).tolist() == [found.d_eff] * 2


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_column_of_the_stream_is_under_its_channel(address):
    view = look(State.parse(address))
    figure = figure_of("stream", State.parse(address))
    for trace, (name, columns) in zip(figure["data"], view.channels, strict=True):
        assert trace["name"] == name
        assert np.array_equal(np.asarray(trace["z"]), view.values[:, columns])
        assert len(np.asarray(trace["x"])) == len(columns) + 1
        assert np.ptp(np.diff(np.asarray(trace["x"]))) < 1e-9  # else plotly draws cell by cell
    edges = panels._edges(view)
    assert len(edges) == len(view.columns) + 1
    assert (np.diff(edges) > 0).all()


def test_the_pattern_is_the_one_computed():
    (trace,) = figure_of("pattern", State())["data"]
    assert np.array_equal(np.asarray(trace["z"]), look(State()).weights)


def test_influence_bars_are_the_strongest_in_order():
    state = State(data="wine", temperature=13.0)
    change = leave_one_out(state).change[:, 3]
    (bars,) = figure_of("influence", replace(state, point=3))["data"]
    assert np.asarray(bars["x"]).tolist() == [*np.sort(change)[: panels.NAMED], *np.sort(change)[-panels.NAMED :]]
    assert figure_of("influence", state)["data"] == []


def test_the_headline_says_whether_it_is_solved():
    solved, not_yet = State(steps=20), State(steps=2)
    assert "is kernel ridge regression to within" in panels.describe_headline(solved)
    assert "2 steps, 23 sublayers: the transformer is still" in panels.describe_headline(not_yet)
    one = State(algorithm="nadaraya_watson")
    assert panels.describe_headline(one).startswith("One softmax head is up to")


def test_the_prediction_gives_both_distances_and_what_a_sketch_costs():
    state = State(width=16)
    found = run(state)
    said = sentence_of("prediction", state)
    for distance in (found.predicted, found.average, found.limit):
        assert number(float(np.abs(distance - found.exact).max())) in said
    assert "5 of 9 features" in said
    assert "features" not in sentence_of("prediction", State())


def test_convergence_says_error_bound_and_whether_it_is_kept(monkeypatch):
    found = run(State())
    said = sentence_of("convergence", State())
    assert number(found.errors[-1]) in said
    assert number(found.bound[-1]) in said
    assert "stays below its bound" in said
    assert "no steps" in sentence_of("convergence", State(algorithm="nadaraya_watson"))
    monkeypatch.setattr(panels, "run", lambda state: replace(found, bound=found.errors / 2, holds=False))
    broken = sentence_of("convergence", State())
    assert "stays ABOVE its bound" in broken
    assert "condition is not met" in broken


def test_the_spectrum_counts_what_is_above_the_ridge():
    found = spectrum(State())
    said = sentence_of("spectrum", State())
    assert said.startswith(f"{int((found.kernel > 0.1).sum())} of 24 eigenvalues")
    assert number(found.d_eff) in said


def test_stream_and_attention_say_where_one_is():
    assert "sublayer 4 of 83 (attention), which wrote a, o" in sentence_of("stream", State())
    assert "83 sublayers follow" in sentence_of("stream", State(sublayer=0))
    assert "spreads its attention over about" in sentence_of("pattern", State())
    assert "gated sublayer reads no other" in sentence_of("pattern", State(sublayer=5))
    assert "no softmax" in sentence_of("pattern", State.parse("attention=linear&sublayer=2"))


def test_uniform_attention_spreads_over_all_supports():
    state = State(sublayer=2)
    assert look(state).head == "mean"
    assert "about 24.0 of 24" in sentence_of("pattern", state)


@pytest.mark.parametrize("data", ["sine", "wine"])
def test_influence_names_the_strongest(data):
    state = State(data=data, temperature=5.0)
    found = leave_one_out(state)
    assert "Click" in sentence_of("influence", state)
    said = sentence_of("influence", replace(state, point=2))
    if data == "sine":
        assert number(float(np.abs(found.change[2]).max())) in said
    else:
        assert found.task.labels[int(found.change[:, 2].argmax())] in said
        assert number(float(found.change[:, 2].max())) in said


def test_parts_of_one_are_per_cents_until_they_are_many():
    assert panels.relative(0.1234) == "12.3 %"
    assert panels.relative(123.4) == "123 times"


DIGITS = State(data="digits", rows=60, ridge=1.0)


def test_the_strongest_points_stand_beside_the_one_asked_about():
    found = leave_one_out(DIGITS)
    shown = panels.influence_images(replace(DIGITS, point=4))
    change = found.change[:, 4]
    assert len(shown) == 1 + 2 * panels.EACH
    rows = [found.task.Xq[4], found.task.X[int(change.argmax())], found.task.X[int(change.argmin())]]
    for image, row in zip((shown[0], shown[1], shown[-1]), rows, strict=True):
        np.testing.assert_allclose(image.pixels, row.reshape(8, 8) / row.max())
    assert shown[1].title == f"{change.max():+.2g}"
    assert shown[1].note == found.task.labels[int(change.argmax())]


def test_other_rows_have_no_pictures():
    assert panels.influence_images(State(point=3)) == ()
    assert panels.influence_images(DIGITS) == ()


def drawn(height):
    points = tuple((x / 6, height if x == 5 else np.sin(x)) for x in range(12))
    return State(data="drawn", points=points)


def test_the_band_is_that_of_the_exact_fit_and_follows_the_points():
    name = "90 % interval"
    low, high = leave_one_out(drawn(0.0)).band
    lower, upper = (trace for trace in figure_of("prediction", drawn(0.0))["data"] if trace["name"] == name)
    np.testing.assert_array_equal(lower["y"], low)
    np.testing.assert_array_equal(upper["y"], high)
    assert (low < high).all()
    moved = leave_one_out(drawn(5.0)).band
    assert (moved[1] - moved[0]).mean() > 1.5 * (high - low).mean()  # an outlier widens it
    few = State(data="drawn", points=drawn(0.0).points[:8])  # 9 points are needed
    assert leave_one_out(few).band is None
    assert name not in traces(figure_of("prediction", few))


def test_kept_settings_are_drawn_as_they_would_be_alone():
    here, there = State(steps=20, against="steps=3"), State(steps=3)
    shown, alone = traces(figure_of("kept", here)), traces(figure_of("prediction", there))
    assert shown.keys() == alone.keys()
    assert np.array_equal(shown["compiled transformer"]["y"], run(there).predicted)
    assert np.array_equal(traces(figure_of("convergence", here))["kept settings"]["y"], run(there).errors)
    assert sentence_of("kept", here).startswith("Different here, kept first: steps 3 → 20. Over the curve")
    assert "nothing: move a control" in sentence_of("kept", replace(here, steps=3))


def test_two_scatters_share_their_height():
    here = State(data="diabetes", temperature=10.0, steps=2, against="data=diabetes&temperature=10&steps=12")
    ranges = [figure_of(name, here)["layout"]["yaxis"]["range"] for name in ("prediction", "kept")]
    assert ranges[0] == ranges[1]
    heights = np.concatenate([run(one).predicted for one in (here, here.kept)])
    assert ranges[0][0] < heights.min() < heights.max() < ranges[0][1]


def test_refused_kept_settings_leave_the_rest_alone():
    state = State(against="algorithm=neumann")
    assert "kept settings" not in traces(figure_of("convergence", state))
    with pytest.raises(RidgeformerError):
        panels.PANELS["kept"](state)
