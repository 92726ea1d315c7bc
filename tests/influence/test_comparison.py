import math

import pytest
import torch
from scipy.stats import spearmanr

from ridgeformer.influence.comparison import compare, rank_correlation, top_rows
from tests.influence.influence_case import draw


def test_every_figure_is_what_a_plain_loop_counts():
    before, after = draw(40, 6, purpose="before"), draw(40, 6, purpose="after") + draw(40, 6, purpose="before")
    top = top_rows(before.mean(1), 7)
    found = compare(before, after, top)
    flips = [[bool(before[i, q] * after[i, q] < 0) for q in range(6)] for i in range(40)]
    means = [bool(before[i].mean() * after[i].mean() < 0) for i in range(40)]
    assert found.flips_top == pytest.approx(sum(means[i] for i in top) / 7)
    assert found.flips_all == pytest.approx(sum(means) / 40)
    assert found.pair_flips_top == pytest.approx(sum(flips[i][q] for i in top for q in range(6)) / 42)
    assert found.pair_flips_all == pytest.approx(sum(map(sum, flips)) / 240)
    assert found.flips_per_query.tolist() == pytest.approx([sum(flips[i][q] for i in top) / 7 for q in range(6)])
    assert found.spearman == pytest.approx(spearmanr(before.mean(1), after.mean(1)).statistic)
    each = [spearmanr(before[:, q], after[:, q]).statistic for q in range(6)]
    assert found.pair_spearman == pytest.approx(sum(each) / 6)

    def strongest(column):
        return set(sorted(range(40), key=lambda i: -abs(float(column[i])))[:7])

    assert set(top.tolist()) == strongest(before.mean(1))
    assert found.overlap == pytest.approx(len(strongest(before.mean(1)) & strongest(after.mean(1))) / 7)
    own = [len(strongest(before[:, q]) & strongest(after[:, q])) / 7 for q in range(6)]
    assert found.pair_overlap == pytest.approx(sum(own) / 6)


def test_nothing_changed():
    table = draw(20, 3, purpose="table")
    found = compare(table, table, torch.tensor([0, 1]))
    assert (found.flips_top, found.flips_all, found.pair_flips_all) == (0, 0, 0)
    assert (found.spearman, found.overlap, found.pair_overlap) == (pytest.approx(1), 1, 1)


def test_ties_have_their_mean_rank_and_a_constant_has_no_ranks():
    one, other = torch.tensor([1.0, 1.0, 2.0, 3.0]), torch.tensor([4.0, 1.0, 1.0, 5.0])
    assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert math.isnan(rank_correlation(torch.ones(3), torch.tensor([1.0, 2.0, 3.0])))


def test_an_influence_that_becomes_zero_has_not_flipped():
    assert compare(torch.tensor([[1.0]]), torch.tensor([[0.0]]), torch.tensor([0])).flips_all == 0
