import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving.preconditioners.pivoted_cholesky import neighbourhoods, share_out


def test_groups_share_the_rows_out_evenly():
    Z = torch.randn(1000, 4, generator=torch_generator(0, "Z"))
    groups = neighbourhoods(Z, 130, torch_generator(0, "groups"))
    assert sorted(torch.cat(groups).tolist()) == list(range(1000))
    assert {len(group) for group in groups} == {125}


def test_groups_hold_rows_that_are_near():
    centres = 50 * torch.eye(4)
    Z = centres.repeat(25, 1) + torch.randn(100, 4, generator=torch_generator(0, "Z"))
    groups = neighbourhoods(Z, 25, torch_generator(0, "groups"))
    assert sorted(len(set((group % 4).tolist())) for group in groups) == [1, 1, 1, 1]


def test_equal_rows_are_shared_out_too():
    groups = neighbourhoods(torch.ones(10, 2), 4, torch_generator(0, "groups"))
    assert sorted(torch.cat(groups).tolist()) == list(range(10))
    assert max(len(group) for group in groups) <= 4


def test_no_column_is_chosen_more_often_than_it_has_room_and_the_first_choice_is_taken_where_there_is_room():
    score = torch.randn(60, 5, generator=torch_generator(0, "score"))
    roomy = share_out(score, 60)
    assert torch.equal(roomy, score.argmax(1))
    tight = share_out(score, 12)
    assert tight.bincount().tolist() == [12] * 5
    assert float(score.gather(1, tight[:, None]).sum()) > 0.6 * float(score.max(1).values.sum())


def test_the_groups_do_not_depend_on_where_the_rows_lie_nor_on_their_unit():
    Z = torch.randn(60, 3, generator=torch_generator(0, "Z"))
    first, second = (neighbourhoods(rows, 20, torch_generator(0, "groups")) for rows in (Z, 3 * Z + 7))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_rows_of_any_size_have_their_groups(unit):
    Z = torch.randn(60, 3, generator=torch_generator(0, "Z"), dtype=torch.float64)
    first, second = (neighbourhoods(rows, 20, torch_generator(0, "groups")) for rows in (Z, 2.0**50 * Z))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert sorted(torch.cat(neighbourhoods(unit * Z, 20, torch_generator(0, "groups"))).tolist()) == list(range(60))
