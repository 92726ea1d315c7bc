import torch

from ridgeformer.influence import AttentionFeatures, RawFeatures, UnitRows
from ridgeformer.kernels import DotProduct, GramPower
from tests.influence.influence_case import problem


def test_dot_products_of_attention_features_are_the_third_gram_power():
    X, _, Xq = problem()
    rows, queries = AttentionFeatures(normalise=False)(X, Xq)
    kernel = GramPower(3, X)
    torch.testing.assert_close(DotProduct()(rows), kernel(X))
    torch.testing.assert_close(DotProduct()(queries, rows), kernel(Xq, X))


def test_normalised_features_have_unit_length_and_a_training_row_is_a_query_like_any_other():
    X, _, _ = problem()
    rows, queries = AttentionFeatures()(X, X[:3])
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(len(X), dtype=torch.float64))
    torch.testing.assert_close(rows[:3], queries)


def test_raw_features_are_the_rows():
    X, _, Xq = problem()
    rows, queries = RawFeatures()(X, Xq)
    assert rows is X
    assert queries is Xq


def test_unit_rows_come_first_and_carry_gradients():
    X, _, Xq = problem()
    lengths = X.norm(dim=1, keepdim=True)
    for then in (RawFeatures(), AttentionFeatures()):
        rows, queries = UnitRows(then)(X, Xq)
        expected = then(X / lengths, Xq / Xq.norm(dim=1, keepdim=True))
        torch.testing.assert_close(rows, expected[0])
        torch.testing.assert_close(queries, expected[1])
    moving = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(UnitRows(RawFeatures())(moving, Xq)[0].sum(), moving)
    torch.testing.assert_close((gradient * X).sum(1), torch.zeros(len(X)).double(), atol=1e-12, rtol=0)


def test_few_rows_of_many_features_are_multiplied_in_the_cheaper_order():
    X, _, Xq = problem(n=3, d=7)
    rows, queries = AttentionFeatures(normalise=False)(X, Xq)
    torch.testing.assert_close(rows, X @ (X.T @ X))
    torch.testing.assert_close(queries, Xq @ (X.T @ X))
