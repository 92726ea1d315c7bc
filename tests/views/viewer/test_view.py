"""The data of the trace viewer are the model's own: its cache, its trace, its certificate."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.views.viewer import few_rows, render_viewer, trace_view
from tests.compiler.tasks import compiled
from tests.views.viewer_models import MODELS, TASK, cache_of, model_of, view_of

every_model = pytest.mark.parametrize("name", MODELS)
GIVEN = (TASK.X, TASK.y, TASK.Xq)


@every_model
def test_the_stream_is_the_cache(name):
    view = view_of(name)
    trace, cache = cache_of(name)
    for number, sublayer in enumerate(view.sublayers):
        assert np.array_equal(view.stream[number], cache[f"{sublayer.place}.in"].double())
        assert np.array_equal(view.stream[number + 1], cache[f"{sublayer.place}.out"].double())
    assert np.array_equal(view.predictions, trace.f.double())
    assert len({f"{s.place}.in" for s in view.sublayers}) == sum(key.endswith(".in") for key in cache)


@every_model
def test_the_prediction_is_read_where_the_view_says(name):
    view = view_of(name)
    columns, scale = view.reading
    queries = [row for row, token in enumerate(view.tokens) if token.role == "query"]
    steps = [sublayer.answered for sublayer in view.sublayers]
    assert steps == sorted(steps)
    assert steps[-1] == view.steps
    for step in range(1, view.steps + 1):
        after = view.stream[steps.index(step) + 1]
        assert np.array_equal(scale * after[np.ix_(queries, columns)], view.predictions[step - 1])


@every_model
def test_living_channels_share_no_column_and_others_hold_nothing(name):
    view = view_of(name)
    columns = {channel.name: channel.columns for channel in view.channels}
    for sublayer, after in zip(view.sublayers, view.stream[1:], strict=True):
        taken = [column for alive in sublayer.alive for column in columns[alive]]
        assert len(taken) == len(set(taken))
        free = [column for column in range(after.shape[1]) if column not in taken]
        assert not after[:, free].any()


def test_exact_smoother_and_average_against_the_library():
    view = view_of("softmax cg")
    direct = rf.solve(rf.kernels.Exponential(0.25), TASK.X, TASK.y, ridge=5.0).predict(TASK.Xq)
    assert np.allclose(view.exact[:, 0], direct, atol=1e-10)
    assert np.allclose(view.smoother @ view.targets, view.exact, atol=1e-10)
    average = model_of("softmax nadaraya-watson")(*GIVEN)
    assert np.allclose(view.averager @ view.targets, average[:, None], atol=1e-14)


def test_errors_stay_below_the_bound_of_the_certificate():
    view = view_of("softmax cg")
    certificate = rf.certify(model_of("softmax cg"), *GIVEN)
    assert np.array_equal(view.bound, certificate.curves["prediction per step"].bound[0])
    assert (np.abs(view.predictions - view.exact) <= view.bound).all()
    assert (view.verdict, view.holds) == (certificate.verdict, certificate.holds)
    assert view_of("softmax nadaraya-watson").bound is None


def test_a_run_that_is_not_shown_to_be_accurate_is_red():
    few, enough = (trace_view(compiled(features=2, ridge=5.0, steps=n, temperature=0.25), *GIVEN) for n in (1, 12))
    for view, start, shown in ((few, "Not shown to be accurate", "tv-alarm"), (enough, "Proved within", None)):
        assert view.verdict.startswith(start)
        opened = '<span class="tv-verdict tv-alarm">' if shown else '<span class="tv-verdict">'
        assert f"{opened}{start}" in render_viewer(view)


def test_roles_groups_and_shown_queries():
    view = trace_view(model_of("softmax cg"), *GIVEN, shown=3, labels=[f"row {i}" for i in range(9)])
    shown = [token.label for token in view.tokens if token.visible]
    assert shown == [*(f"row {i}" for i in range(9)), "aggregator", "query 1", "query 6", "query 11"]
    groups = {channel.name: channel.group for channel in view.channels}
    assert (groups["phi"], groups["r"], groups["u"], groups["one"]) == ("features", "state", "scratch", "constants")


def test_one_feature_is_a_line_and_two_are_not():
    line = compiled("linear", features=1, ridge=1.0, steps=2)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    assert np.array_equal(trace_view(line, x, x[:, 0], x).at[0], x[:, 0])
    assert trace_view(model_of("linear cg"), *GIVEN).at is None


def test_several_outputs_have_columns_of_their_own():
    model = compiled("softmax", features=2, outputs=3, ridge=5.0, steps=2, temperature=0.25)
    view = trace_view(model, TASK.X, TASK.X[:, [0, 1, 0]], TASK.Xq)
    assert view.predictions.shape == (2, 11, 3)
    assert {len(channel.columns) for channel in view.channels if channel.size == "outputs"} == {3}


def test_few_rows_is_a_sample_in_order():
    X, y, Xq = few_rows(TASK.X, TASK.y, TASK.Xq, supports=4, queries=2, seed=1)
    places = [int((row == TASK.X).all(1).nonzero()) for row in X]
    assert places == sorted(set(places))
    assert torch.equal(y, TASK.y[places])
    assert torch.equal(Xq, TASK.Xq[:2])


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"X": TASK.X.repeat(8, 1), "y": TASK.y.repeat(8)}, InputError, "72 supports are too many to watch"),
        ({"X": TASK.X[None], "y": TASK.y[None], "Xq": TASK.Xq[None]}, ShapeError, "a viewer shows one task"),
        ({"labels": ["only one"]}, InputError, "1 labels for 9 supports"),
        ({"at": (TASK.at[0], TASK.at[0])}, ShapeError, r"\(11,\) for the queries"),
        ({"shown": 0}, InputError, "shown"),
    ],
)
def test_what_is_refused(change, error, words):
    given = {"X": TASK.X, "y": TASK.y, "Xq": TASK.Xq, **change}
    with pytest.raises(error, match=words):
        trace_view(model_of("softmax cg"), **given)
