from __future__ import annotations

from dataclasses import replace

from ridgeformer.datasets.embedded import DIABETES, DIGITS
from ridgeformer.datasets.dataset import Entry
from ridgeformer.datasets.published import MNIST


def test_every_kind_of_entry_is_one() -> None:
    assert isinstance(DIGITS, Entry)
    assert isinstance(MNIST, Entry)


def test_a_record_prints_what_to_do_when_not_fetched() -> None:
    shown = str(MNIST.info())
    assert "60,000 train + 10,000 test, 784 features" in shown
    assert "no: run `ridgeformer data fetch mnist`" in shown
    assert "ready     yes" in str(replace(MNIST.info(), fetched=True))


def test_a_regression_prints_no_classes() -> None:
    shown = str(DIABETES.info())
    assert "classes" not in shown
    assert "rows      442, 10 features" in shown
