import torch

from ridgeformer.seeds import torch_generator
from ridgeformer.solvers.preconditioners.neighbourhoods import neighbourhoods


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
