"""The fast run gives what the literal one gives, for every program, and notices when weights change."""

import pytest
import torch
from tasks import MODELS, model, task

from ridgeformer.compiler.execution import run_literally
from ridgeformer.compiler.execution.operations import Operation, sequence
from ridgeformer.compiler.trace import collect


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


def test_other_sequence_lengths_get_their_own_plan():
    net = model("softmax cg", steps=3)
    for k in (4, 9, 4):
        X, y, Xq = task(k=k)
        trace, _ = net.run_with_cache(X, y, Xq)
        torch.testing.assert_close(net(X, y, Xq), trace.f[-1], rtol=1e-9, atol=1e-12)


def test_operations_in_place_read_what_was_there_before():
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        pick = lambda n: int(torch.randint(n, (1,), generator=generator))  # noqa: E731
        operations = [
            Operation(pick(4), (pick(4),), float(pick(5) - 2), pick(4))
            if pick(3) == 0
            else Operation(pick(4), (pick(4), pick(4)), float(pick(5) - 2))
            for _ in range(1 + pick(5))
        ]
        rows = list(torch.rand(4, 6, generator=generator, dtype=torch.float64) + 0.5)
        expected = [row.clone() for row in rows]
        for op in operations:
            other = 1 / rows[op.divisor] if op.divisor is not None else rows[op.factors[1]]
            expected[op.target] += op.coefficient * rows[op.factors[0]] * other
        sequence(operations).apply(rows)
        for found, wanted in zip(rows, expected, strict=True):
            torch.testing.assert_close(found, wanted)
