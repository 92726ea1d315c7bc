"""The fast run gives what the literal one gives, for every program, and notices when weights change."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.compiler.execution import run_literally
from ridgeformer.compiler.execution.fast import SEQUENCES, _State
from ridgeformer.compiler.execution.operations import Operation, Rows, update
from ridgeformer.compiler.reports import collect
from ridgeformer.compiler.sublayers import GatedMLP
from ridgeformer.programs import PROGRAMS
from tests.compiler.tasks import MODELS, model, task


@pytest.mark.parametrize("tasks", [None, 3])
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_literal_run(name, tasks):
    X, y, Xq = task(outputs=2, tasks=tasks)
    net = model(name, outputs=2, steps=3)
    tokens = net.tokens(X.shape[-2], Xq.shape[-2])
    literal = collect(run_literally(net, net.stream(X, y, Xq), tokens), 3)
    fast = net.trace(X, y, Xq)
    tolerance = 1e-7 if name == "imitation" else 1e-11  # it multiplies round-off by n / epsilon
    for channel, expected in literal.values.items():
        torch.testing.assert_close(
            fast.values[channel], expected, rtol=1e-9, atol=tolerance * float(expected.abs().max()), msg=channel
        )


def test_a_changed_weight_changes_the_result():
    X, y, Xq = task()
    net = model("softmax cg", steps=3)
    before = net(X, y, Xq)
    net.steps[0][0].W_V[0].data.mul_(1.01)
    assert not torch.equal(net(X, y, Xq), before)


def literally(net, X, y, Xq):
    return net.run_with_hook(lambda *_: None, X, y, Xq).f[-1]


def negate_gates(net):
    for sublayer in net.steps[0]:
        if isinstance(sublayer, GatedMLP) and "reciprocal" in sublayer.gates:
            sublayer.W_b.detach().neg_()


def unscore(net):
    net.steps[0][0].W_Q[0].detach().zero_()


@pytest.mark.parametrize(("name", "change"), [("softmax cg", negate_gates), ("linear cg", unscore)])
def test_any_weights_run_as_they_do_literally(name, change):
    """A guard is for what the gate sees, minus the divisor here; linear attention with no scores brings nothing."""
    X, y, Xq = task()
    net = model(name, steps=2)
    sound = net(X, y, Xq)
    change(net)
    torch.testing.assert_close(net(X, y, Xq), literally(net, X, y, Xq))
    assert not torch.allclose(net(X, y, Xq), sound)


def test_what_overflows_where_nobody_reads_it_spoils_nothing():
    """Queries of size 1e160 have an infinite product with each other, which no mask lets through."""
    X, y, Xq = task()
    net = model("linear cg", steps=3)
    expected = net(X, y, Xq)
    torch.testing.assert_close(net(X, y, Xq * 1e160) / 1e160, expected)
    torch.testing.assert_close(literally(net, X, y, Xq * 1e160) / 1e160, expected)


@pytest.mark.parametrize("name", ["softmax chebyshev", "softmax cg", "softmax richardson, given step"])
def test_steps_with_weights_of_their_own_share_a_pattern(name, monkeypatch):
    formed = []
    form = _State._form
    monkeypatch.setattr(_State, "_form", lambda self, *given: formed.append(1) or form(self, *given))
    model(name, steps=5, tied=False)(*task())
    assert len(formed) == 1


def test_other_sequence_lengths_get_their_own_plan():
    net = model("softmax cg", steps=3)
    for k in (4, 9, 4):
        X, y, Xq = task(k=k)
        trace, _ = net.run_with_cache(X, y, Xq)
        torch.testing.assert_close(net(X, y, Xq), trace.f[-1], rtol=1e-9, atol=1e-12)


def test_plans_of_old_lengths_are_let_go():
    net = model("softmax cg", steps=2)
    for k in range(2, 2 + 2 * SEQUENCES):
        net(*task(k=k))
    assert len(net._plans.moves) == SEQUENCES


def test_operations_read_what_was_there_before():
    generator = torch.Generator().manual_seed(0)
    pick = lambda n: int(torch.randint(n, (1,), generator=generator))  # noqa: E731
    cleared = 0
    for _ in range(600):
        operations = [_operation(pick) for _ in range(1 + pick(6))]
        stream = torch.rand(2, 6, 4, generator=generator, dtype=torch.float64) + 0.5
        shared = stream[:, :1, 3].expand(2, 6)  # a row that holds the same on every token
        expected = [*stream[..., :3].clone().unbind(-1), shared.clone()]
        before = [row.clone() for row in expected]
        for op in operations:
            other = 1 / before[op.divisor] if op.divisor is not None else torch.ones(2, 6, dtype=torch.float64)
            for factor in op.factors:
                other = other * before[factor]
            for part in op.where or (slice(0, 6),):
                expected[op.target][:, part] += op.coefficient * other[:, part]
        rows = Rows(stream)
        rows[3] = stream[:, :1, 3]
        steps = update(operations)
        steps.apply(rows)
        cleared += len(steps.cleared)
        for column, wanted in enumerate(expected):
            torch.testing.assert_close(rows.full(column), wanted)
    assert cleared > 50  # such operations were among them


def _operation(pick):
    target, kind = pick(4), pick(5)
    where = (slice(0, 2), slice(3, 5)) if pick(4) == 0 else None
    if kind == 0:
        return Operation(target, (pick(4),), float(pick(5) - 2), pick(4))
    if kind == 1:
        return Operation(target, (target,), -1.0)
    return Operation(target, tuple(pick(4) for _ in range(kind - 1)), float(pick(5) - 2), None, where)


def test_a_product_of_weights_beyond_the_precision_is_refused_as_an_overflow():
    X, y, Xq = task(dtype=torch.float32)
    net = model("linear cg", ridge=1e12, dtype="float32", steps=2)
    net.steps[0][0].W_V[1].detach().mul_(1e30)  # the head that multiplies by the ridge
    with pytest.raises(errors.InputError, match="r is not finite in step 1"):
        net.trace(X, y, Xq)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_fast_as_they_run_literally(name):
    """Blocks of columns, heads over a token and the aggregator, causal masks: in one task and in a batch."""
    program = PROGRAMS[name](steps=1 if name == "nearest_neighbour" else 2)
    net = rf.compile(program, features=4)
    for X, y, Xq in (task(p=4), task(p=4, tasks=3)):
        tokens = net.tokens(X.shape[-2], Xq.shape[-2])
        literal = list(run_literally(net, net.stream(X, y, Xq), tokens))
        fast = list(net.readings(X, y, Xq))
        assert len(literal) == len(fast)
        for (_, record, expected), (_, _, found) in zip(literal, fast, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11, msg=record.name)


def test_operations_on_neighbouring_columns_are_one_block():
    product = [Operation(6 + i, (i, 9), 2.0) for i in range(3)]
    inner = [Operation(9, (i, 3 + i), 1.0) for i in range(3)]
    relu = [Operation(3 + i, (), -1.0, rectified=((i, 1.0), (9, 0.5))) for i in range(3)]
    together = update([*product, *inner, *relu, Operation(0, (1,), 1.0)])
    assert (len(together.groups), len(together.actions)) == (3, 1)
    stream = torch.randn(2, 5, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows, one_by_one = Rows(stream), Rows(stream)
    together.apply(rows)
    before = list(one_by_one)
    for operation in (*product, *inner, *relu, Operation(0, (1,), 1.0)):
        operation.action(one_by_one, before)
    torch.testing.assert_close(rows.stack(range(10)), one_by_one.stack(range(10)), rtol=1e-14, atol=1e-14)
