"""Ten generated tables: the right winner, the right advice, no false claim, and scores that scikit-learn confirms."""

from functools import cache

import numpy as np
import pytest
from sklearn import ensemble, linear_model
from sklearn.metrics import balanced_accuracy_score, r2_score

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.advice import advise
from ridgeformer.auditing.answer import _quality
from ridgeformer.auditing.field import run_field
from ridgeformer.auditing.metrics import measure
from ridgeformer.auditing.reproduce import write_snippet
from ridgeformer.auditing.run import _make_splits
from ridgeformer.influence.suspects import find_suspects
from tests.auditing.generated_tables import TABLES, table

FAST = Settings(trees=30, few_rows=100, temperatures=(1.0, 0.25), ridges=(1.0, 1e-2, 1e-4))


class Found:
    """The field, the sentence on the winner, the advice and the snippet of one table."""

    def __init__(self, dataset, settings=FAST):
        self.dataset = dataset
        self.splits = _make_splits(dataset, settings)
        self.field, certified = run_field(self.splits, settings)
        metrics = {one.key: measure(self.field, one, dataset.classes) for one in (self.field.own, self.field.best)}
        self.metrics = metrics
        self.winner = _quality(self.splits[0], self.field, metrics)
        self.advice = "; ".join(advise(self.splits[0], self.field, find_suspects(self.splits[0], certified.fit)))
        self.snippet = write_snippet(self.splits, self.field, settings, "mine")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return cache(lambda name: Found(table(name, folder)))


def run_snippet(one):
    said = []
    exec(one.snippet, {"mine": one.dataset, "print": said.append})
    return said


@pytest.mark.parametrize("name", ["thresholds", "imbalanced", "categories"])
def test_the_snippet_reproduces_every_digit(found, name):
    assert run_snippet(found(name)) == [f"{found(name).field.own.test_score:.6f}"]


@pytest.mark.parametrize("name", ["thresholds", "wide"])
def test_trees_win_where_thresholds_rule_and_scikit_learn_confirms_it(found, name):
    one = found(name)
    assert one.field.best.key in ("forest", "boosting")
    assert one.field.own not in one.field.unbeaten
    assert one.winner.startswith(("Who wins: a random forest", "Who wins: gradient-boosted trees"))
    assert "reaches only" in one.winner
    assert one.advice.startswith(("use a random forest", "use gradient-boosted trees"))
    split, boosted = one.splits[0], one.field.of("boosting")
    choice, data = boosted.choices[0], one.dataset
    kind = ensemble.HistGradientBoostingClassifier if data.classes else ensemble.HistGradientBoostingRegressor
    model = kind(
        learning_rate=choice["rate"], max_leaf_nodes=int(choice["leaves"]), max_iter=30, early_stopping=False,
        random_state=0,
    )  # fmt: skip
    again = model.fit(split.X.numpy(), data.y[split.rows]).score(split.Xt.numpy(), data.y[split.rows_t])
    assert boosted.test_score == pytest.approx(again)


def test_twelve_rows_are_too_few_to_act_on(found):
    one = found("tiny")
    assert len(one.field.rows) == 12
    assert "each held out once, in 5 splits" in one.winner or "nobody" in one.winner
    assert "collect more rows" in one.advice


def test_a_rare_class_is_counted_and_its_recall_said(found):
    one = found("imbalanced")
    assert one.field.balanced
    split, own = one.splits[0], one.field.own
    truth = one.dataset.y[split.rows_t]
    assert own.test_score == pytest.approx(balanced_accuracy_score(truth, own.decided))
    rare = one.metrics["attention"].classes[1]
    assert rare.found == int((own.decided[truth == 1] == 1).sum())
    assert own.test_score > 0.7  # 0.5 is what "95 % right" amounts to
    if own.key in one.metrics and own in one.field.unbeaten:
        assert f"of {rare.rows} rows of the rare class yes it finds {rare.found}" in one.winner


def test_a_rating_is_regressed_on_and_that_is_said(found):
    one = found("rating")
    assert one.dataset.task == "regression"
    assert "taken as numbers; --task classification" in " ".join(one.splits[0].notes)
    assert "root mean square error" in one.winner


def test_noise_teaches_nothing(found):
    one = found("noise")
    assert one.winner.startswith("Who wins: nobody.")
    assert one.advice.startswith("nothing was learnt")


def test_a_linear_truth_wants_a_linear_model_and_scikit_learn_confirms_its_score(found):
    one = found("linear")
    assert one.advice.startswith("use a linear model")
    assert "kernel of attention wins" not in one.winner
    split, fitted = one.splits[0], one.field.of("linear")
    model = linear_model.Ridge(alpha=fitted.choices[0]["strength"]).fit(split.X, one.dataset.y[split.rows])
    assert fitted.test_score == pytest.approx(r2_score(one.dataset.y[split.rows_t], model.predict(split.Xt)))


def test_an_identifier_is_left_out(found):
    one = found("identifier")
    assert one.dataset.features == ("x", "z")
    assert "'customer_id'" in one.splits[0].notes[0]
    assert one.advice.startswith("use a linear model")


def test_categories_with_holes_are_used(found):
    one = found("categories")
    assert one.field.own.test_score > 0.7
    assert one.splits[0].X.shape[1] == 2 + 5
    assert any("Missing values: 'town' (37 rows), 'income' (31 rows)" in note for note in one.splits[0].notes)


def test_pixels_are_images(found):
    one = found("pixels")
    assert one.dataset.image_shape == (8, 8)
    assert one.field.own.test_score > 0.9
    assert one.field.own in one.field.unbeaten


def test_every_table_has_a_test():
    assert set(TABLES) == {
        "thresholds", "wide", "tiny", "imbalanced", "rating", "noise", "linear", "identifier", "categories", "pixels",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["wine", "diabetes"])
def test_the_snippet_of_an_embedded_dataset(name):
    one = Found(datasets.load(name), Settings(methods=("attention", "constant"), few_rows=400))
    assert run_snippet(one) == [f"{one.field.own.test_score:.6f}"]


def test_a_held_out_target_changes_nothing_in_its_prediction(tmp_path):
    data = table("linear", tmp_path)
    settings = Settings(methods=("attention", "constant", "linear"), few_rows=0)
    before = Found(data, settings)
    row = int(before.field.rows[7])
    y = data.y.copy()
    y[row] += 1000.0
    after = Found(type(data)(data.name, data.X, y), settings)
    for key in ("attention", "linear"):
        np.testing.assert_array_equal(before.field.of(key).outputs, after.field.of(key).outputs)


def count(kind, tables, says):
    settings = Settings(trees=10, few_rows=0, temperatures=(1.0, 0.25), ridges=(1.0, 1e-2))
    return sum(says(Found(kind(np.random.default_rng(1000 + seed), None), settings)) for seed in range(tables))


@pytest.mark.parametrize("tables", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_noise_is_called_noise(tables):
    learnt = count(TABLES["noise"], tables, lambda one: not one.advice.startswith("nothing was learnt"))
    assert learnt <= tables // 20


@pytest.mark.parametrize("tables", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_a_linear_truth_is_seldom_called_a_win_for_the_kernel(tables):
    wins = count(TABLES["linear"], tables, lambda one: "kernel of attention wins" in one.winner)
    assert wins <= tables // 20
