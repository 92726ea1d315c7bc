"""Ten generated tables: the right winner, the right advice, no false claim, and every score recomputed."""

import numpy as np
import pytest
from sklearn import dummy, ensemble, linear_model, metrics, neighbors
from sklearn.kernel_ridge import KernelRidge

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.advice import advise
from ridgeformer.auditing.answer import name_winner
from ridgeformer.auditing.field import METHODS, run_field
from ridgeformer.auditing.metrics import measure
from ridgeformer.auditing.reproduce import write_snippet
from ridgeformer.auditing.run import make_splits
from ridgeformer.auditing.settings import attempt
from ridgeformer.influence.suspects import find_suspects
from tests.auditing.generated_tables import TABLES, table

FAST = Settings(trees=12, tries=6, few_rows=100, temperatures=(1.0, 0.25), ridges=(0.1, 1e-3))


class Found:
    """The field, the sentence on the winner, the advice and the snippet of one table."""

    def __init__(self, dataset, settings=FAST):
        self.dataset, self.settings = dataset, settings
        self.splits, self.wide = make_splits(dataset, settings)
        self.field, certified = run_field(self.splits, settings, self.wide)
        self.metrics = {one.key: measure(self.field, one, dataset.classes) for one in (self.field.own, self.field.best)}
        self.winner = name_winner(self.splits[0], self.field, self.metrics)
        self.suspects = find_suspects(self.splits[0], certified.fit)
        self.advice = "; ".join(advise(self.splits[0], self.field, self.suspects))
        self.notes = " ".join(self.splits[0].notes)
        self.snippet = write_snippet(self.splits, self.field, settings, "mine", wide=self.wide is not None)

    def run_snippet(self):
        said = []
        exec(self.snippet, {"mine": self.dataset, "print": said.append})
        return said


# -- the scores again, by plain scikit-learn -------------------------------------------------------


def estimator(key, choice, classes, n, settings):
    """Return the method of this name as scikit-learn has it."""

    def kind(name, home):
        return getattr(home, name + ("Classifier" if classes else "Regressor"))

    if key == "constant":
        return dummy.DummyClassifier(strategy="prior") if classes else dummy.DummyRegressor()
    if key == "linear" and classes:
        return linear_model.LogisticRegression(C=1 / choice["strength"], max_iter=300, tol=1e-3)
    if key == "linear":
        return linear_model.Ridge(alpha=choice["strength"])
    if key == "neighbours":
        return kind("KNeighbors", neighbors)(n_neighbors=int(choice["k"]))
    if key == "forest":
        given = {"min_samples_leaf": int(choice["leaf"]), "max_features": choice["features"], "random_state": 0}
        return kind("RandomForest", ensemble)(settings.trees, **given)
    return kind("HistGradientBoosting", ensemble)(
        learning_rate=choice["rate"], max_leaf_nodes=int(choice["leaves"]), max_iter=int(choice["iterations"]),
        min_samples_leaf=min(20, max(2, n // 10)), early_stopping=False, random_state=0,
    )  # fmt: skip


def kernel_outputs(key, choice, X, y, Xt):
    """Return f(Xt) of the kernel methods; y has one column of +1 and -1 a class, or the target."""
    mean, tau = y.mean(0), choice["temperature"]
    if key == "smoother":
        logits = Xt @ X.T / tau
        weights = np.exp(logits - logits.max(1, keepdims=True))
        return mean + weights / weights.sum(1, keepdims=True) @ (y - mean)
    if key == "gaussian":
        model = KernelRidge(kernel="rbf", gamma=1 / (2 * tau), alpha=choice["ridge"])
        return mean + model.fit(X, y - mean).predict(Xt)
    top = (X**2).sum(1).max() / tau
    model = KernelRidge(kernel="precomputed", alpha=choice["ridge"]).fit(np.exp(X @ X.T / tau - top), y - mean)
    return mean + model.predict(np.exp(Xt @ X.T / tau - top))


def score_again(found, key):
    """Return the held-out score of one method, from the splits and its settings alone."""
    data, classes, one = found.dataset, len(found.dataset.classes), found.field.of(key)
    predicted = []
    for split, choice in zip(found.splits, one.choices, strict=True):
        X, Xt, y = split.X.numpy(), split.Xt.numpy(), data.y[split.rows]
        if key in ("attention", "gaussian", "smoother"):
            targets = 2.0 * np.eye(classes)[y] - 1 if classes else np.asarray(y, float)[:, None]
            outputs = kernel_outputs(key, choice, X, targets, Xt)
            p = np.maximum(1 + outputs, 0) if classes else outputs[:, 0]
            p = p / np.where(p.sum(1, keepdims=True) > 0, p.sum(1, keepdims=True), 1) if classes else p
        else:
            model = estimator(key, choice, classes, len(X), found.settings).fit(X, y)
            p = model.predict_proba(Xt) if classes else model.predict(Xt)
        if classes:
            odds = 1 / np.bincount(y, minlength=classes) if found.field.balanced else 1
            p = (p * odds).argmax(1)
        predicted.append(p)
    truth, predicted = data.y[np.concatenate([split.rows_t for split in found.splits])], np.concatenate(predicted)
    if not classes:
        return metrics.r2_score(truth, predicted)
    return (metrics.balanced_accuracy_score if found.field.balanced else metrics.accuracy_score)(truth, predicted)


# -- what must be said of each ---------------------------------------------------------------------


def trees_win(one):
    assert one.field.best.key in ("forest", "boosting")
    assert one.field.own not in one.field.unbeaten
    assert one.winner.startswith(("Who wins: a random forest", "Who wins: gradient-boosted trees"))
    assert "reaches only" in one.winner
    assert one.advice.startswith(("use a random forest", "use gradient-boosted trees"))


def tiny(one):
    assert len(one.field.rows) == 12
    assert "each held out once, in 5 splits" in one.winner
    assert one.field.learnt or one.winner.startswith("Who wins: too few rows to tell.")
    assert "collect more rows" in one.advice
    assert "nothing was learnt" not in one.advice  # 12 rows are no evidence of that


def imbalanced(one):
    assert one.field.balanced
    own, rare = one.field.own, one.metrics["attention"].classes[1]
    truth = one.dataset.y[one.splits[0].rows_t]
    assert rare.found == int((own.decided[truth == 1] == 1).sum())
    assert own.test_score > 0.7  # 0.5 is what "95 % right" amounts to
    assert f"of {rare.rows} rows of the rare class yes it finds {rare.found}" in one.winner


def rating(one):
    assert one.dataset.task == "regression"
    assert "taken as numbers; --task classification" in one.notes
    assert "root mean square error" in one.winner
    assert one.advice.startswith("use a linear model")


def noise(one):
    assert one.winner.startswith("Who wins: nobody.")
    assert one.advice.startswith("nothing was learnt")
    assert "check these labels" not in one.advice


def linear(one):
    assert one.advice.startswith("use a linear model")
    assert "kernel of attention wins" not in one.winner


def identifier(one):
    assert one.dataset.features == ("x", "z")
    assert "'customer_id'" in one.splits[0].notes[0]
    assert one.advice.startswith("use a linear model")


def categories(one):
    assert one.field.own.test_score > 0.7
    assert one.splits[0].X.shape[1] == 2 + 5
    assert "Missing values: 'town' (37 rows), 'income' (31 rows)" in one.notes
    assert one.advice.startswith("use a linear model")


def pixels(one):
    assert one.dataset.image_shape == (8, 8)
    assert one.field.own.test_score > 0.9
    assert one.field.own in one.field.unbeaten


CASES = {
    "thresholds": trees_win, "wide": trees_win, "tiny": tiny, "imbalanced": imbalanced, "rating": rating,
    "noise": noise, "linear": linear, "identifier": identifier, "categories": categories, "pixels": pixels,
}  # fmt: skip
SNIPPETS = ("thresholds", "imbalanced", "categories")


@pytest.mark.parametrize("name", TABLES)
def test_what_is_said_of_a_table_is_so(name, tmp_path):
    """One test a table, so that each is audited once however the tests are spread over processes."""
    one = Found(table(name, tmp_path))
    CASES[name](one)
    again = {key: score_again(one, key) for key in METHODS if key != "centres"}
    for key, score in again.items():
        assert one.field.of(key).test_score == pytest.approx(score, abs=1e-6), key
    assert again[one.field.best.key] == max(again.values())
    assert {one.field.of(key).tried for key in again if key != "constant"} <= {3, 4, 5, 6, 8}
    if name in SNIPPETS:
        assert one.run_snippet() == [f"{one.field.own.test_score:.6f}"]


@pytest.mark.parametrize("name", ["wine", "diabetes", "digits"])
def test_the_snippet_of_an_embedded_dataset(name):
    settings = Settings(methods=("attention", "constant"), tries=6, temperatures=(0.25,))
    one = Found(datasets.load(name), settings)
    assert one.run_snippet() == [f"{one.field.own.test_score:.6f}"]


def test_a_held_out_target_changes_nothing_in_its_prediction(tmp_path):
    data = table("linear", tmp_path)
    settings = Settings(methods=("attention", "constant", "linear"), few_rows=0, tries=6)
    before = Found(data, settings)
    row = int(before.field.rows[7])
    y = data.y.copy()
    y[row] += 1000.0
    after = Found(type(data)(data.name, data.X, y), settings)
    for key in ("attention", "linear"):
        np.testing.assert_array_equal(before.field.of(key).outputs, after.field.of(key).outputs)


def test_many_rows_are_used_by_all_that_can(tmp_path):
    """Direct solutions take a sample, others all training rows, and the held-out rows are the same."""
    g = np.random.default_rng(0)
    X = g.standard_normal((900, 3))
    data = datasets.Dataset("many", X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * g.standard_normal(900))
    one = Found(data, Settings(max_rows=200, few_rows=100, trees=10, tries=6))
    rows = {fit.key: fit.rows for fit in one.field.scored}
    assert rows == {key: 140 if key in ("attention", "gaussian") else 630 for key in METHODS}
    assert len(one.field.rows) == 270
    assert one.field.of("centres").test_score > one.field.own.test_score
    assert "fitted to 140 of the 630 training rows" in one.winner
    assert one.run_snippet() == [f"{one.field.own.test_score:.6f}"]


def test_a_column_that_is_the_target_is_named_first():
    g = np.random.default_rng(0)
    X = g.standard_normal((120, 3))
    settings = Settings(methods=("attention", "constant", "linear"), few_rows=0, tries=6)
    y = X[:, 0] + g.standard_normal(120)
    data = datasets.Dataset("leak", np.column_stack([X, 2 * y + 1]), y, features=("a", "b", "c", "copy"), target="pay")
    one = Found(data, settings)
    assert one.advice.startswith("make sure that 'copy' is known before pay is")
    assert "-0.000" not in one.winner  # a difference too small for three digits is shown with an exponent
    assert not one.suspects.points  # its errors are rounding
    clean = Found(datasets.Dataset("clean", X, y), settings)
    assert "make sure" not in clean.advice
    codes = (y > 0).astype(np.int64)
    coded = datasets.Dataset("coded", np.column_stack([X, 5.0 * codes]), codes, "classification", ("no", "yes"))
    assert "make sure that 'x3' is known" in Found(coded, settings).advice


def test_repeated_rows_do_not_end_an_audit():
    """Without ridge to speak of, rows held out of a fit that has them twice cannot be told from the fit itself."""
    g = np.random.default_rng(7)
    X, y = np.repeat(g.standard_normal((30, 3)), 4, axis=0), np.repeat(g.integers(0, 2, 30), 4)
    data = datasets.Dataset("repeats", X, y, "classification", ("no", "yes"))
    settings = Settings(methods=("attention", "constant"), few_rows=0, ridges=(1e-6,), temperatures=(0.05,))
    splits, _ = make_splits(data, settings)
    field, certified = run_field(splits, settings)
    suspects = attempt(lambda: find_suspects(splits[0], certified.fit))
    advice = advise(splits[0], field, suspects)
    assert advice[0].startswith("look at repeated rows: 36 of the 36 held-out rows are also training rows")
    assert "flatters scores" in " ".join(splits[0].notes)


def test_a_few_extreme_targets_are_said_to_decide():
    g = np.random.default_rng(7)
    X = g.standard_normal((200, 2))
    settings = Settings(methods=("attention", "constant", "linear"), few_rows=0, tries=6)
    y = X[:, 0] + 0.1 * g.standard_normal(200)
    assert "extreme values" not in Found(datasets.Dataset("calm", X, y), settings).advice
    heavy = Found(datasets.Dataset("heavy", X, np.sign(y) * np.exp(8 * np.abs(y)), target="loss"), settings)
    assert "look at the extreme values of loss: 1 of the 60 held-out rows holds" in heavy.advice


def test_a_few_large_targets_do_not_hide_what_was_learnt():
    """Mostly zeros: R² is decided by a handful of rows, and no t interval of it excludes 0 although it is 0.97."""
    g = np.random.default_rng(7)
    X = np.where(g.random((300, 10)) < 0.05, g.integers(1, 9, (300, 10)), 0).astype(float)
    y = X[:, 0] + X[:, 1] - X[:, 2] + 0.2 * g.standard_normal(300)
    settings = Settings(methods=("attention", "constant", "linear"), few_rows=0, tries=6)
    one = Found(datasets.Dataset("sparse", X, y), settings)
    assert one.field.of("linear").test_score > 0.9
    assert one.field.of("linear") in one.field.learnt
    assert one.advice.startswith("use a linear model")
    shuffled = Found(datasets.Dataset("shuffled", X, g.permutation(y)), settings)
    assert not shuffled.field.learnt
