"""A weight that changes is noticed, whoever changed it and however; a weight that does not is not read twice."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import ridgeformer as rf
from ridgeformer.compiler.execution import fast, run_literally
from ridgeformer.compiler.execution.weights import Snapshot
from ridgeformer.programs import PROGRAMS
from tests.compiler.tasks import task


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(fast, "LEAST_WORK", 0)


def fista(**options):
    return rf.compile(PROGRAMS["fista"](steps=3), features=4, **options)


def literal(net, X, y, Xq):
    given = net._check(X, y, Xq).given
    *_, (_, _, found) = run_literally(net, net.stream(*given), net.tokens(len(X), len(Xq)))
    return found


def gate(net, step=1):
    """A gated sublayer of the second step, with the place of a weight of it that is not zero."""
    layer = next(layer for layer in net.steps[step].modules() if hasattr(layer, "W_d"))
    return layer, tuple(layer.W_d.nonzero()[0].tolist())


def through_data(net):
    layer, place = gate(net)
    layer.W_d.data[place] *= 1.5


def through_an_array(net):
    layer, place = gate(net)
    layer.W_d.numpy()[place] *= 1.5


def through_a_detached_view(net):
    layer, _ = gate(net)
    layer.W_d.detach().view(-1)[:].mul_(1.5)


def in_place(net):
    layer, place = gate(net)
    with torch.no_grad():
        layer.W_d[place] *= 1.5


def in_inference_mode(net):
    layer, place = gate(net)
    with torch.inference_mode():
        layer.W_d[place] *= 1.5


def by_a_state_dict(net):
    layer, _ = gate(net)
    state = {name: weight.clone() for name, weight in net.state_dict().items()}
    for name, weight in net.named_parameters(remove_duplicate=False):  # steps share it
        state[name] *= 1.5 if weight is layer.W_d else 1.0
    net.load_state_dict(state)


def by_an_assigned_state_dict(net):
    layer, _ = gate(net)
    other = layer.W_d * 1.5
    names = [name for name, weight in net.named_parameters(remove_duplicate=False) if weight is layer.W_d]
    net.load_state_dict(net.state_dict() | dict.fromkeys(names, other), assign=True)


def by_another_parameter(net):
    layer, _ = gate(net)
    layer.W_d = nn.Parameter(layer.W_d * 1.5, requires_grad=False)


def by_other_data(net):
    layer, _ = gate(net)
    layer.W_d.data = layer.W_d.data * 1.5


def by_exchanged_tensors(net):
    first, second = (gate(net, step)[0] for step in (0, 2))
    first.W_d, second.W_d = second.W_d, first.W_d
    through_data(net)


def in_a_parameter_list(net):
    layer = next(layer for layer in net.steps[1].modules() if hasattr(layer, "W_O"))
    layer.W_O[0] = nn.Parameter(layer.W_O[0] * 1.5, requires_grad=False)


def by_another_module(net):
    number = next(n for n, layer in enumerate(net.steps[1]) if hasattr(layer, "W_d"))
    other = copy.deepcopy(net.steps[1][number])
    other.W_d.data *= 1.5
    net.steps[1][number] = other


def a_zero_that_is_none(net):
    layer, _ = gate(net)
    layer.W_d.view(-1)[int((layer.W_d.view(-1) == 0).nonzero()[-1])] = 1e-3


def in_the_embedding(net):
    net.embed["support"].data[:5] *= 1.5


EDITS = (
    through_data, through_an_array, through_a_detached_view, in_place, in_inference_mode, by_a_state_dict,
    by_an_assigned_state_dict, by_another_parameter, by_other_data, by_exchanged_tensors, in_a_parameter_list,
    by_another_module, a_zero_that_is_none, in_the_embedding,
)  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_any_kind_changes_the_answers(edit):
    net, given = fista(), task(p=4)
    before = net(*given)
    assert net._plans.started  # it has run in the kernel, so bits are compared there
    torch.testing.assert_close(net(*given), before, rtol=0, atol=0)
    edit(net)
    after = net(*given)
    torch.testing.assert_close(after, literal(net, *given))
    if edit is not a_zero_that_is_none:
        assert float((after - before).abs().max()) > 1e-4


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_single_number_counts(compiled, dtype):
    """The smallest change of each of many numbers, zero or not, first and last of their tensors among them."""
    net = fista(dtype=dtype)
    kept = Snapshot(net)
    rng = np.random.default_rng(0)
    assert kept.together()
    assert kept.unchanged(compiled)
    for weight in net.parameters():
        flat = weight.detach().numpy().reshape(-1)
        for place in {0, len(flat) - 1, *rng.integers(len(flat), size=2)}:
            saved = flat[place]
            flat[place] = np.nextafter(saved, np.inf, dtype=flat.dtype)
            assert not kept.unchanged(compiled)
            flat[place] = saved
    assert kept.unchanged(compiled)


def test_not_a_number_and_minus_zero():
    net = fista()
    kept = Snapshot(net)
    layer, place = gate(net)
    kept.unchanged(compiled=True)
    for number in (torch.nan, torch.inf):
        saved = float(layer.W_d[place])
        layer.W_d[place] = number
        assert not kept.unchanged(compiled=True)
        layer.W_d[place] = saved
    nan = Snapshot(net)
    assert nan.unchanged(compiled=True)


@pytest.mark.parametrize("change", [
    lambda p: setattr(p, "data", p.data[:1]),
    lambda p: setattr(p, "data", p.data.T),
    lambda p: setattr(p, "data", p.data.float()),
    lambda p: setattr(p, "data", p.data.clone()),
    lambda p: p.data.untyped_storage().resize_(0),
])  # fmt: skip
def test_another_shape_order_precision_or_place_is_another_weight(change):
    layer = nn.Linear(3, 3).double()
    kept = Snapshot(layer)
    assert kept.together()
    change(layer.weight)
    assert not kept.together()


def test_what_is_added_or_taken_away_is_noticed():
    for change in (
        lambda m: m.append(nn.Linear(2, 2)),
        lambda m: m.pop(0),
        lambda m: m[0].register_parameter("more", nn.Parameter(torch.ones(1))),
        lambda m: m[0].register_parameter("bias", None),
    ):
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        kept = Snapshot(model)
        assert kept.together()
        change(model)
        assert not kept.together()


def test_copies_plan_for_themselves():
    net, given = fista(), task(p=4)
    before = net(*given)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other._plans.kept is None
        through_data(other)
        assert torch.equal(net(*given), before)
        torch.testing.assert_close(other(*given), literal(other, *given))
        assert not torch.allclose(other(*given), before)


def test_a_weight_that_wants_a_gradient_gets_one_after_a_run_in_the_kernel():
    net, given = fista(), task(p=4)
    before = net(*given)
    layer, place = gate(net)
    layer.W_d.requires_grad_(True)
    found = net(*given)
    torch.testing.assert_close(found, before)
    (slope,) = torch.autograd.grad(found.sum(), layer.W_d)
    h, saved = 1e-6, layer.W_d[place].item()
    with torch.no_grad():
        layer.W_d[place] += h
        moved = float(net(*given).sum() - before.sum()) / h
        layer.W_d[place] = saved
        assert torch.equal(net(*given), before)
    assert abs(moved - float(slope[place])) < 1e-4 * max(1.0, abs(moved))
