import torch
from influence_case import problem

from ridgeformer.influence import AttentionFeatures, RawFeatures
from ridgeformer.kernels import DotProduct, GramPower


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
