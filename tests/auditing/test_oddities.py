import numpy as np

from ridgeformer.auditing.oddities import oddities
from ridgeformer.datasets import Dataset


def split(X, y, test, **options):
    data = Dataset("mine", np.array(X, dtype=float), np.array(y), **options)
    chosen = np.isin(np.arange(data.n), test)
    return data.subset(~chosen), data.subset(chosen)


def test_ordinary_rows_have_none():
    assert oddities(*split([[1, 2], [3, 4], [5, 6]], [1.0, 2.0, 3.0], [2])) == ()


def test_constant_columns_are_named():
    X = np.column_stack([np.arange(4.0), *(np.full(4, j) for j in range(7))])
    (said,) = oddities(*split(X, [1.0, 2.0, 3.0, 4.0], [3]))
    assert (
        said == "7 of the 8 features are the same in every training row and say nothing: x1, x2, x3, x4, x5 and 2 more."
    )


def test_repeats_leaks_and_disagreement():
    said = oddities(*split([[1, 1], [2, 3], [1, 1], [4, 5], [2, 3]], [1.0, 2.0, 1.0, 4.0, 9.0], [2, 4]))
    assert said == (
        "2 of the 5 rows repeat an earlier row; 2 of the 2 held-out rows are also training rows, which flatters "
        "scores.",
        "1 of the repeats have another target, so no method can get every row right.",
    )


def test_repeats_within_the_training_rows_leak_nothing():
    (said,) = oddities(*split([[1, 1], [1, 1], [4, 5], [6, 7]], [1.0, 1.0, 4.0, 2.0], [3]))
    assert said == "1 of the 4 rows repeat an earlier row."


def test_classes_that_no_training_row_has():
    options = {"task": "classification", "classes": ("a", "b", "c")}
    (said,) = oddities(*split([[1, 2], [3, 4], [5, 6]], [0, 1, 2], [2], **options))
    assert said == "No training row is of class c, so none can be predicted."
