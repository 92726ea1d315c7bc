import pytest

from ridgeformer.core.errors import InputError
from ridgeformer.language.expressions import Term, parse


def test_constants_fold_and_signs_carry():
    assert parse("-2 * p + ridge * r - o / a / 4", {"ridge": 0.5}) == (
        Term(-2.0, ("p",)),
        Term(0.5, ("r",)),
        Term(-0.25, ("o",), "a"),
    )
    assert parse("one / epsilon / share", {"epsilon": 0.5}) == (Term(2.0, ("one",), "share"),)


@pytest.mark.parametrize("text", ["a * b * c", "1 / a", "a / (b + c)", "a ** 2", "f(a)", "a / b / c", "3", "a * b / c"])
def test_what_one_unit_cannot_do(text):
    with pytest.raises(InputError, match=r"unit|sum of products"):
        parse(text, {})
