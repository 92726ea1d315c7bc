"""A view holds what the model computed; its sparse weights reproduce it; the curve of the examples."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.sublayers import GATES
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.views.viewer import curve_task, few_rows, render_viewer, trace_view
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


def test_rows_have_length_one_and_places_are_sorted():
    task = curve_task(supports=20, queries=7)
    assert torch.allclose(task.X.norm(dim=1), torch.ones(20, dtype=torch.float64))
    assert bool((task.at[0].diff() > 0).all())
    assert (task.Xq.shape, task.at[1].shape) == ((7, 2), (7,))


def test_products_depend_on_the_distance_alone():
    task = curve_task(queries=5)
    products = task.Xq @ task.Xq.T
    for offset in range(5):
        diagonal = products.diagonal(offset)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal))


def test_a_seed_is_one_task():
    assert torch.equal(curve_task(seed=3).y, curve_task(seed=3).y)
    assert not torch.equal(curve_task(seed=3).y, curve_task(seed=4).y)


def test_one_support_is_no_curve():
    with pytest.raises(InputError, match="supports"):
        curve_task(supports=1)


def test_a_program_is_shown_beside_its_interpreter():
    model = rf.compile(rf.programs.ista(steps=3), features=2)
    view = trace_view(model, *GIVEN)
    assert view.smoother is view.averager is None
    np.testing.assert_allclose(view.exact, view.predictions[-1], atol=1e-14)
    assert r"\max\left(0,\ w_i - 0.5\,g_i - 0.05\right)" in view.sublayers[3].formulas[0]
    assert "where the program ends" in render_viewer(view)
