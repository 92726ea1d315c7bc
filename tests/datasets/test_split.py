from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from ridgeformer import datasets, errors
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.datasets import Dataset, Split
from ridgeformer.datasets.columns import Column
from ridgeformer.datasets.dataset import oddities
from ridgeformer.datasets.encoding import standardise, unit_rows
from ridgeformer.datasets.split import number_folds


def test_unit_rows_have_unit_length_at_any_scale() -> None:
    X = np.random.default_rng(0).standard_normal((4, 3)) * np.array([[1.0], [1e-200], [1e200], [1e300]])
    U = unit_rows(X)
    assert np.allclose(np.linalg.norm(U, axis=1), 1, rtol=1e-14)
    assert np.allclose(U[0], X[0] / np.linalg.norm(X[0]), rtol=1e-14)


def test_unit_rows_names_the_first_zero_row_and_leaves_its_input() -> None:
    X = np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(InputError, match=r"row 1 is all zeros \(2 such rows in all\).*drop"):
        unit_rows(X)
    unit_rows(X[:1])
    assert X[0].tolist() == [1.0, 2.0]


def test_unit_rows_refuses_nan() -> None:
    with pytest.raises(InputError, match=r"NaN"):
        unit_rows([[np.nan, 1.0]])


def test_standardise_uses_the_train_statistics_only() -> None:
    draw = np.random.default_rng(0)
    train, test = draw.normal(3, 5, (50, 4)), draw.normal(9, 1, (20, 4))
    a, b = standardise(train, test)
    assert np.allclose(a.mean(0), 0, atol=1e-14)
    assert np.allclose(a.std(0), 1)
    assert np.allclose(b, (test - train.mean(0)) / train.std(0))
    assert (standardise(train, test[:1])[1] == b[:1]).all()


def test_a_constant_column_becomes_zero_everywhere() -> None:
    a, b = standardise(np.full((7, 1), 0.1), [[5.0]])
    assert not a.any()
    assert not b.any()


def test_one_matrix_gives_a_tuple_of_one() -> None:
    (only,) = standardise([[1.0], [3.0]])
    assert only.tolist() == [[-1.0], [1.0]]


def test_standardise_wants_the_same_columns() -> None:
    with pytest.raises(ShapeError, match=r"matrix 1 after train has 1 columns and train has 2"):
        standardise(np.ones((2, 2)), np.ones((2, 1)))


def test_statistics_come_from_the_training_rows_only():
    data = Split.of(datasets.load("diabetes"))
    assert float(data.X.mean(0).abs().max()) < 1e-12
    assert float(data.y.mean().abs()) < 1e-10
    assert float(data.Xt.mean(0).abs().max()) > 1e-3


def test_images_get_unit_rows():
    data = Split.of(datasets.load("digits"))
    torch.testing.assert_close(data.X.norm(dim=1), torch.ones(len(data.X), dtype=torch.float64))


def test_a_large_dataset_is_sampled_and_the_notes_say_so():
    data = Split.of(datasets.load("digits"), max_rows=200)
    assert len(data.X) + len(data.Xt) == 200
    assert any("Only 200 of 1,797 rows" in note for note in data.notes)


def test_rows_keep_their_numbers():
    digits = datasets.load("digits")
    data = Split.of(digits, max_rows=200, preprocessing="none")
    assert len(set(data.rows) | set(data.rows_t)) == 200
    np.testing.assert_array_equal(data.X.numpy(), digits.X[data.rows])
    np.testing.assert_array_equal(data.Xt.numpy(), digits.X[data.rows_t])
    assert digits.y[data.rows].tolist() == data.labels.tolist()
    assert digits.y[data.rows_t].tolist() == data.labels_t.tolist()
    whole = Split.of(datasets.load("diabetes"))
    torch.testing.assert_close(whole.yt[:, 0] + whole.mean, torch.from_numpy(datasets.load("diabetes").y[whole.rows_t]))


@pytest.mark.parametrize("rows", [200, 1797])
def test_it_draws_as_a_dataset_does(rows):
    digits = datasets.load("digits")
    drawn = digits.sample(rows, 3) if rows < digits.n else digits
    train, test = drawn.split(0.25, 3)
    data = Split.of(digits, max_rows=rows, test_fraction=0.25, seed=3, preprocessing="none")
    np.testing.assert_array_equal(data.X.numpy(), train.X)
    np.testing.assert_array_equal(data.Xt.numpy(), test.X)


@pytest.mark.parametrize("row", range(0, 178, 23))
@pytest.mark.parametrize("preprocessing", ["unit_rows", "standardise"])
def test_a_row_set_aside_leaves_no_trace_in_the_training_rows(row, preprocessing):
    wine = datasets.load("wine")
    data = Split.of(wine, held_out=row, max_rows=100, preprocessing=preprocessing)
    assert row not in data.rows
    assert data.rows_t[-1] == row
    assert len(data.X) + len(data.Xt) == 100
    X, y = wine.X.copy(), wine.y.copy()
    X[row], y[row] = 1e6, (y[row] + 1) % 3
    other = Split.of(replace(wine, X=X, y=y), held_out=row, max_rows=100, preprocessing=preprocessing)
    for name in ("X", "y", "mean", "labels"):
        assert torch.equal(getattr(data, name), getattr(other, name))
    np.testing.assert_array_equal(data.rows_t, other.rows_t)


@pytest.mark.parametrize("row", [-1, 178, True])
def test_no_such_row(row):
    with pytest.raises(errors.InputError, match=r"wine has no row .*: it has rows 0 to 177"):
        Split.of(datasets.load("wine"), held_out=row)


def test_scores_are_those_of_scikit_learn():
    from sklearn.metrics import accuracy_score, r2_score

    digits, diabetes = (Split.of(datasets.load(name)) for name in ("digits", "diabetes"))
    outputs = torch.randn(digits.yt.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = accuracy_score(digits.labels_t, (outputs + digits.mean).argmax(1))
    assert digits.score(outputs) == pytest.approx(expected)
    assert digits.error(outputs) == pytest.approx(1 - expected)
    guess = 0.5 * diabetes.yt + 3
    assert diabetes.score(guess) == pytest.approx(r2_score(diabetes.yt, guess))
    assert diabetes.error(diabetes.yt + 2) == pytest.approx(4)


def test_rows_in_words():
    wine, diabetes = (Split.of(datasets.load(name)) for name in ("wine", "diabetes"))
    assert wine.describe_target(0) == wine.classes[int(wine.labels_t[0])]
    assert wine.describe_outputs(wine.y[3]) == wine.describe_target(3, train=True)
    assert float(diabetes.describe_target(5)) == pytest.approx(diabetes.dataset.y[diabetes.rows_t[5]])


def test_networks_are_given_unit_rows_that_nobody_else_has():
    split = Split.for_networks(datasets.load("digits"), rows=60, test_rows=40, seed=3)
    assert (split.X.shape, split.y.shape) == ((60, 64), (60, 10))
    assert (split.Xt.shape, split.yt.shape) == ((40, 64), (40, 10))
    torch.testing.assert_close(split.X.norm(dim=1), torch.ones(60, dtype=torch.float64))
    assert not set(split.rows) & set(split.rows_t)


def test_networks_classes_are_coded_as_asked():
    digits = datasets.load("digits")
    three = Split.for_networks(digits, rows=30, test_rows=10, classes=("1", "4", "7"), coding="one_hot")
    assert three.y.shape == (30, 3)
    assert three.y.sum(1).unique().tolist() == [1.0]
    assert three.error(three.yt) == 0
    two = Split.for_networks(digits, rows=30, test_rows=10, classes=("4", "1"))
    assert sorted(two.y.unique().tolist()) == [-1.0, 1.0]
    assert two.classes == ("1", "4")
    assert two.error(two.yt) == 0
    assert two.error(-two.yt) == 1


def test_standardised_unit_rows():
    split = Split.for_networks(datasets.load("digits"), rows=60, test_rows=40, preprocessing="both")
    plain = Split.for_networks(datasets.load("digits"), rows=60, test_rows=40, preprocessing="none")
    X, Xt = (rows[:, plain.X.std(0).numpy() > 0] for rows in datasets.standardise(plain.X, plain.Xt))
    np.testing.assert_allclose(split.Xt.numpy(), datasets.unit_rows(Xt))
    np.testing.assert_allclose(split.X.numpy(), datasets.unit_rows(X))


def test_networks_are_given_tables_in_one_unit():
    diabetes = datasets.load("diabetes")
    columns = diabetes.X * 10.0 ** np.arange(diabetes.d)
    split = Split.for_networks(replace(diabetes, X=columns, y=1e6 * diabetes.y), rows=60, test_rows=30)
    plain = Split.for_networks(diabetes, rows=60, test_rows=30)
    torch.testing.assert_close(split.X, plain.X)
    torch.testing.assert_close(split.yt, plain.yt)
    torch.testing.assert_close(split.X.norm(dim=1), torch.ones(60, dtype=torch.float64))
    assert float(split.y.mean()) == pytest.approx(0, abs=1e-9)
    assert float(split.y.square().mean()) == pytest.approx(1)
    assert any("target was shifted and scaled" in note for note in split.notes)


def test_fewer_training_rows_and_the_same_rows_held_out():
    whole = Split.of(datasets.load("wine"))
    split = whole.with_training_rows(50, seed=1)
    assert set(split.rows) < set(whole.rows)
    np.testing.assert_array_equal(split.rows_t, whole.rows_t)
    assert np.bincount(split.labels).min() >= 12
    again = datasets.standardise(whole.dataset.X[split.rows], whole.dataset.X[split.rows_t])
    np.testing.assert_allclose(split.X, again[0])
    np.testing.assert_allclose(split.Xt, again[1])


def test_a_small_dataset_is_taken_whole():
    split = Split.for_networks(datasets.load("wine"), rows=5_000, test_rows=10, at_most=True)
    assert (len(split.X), len(split.Xt)) == (119, 59)


@pytest.mark.parametrize("name", ["wine", "digits", "diabetes"])
def test_a_draw_for_networks_keeps_both_parts_apart(name):
    split = Split.of(datasets.load(name), max_rows=150)
    drawn = split.draw_for_networks(40, 20, seed=1)
    assert set(drawn.rows) <= set(split.rows)
    assert set(drawn.rows_t) <= set(split.rows_t)
    torch.testing.assert_close(drawn.X.norm(dim=1), torch.ones(40, dtype=torch.float64))
    assert drawn.error(drawn.yt) == 0
    if split.classes:
        assert sorted(drawn.y.unique().tolist()) == [-1.0, 1.0]
        assert drawn.labels.tolist() == split.dataset.y[drawn.rows].tolist()
    else:
        assert float(drawn.y.square().mean()) == pytest.approx(1.0, rel=0.3)


def test_bad_data():
    digits, wine = datasets.load("digits"), datasets.load("wine")
    with pytest.raises(errors.InputError, match="needs at least 10"):
        Split.of(Dataset("tiny", np.eye(3), np.arange(3.0)))
    with pytest.raises(errors.UnknownNameError, match="did you mean 'standardise'"):
        Split.of(wine, preprocessing="standardize")
    with pytest.raises(errors.InputError, match="from 0 to below 1"):
        Split.of(wine, test_fraction=1.0)
    with pytest.raises(errors.InputError, match="ask for fewer"):
        Split.for_networks(digits, rows=1500, test_rows=1000)
    with pytest.raises(errors.InputError, match="one class"):
        Split.for_networks(digits, rows=20, test_rows=10, classes=("3",))
    with pytest.raises(errors.UnknownNameError, match="class 'x'"):
        Split.for_networks(digits, rows=20, test_rows=10, classes=("x", "3"))
    with pytest.raises(errors.UnknownNameError, match="coding"):
        Split.for_networks(digits, rows=20, test_rows=10, coding="twohot")
    zero = Dataset("zero", np.vstack([np.eye(3), np.zeros((1, 3))]), np.arange(4.0))
    with pytest.raises(errors.InputError, match="all zeros"):
        Split.for_networks(zero, rows=3, test_rows=1, preprocessing="unit_rows")


def parts(X, y, test, **options):
    data = Dataset("mine", np.array(X, dtype=float), np.array(y), **options)
    chosen = np.isin(np.arange(data.n), test)
    return data.subset(~chosen), data.subset(chosen)


def test_ordinary_rows_have_none():
    assert oddities(*parts([[1, 2], [3, 4], [5, 6]], [1.0, 2.0, 3.0], [2])) == ()


def test_constant_columns_are_named():
    X = np.column_stack([np.arange(4.0), *(np.full(4, j) for j in range(7))])
    (said,) = oddities(*parts(X, [1.0, 2.0, 3.0, 4.0], [3]))
    assert (
        said == "7 of the 8 features are the same in every training row and say nothing: x1, x2, x3, x4, x5 and 2 more."
    )


def test_repeats_leaks_and_disagreement():
    said = oddities(*parts([[1, 1], [2, 3], [1, 1], [4, 5], [2, 3]], [1.0, 2.0, 1.0, 4.0, 9.0], [2, 4]))
    assert said == (
        "2 of the 5 rows repeat an earlier row; 2 of the 2 held-out rows are also training rows, which flatters "
        "scores.",
        "1 of the repeats have another target, so no method can get every row right.",
    )


def test_repeats_within_the_training_rows_leak_nothing():
    (said,) = oddities(*parts([[1, 1], [1, 1], [4, 5], [6, 7]], [1.0, 1.0, 4.0, 2.0], [3]))
    assert said == "1 of the 4 rows repeat an earlier row."


def test_classes_that_no_training_row_has():
    options = {"task": "classification", "classes": ("a", "b", "c")}
    (said,) = oddities(*parts([[1, 2], [3, 4], [5, 6]], [0, 1, 2], [2], **options))
    assert said == "No training row is of class c, so none can be predicted."


def mixed(n=60, **options):
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.standard_normal(n), generator.integers(0, 3, n), generator.standard_normal(n)])
    X[::7, 0], X[::9, 1] = np.nan, np.nan
    columns = (Column("a"), Column("b", "category", ("u", "v", "w")), Column("c"))
    return Dataset("mixed", X, generator.standard_normal(n), columns=columns, **options)


def test_the_encoder_belongs_to_the_model_and_sees_training_rows_only():
    data = mixed()
    split = Split.of(data)
    fitted = clone(split.encoder).fit(data.X[split.rows])
    np.testing.assert_array_equal(split.Xt.numpy(), fitted.transform(data.X[split.rows_t]))
    assert split.X.shape[1] == 3 + 4  # two numbers, one mark of holes, three levels and a hole
    X = data.X.copy()
    X[split.rows_t] = 1.0
    assert torch.equal(split.X, Split.of(replace(data, X=X)).X)


def test_groups_stay_together_and_times_come_last():
    groups = np.random.default_rng(1).integers(0, 12, 60)
    split = Split.of(mixed(groups=groups))
    assert not set(groups[split.rows]) & set(groups[split.rows_t])
    assert 10 <= len(split.rows_t) <= 25
    times = np.random.default_rng(2).permutation(60)
    split = Split.of(mixed(times=times))
    assert times[split.rows].max() < times[split.rows_t].min()
    with pytest.raises(InputError, match="has 2 groups"):
        Split.of(mixed(groups=np.arange(60) % 2))


def test_folds_hold_every_row_out_once_and_no_fraction_holds_none():
    wine = datasets.load("wine")
    folds = [Split.of(wine, fold=(k, 5)) for k in range(5)]
    assert sorted(np.concatenate([fold.rows_t for fold in folds]).tolist()) == list(range(178))
    for fold in folds:
        assert not set(fold.rows) & set(fold.rows_t)
        assert np.ptp(np.bincount(wine.y[fold.rows_t]) / np.bincount(wine.y)) < 0.04
    whole = Split.of(wine, test_fraction=0.0)
    assert torch.equal(whole.X, whole.Xt)
    assert len(whole.X) == 178
    grouped = mixed(groups=np.arange(60) // 6)
    numbers = number_folds(grouped, np.arange(60), 5, 0)
    assert [len(set(numbers[6 * g : 6 * g + 6])) for g in range(10)] == [1] * 10
