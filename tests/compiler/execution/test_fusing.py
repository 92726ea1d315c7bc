"""Joined instructions give what they gave one by one, and only those are joined that may be."""

from ridgeformer.compiler.execution.fusing import Joined, join
from ridgeformer.compiler.execution.kernel import Code
from ridgeformer.compiler.execution.values import Made


def scale(to, base, a, b=1, low=0, high=9):
    return Made(Code.SCALE, to, base, a, b, low, high, 2.0)


def dot(to, a, b, low=0, high=9):
    return Made(Code.DOT, to, 0, a, b, low, high, 1.0)


def test_a_chain_is_one_sum_of_terms_on_the_base_of_the_first():
    (found,) = join([scale(5, 4, 2), scale(6, 5, 3), scale(7, 6, 2)])
    assert (found.code, found.to, found.base) == (Code.LINEAR, (7,), 4)
    assert found.terms == ((2, 1, 2.0), (3, 1, 2.0), (2, 1, 2.0))
    assert set(found.reads) == {1, 2, 3, 4}


def test_what_something_else_reads_stays():
    chain = [scale(5, -1, 2), scale(6, 5, 3), dot(7, 5, 6)]
    assert join(chain) == chain


def test_other_tokens_or_other_kinds_of_terms_are_not_joined():
    assert len(join([scale(5, -1, 2), scale(6, 5, 3, low=1)])) == 2
    assert len(join([scale(5, -1, 2), Made(Code.MULTIPLY, 6, 5, 3, 4, 0, 9, 1.0)])) == 2


def test_a_term_that_is_its_own_base_is_not_lost():
    """y + y: the base is read twice, so it stays a value of its own."""
    chain = [scale(5, -1, 2), scale(6, 5, 5)]
    assert join(chain) == chain


def test_products_of_pairs_are_joined_as_well():
    (found,) = join([Made(Code.MULTIPLY, 5, -1, 2, 3, 0, 9, 1.0), Made(Code.MULTIPLY, 6, 5, 3, 4, 0, 9, -1.0)])
    assert found.code == Code.BILINEAR
    assert found.rows == (2, 3, 3, 4)


def test_neighbouring_inner_products_with_one_row_are_one_pass():
    (found,) = join([dot(5, 2, 3), dot(6, 4, 2), dot(7, 2, 2)])
    assert isinstance(found, Joined)
    assert (found.code, found.to, found.a) == (Code.DOTS, (5, 6, 7), 2)
    assert [row for row, _, _ in found.terms] == [3, 4, 2]
    assert len(join([dot(5, 2, 3), dot(6, 4, 1)])) == 2
    assert len(join([dot(5, 2, 3), dot(6, 4, 2, high=8)])) == 2
    assert len(join([dot(5, 2, 3), Made(Code.DOT, 6, 5, 2, 4, 0, 9, 1.0)])) == 2  # onto another scalar
