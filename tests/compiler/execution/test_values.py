"""What is known before any data: rows that depend on none, tokens where a row is zero, patterns and ratios."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.execution import fast, tracing
from ridgeformer.compiler.execution.kernel import PARTS, Code, carry_out
from ridgeformer.compiler.execution.values import ONE, ZERO, Made, Values, evaluate
from ridgeformer.core.compiled import compile_it
from ridgeformer.language.expressions import SMALLEST_DIVISOR
from ridgeformer.programs import PROGRAMS
from tests.compiler.execution.test_table import compare, tables
from tests.compiler.tasks import task


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(fast, "LEAST_WORK", 0)
    monkeypatch.setattr(fast, "LEAST_TASK", 0)


def values(total=6):
    return Values(total, np.dtype(np.float64), SMALLEST_DIVISOR[torch.float64])


@pytest.mark.parametrize("code", [code for code in Code if code < Code.STORE and code != Code.WEIGH])
def test_what_is_computed_beforehand_is_what_the_kernel_computes(code):
    rng = np.random.default_rng(int(code))
    rows, scalars = rng.normal(size=(4, 6)), np.concatenate([[0.0, 1.0], rng.normal(size=4)])
    rows[2, 3] = 0.0  # a divisor that is taken for zero
    numbers = {Code.FILL: "s-", Code.SCALE: "rs", Code.INVERT: "sr", Code.SUM: "rs", Code.TIMES: "ss", Code.OVER: "ss"}
    kinds = numbers.get(code, "s-" if code in (Code.CUT, Code.SQUASH) else "r-" if code == Code.PICK else "rr")
    kinds = "r-" if code in (Code.RECTIFY, Code.SIGMOID) else kinds
    scalar, low, high = code >= Code.SUM, 1, 2 if code == Code.PICK else 5
    base = 0 if code in (Code.PICK, Code.SQUASH) else 2 if scalar else -1 if code == Code.SIGMOID else 1
    a, b = (-1 if kind == "-" else place for kind, place in zip(kinds, (3, 2), strict=True))
    read = {"r": lambda place: rows[place].copy(), "s": lambda place: scalars[place], "-": lambda place: 0.0}
    onto = 0.0 if base < 0 else scalars[base] if scalar else rows[base].copy()
    given = onto, read[kinds[0]](a), read[kinds[1]](b)
    expected = evaluate(Made(code, 0, base, a, b, low, high, 1.7), *given, 6, 1e-300)
    table = np.array([[code, 5 if scalar else 0, base, a, b, low, high, 0, 6, 0]], np.int32)
    none, empty = np.zeros((0, 2), np.int32), np.zeros(0)
    kernel = compile_it(carry_out, *PARTS)
    kernel(table, np.array([1.7]), none, empty, rows, scalars, empty, empty, 1e-300)
    np.testing.assert_allclose(scalars[5] if scalar else rows[0], expected, rtol=1e-14)


def test_rows_that_depend_on_no_data_are_values_and_no_instructions():
    known = values()
    support = known.fixed_row(np.array([1.0, 1, 1, 0, 0, 0]))
    doubled = known.product(ZERO, 2.0, (support,))
    assert known.made == []
    assert known.fixed[doubled].tolist() == [2, 2, 2, 0, 0, 0]
    assert known.total_of(0.5, doubled, support, slice(0, 6)) == known.number(3.0)


def test_instructions_act_where_something_may_be_nonzero():
    known = values()
    first = known.fixed_row(np.array([0.0, 3, 1, 0, 0, 0]))
    row = known.value("row")
    made = known.makers[known.product(ZERO, 1.0, (first, row))]
    assert (made.code, made.low, made.high) == (Code.MULTIPLY, 1, 3)
    ones = known.fixed_row(np.array([1.0, 1, 1, 0, 0, 0]))
    restricted = known.product(ZERO, 1.0, (ones, row))
    assert known.makers[restricted].code == Code.SCALE
    assert known.product(ZERO, 1.0, (ones, restricted)) == restricted  # nothing left to do
    apart = known.fixed_row(np.array([0.0, 0, 0, 0, 1, 0]))
    assert known.total_of(1.0, restricted, apart, slice(0, 6)) == ZERO
    assert known.make(Code.SCALE, 0.0, restricted, row, ONE) == restricted


def test_what_overflows_is_left_to_the_run():
    known = values()
    large = known.number(1e300)
    assert known.make(Code.TIMES, 1.0, ZERO, large, large) in known.makers


def test_the_position_of_a_support_is_counted_beforehand():
    """Nearest neighbours take support t by a softmax that depends on t alone: no pattern is formed in a run."""
    X, y, Xq = task(p=4)
    net = rf.compile(PROGRAMS["nearest_neighbours"](steps=len(X)), features=4)
    compare(net, X, y, Xq)
    assert all(len(table.stretches) == 1 for table in tables(net))


def nystrom(**options):
    return rf.compile(PROGRAMS["nystrom_regression"](steps=3, landmarks=2, **options), features=4)


def test_only_columns_that_are_read_are_formed(monkeypatch):
    """Two landmarks of nine supports: two columns for everyone, and all columns for two readers."""
    X, y, Xq = task(k=9, p=4)
    shapes = []
    form = tracing.Formed.form
    watched = lambda self, Q, K, into, readers: shapes.append(tuple(into.shape)) or form(self, Q, K, into, readers)  # noqa: E731
    monkeypatch.setattr(tracing.Formed, "form", watched)
    net = nystrom(temperature=3.0)
    net(X, y, Xq)
    assert sorted(shapes[-2:]) == [(2, 9), (9 + 1 + len(Xq), 2)]


@rf.algorithm
def two_kinds_of_heads(net):
    """A linear and a softmax head with the same scores and an irregular mask, and a pattern that no token reads."""
    net.features("x"), net.targets("y")
    net.let(half="0.5 * dot(x, x)")
    with net.step():
        net.attend({"a": "y"}, scores={("x", "x"): 0.5}, kind="linear", relation="before")
        net.attend({"b": "y"}, scores={("x", "x"): 0.5}, kind="softmax", relation="before")
        net.kernel_product("k", "y", temperature=3.0, gaussian=True)
        net.record("a"), net.record("b")
        net.predict("a + b + aggregator * k")


@pytest.mark.parametrize("kernel", [True, False])
def test_heads_of_two_kinds_with_the_same_scores_have_patterns_of_their_own(kernel, monkeypatch):
    monkeypatch.setattr(fast, "LEAST_WORK", 0 if kernel else 2**60)
    compare(rf.compile(two_kinds_of_heads(steps=2), features=4), *task(p=4))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 200.0])
def test_ratios_of_softmax_weights_at_any_scale(scale):
    """Beyond what exponentials hold, the whole softmax is formed and its guard decides, as in the literal run."""
    X, y, Xq = task(k=9, p=4)
    compare(nystrom(temperature=3.0), scale * X, y, scale * Xq, 1e-7)
    power = rf.compile(PROGRAMS["power_iteration"](steps=2, temperature=3.0), features=4)
    if scale < 100:  # beyond, its divisions overflow in the literal run too
        compare(power, scale * X, y, scale * Xq, 1e-9)


@pytest.mark.parametrize("name", ["ista", "power_iteration", "nystrom_regression", "least_mean_squares", "huber"])
@pytest.mark.parametrize("formed", [0, 2**60])
def test_batches_run_as_tasks_do(name, formed, monkeypatch):
    monkeypatch.setattr(fast, "LEAST_FORMED", formed)
    net = rf.compile(PROGRAMS[name](steps=2), features=4)
    tasks = [task(p=4, seed=seed) for seed in range(3)]
    X, y, Xq = (torch.stack(parts) for parts in zip(*tasks, strict=True))
    compare(net, X, y, Xq)
    trace = net.trace(X, y, Xq)
    for number, given in enumerate(tasks):
        alone = net.trace(*given)
        for name_ in alone.values:
            torch.testing.assert_close(trace.values[name_][:, number], alone.values[name_], rtol=1e-9, atol=1e-10)
