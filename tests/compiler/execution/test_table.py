"""One kernel for all sublayers gives what the literal run gives, for every program, and notices when weights change."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.autograd import forward_ad

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.compiler.execution import fast, run_fast, run_literally, tracing
from ridgeformer.compiler.execution import table as table_module
from ridgeformer.compiler.execution.fast import LEAST_WORK, Plans, work
from ridgeformer.programs import PROGRAMS
from tests.compiler.tasks import MODELS, model, task


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(fast, "LEAST_WORK", 0)


def tables(net):
    return [table for table in net._plans.tables.values() if table is not None]


def compare(net, X, y, Xq, tolerance=1e-11):
    given = net._check(X, y, Xq).given
    tokens = net.tokens(X.shape[-2], Xq.shape[-2])
    literal = list(run_literally(net, net.stream(*given), tokens))
    found = list(net.readings(*given))
    assert len(found) == len(literal)
    for (section, record, value), (other, same, expected) in zip(found, literal, strict=True):
        assert (section, record) == (other, same)
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(value, expected, rtol=0, atol=tolerance * scale, msg=f"{section} {record.name}")
    ((_, _, answer),) = net.answer(*given)  # needs no more than the queries' rows
    last = [value for _, record, value in literal if record.name == "f"][-1]
    torch.testing.assert_close(answer, last, rtol=0, atol=tolerance * max(1.0, float(last.abs().max())))


def program(name, **options):
    return PROGRAMS[name](steps=1 if name == "nearest_neighbour" else 3, **options)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_runs_as_it_does_literally(name):
    for k, value in ((1, PROGRAMS[name](steps=1)), (9, program(name))):  # on one support later steps divide round-off
        net = rf.compile(value, features=4)
        X, y, Xq = task(k=k, p=4)
        compare(net, X, (y > 0).to(y) if "logistic" in name else y, Xq)
        assert tables(net)


@pytest.mark.parametrize("name", [name for name in MODELS if "swiglu" not in name and "relu" not in name])
def test_every_compiled_model_runs_as_it_does_literally(name):
    net = model(name, outputs=2, steps=3)
    given = net._check(*task(outputs=2)).given
    if net._plans.table(net, net.tokens(*(part.shape[-2] for part in given[::2])), None) is None:
        pytest.skip("its gates are no products and quotients")
    compare(net, *given, tolerance=1e-7 if name == "imitation" else 1e-11)


def test_a_kernel_of_its_own_in_single_precision():
    X, y, Xq = task(p=4, dtype=torch.float32)
    compare(rf.compile(program("ista"), features=4, dtype="float32"), X, y, Xq, 1e-5)


@pytest.mark.parametrize("name", ["ista", "power_iteration", "least_mean_squares", "fista"])
def test_any_changed_weight_changes_the_plan(name):
    """Each matrix in turn: what the kernel gives follows the weights, however they were changed."""
    X, y, Xq = task(p=4)
    net = rf.compile(program(name), features=4)
    before, changed = net(X, y, Xq), 0
    for weight in [p for n, p in net.named_parameters() if "embed" not in n]:
        saved = weight.detach().clone()
        weight.data[saved != 0] *= 1.5
        compare(net, X, y, Xq, 1e-9)  # a scaled divisor is no plan of operations: torch runs it then
        changed += bool(tables(net)) and not torch.allclose(net(X, y, Xq), before)
        weight.data.copy_(saved)
    assert changed > 4
    assert torch.equal(net(X, y, Xq), before)


def test_a_pattern_that_no_step_changes_is_formed_once(monkeypatch):
    formed = []
    form = tracing.Formed.form
    monkeypatch.setattr(tracing.Formed, "form", lambda self, *given: formed.append(1) or form(self, *given))
    rf.compile(program("power_iteration", temperature=2.0), features=4)(*task(p=4))
    assert len(formed) == 1


def test_what_nothing_reads_is_left_out_and_what_is_recorded_stays():
    X, y, Xq = task(p=4)
    net = rf.compile(program("ista"), features=4)
    trace = net.trace(X, y, Xq)
    assert torch.equal(net(X, y, Xq), trace.f[-1])  # the same instructions, so the same bits
    whole, last = (sum(len(stretch.table) for stretch in table.stretches) for table in tables(net))
    assert last < whole


def test_a_small_pass_starts_no_kernel(monkeypatch):
    monkeypatch.setattr(fast, "LEAST_WORK", LEAST_WORK)
    net = rf.compile(program("ista"), features=4)
    net(*task(p=4))
    assert tables(net) == []
    large = rf.compile(PROGRAMS["ista"](steps=50), features=16)
    tokens = large.tokens(500, 10)
    assert work(Plans().of(large, tokens), tokens.total) >= LEAST_WORK


def test_without_numba_torch_carries_it_out(monkeypatch):
    monkeypatch.setattr(fast, "compiled", lambda: False)
    net = rf.compile(program("ista"), features=4)
    X, y, Xq = task(p=4)
    found = net(X, y, Xq)
    assert tables(net) == []
    tokens = net.tokens(X.shape[-2], Xq.shape[-2])
    *_, (_, _, expected) = run_fast(net, net.stream(*net._check(X, y, Xq).given), tokens, net._plans)
    torch.testing.assert_close(found, expected)


class TestFrozen:
    def test_it_compares_no_weights_and_starts_the_kernel_for_small_passes(self, monkeypatch):
        monkeypatch.setattr(fast, "LEAST_WORK", LEAST_WORK)
        X, y, Xq = task(p=4)
        net = rf.compile(program("fista"), features=4)
        expected = net(X, y, Xq)
        assert tables(net) == []
        with net.frozen() as same:
            monkeypatch.setattr(Plans, "refresh", lambda *_: pytest.fail("weights compared"))
            torch.testing.assert_close(same(X, y, Xq), expected)
        assert len(tables(net)) == 1

    def test_a_weight_that_changes_meanwhile_is_an_error_at_the_end(self):
        net = rf.compile(program("ista"), features=4)
        with pytest.raises(errors.InputError, match="a weight was changed while the model was frozen"), net.frozen():
            next(net.steps.parameters()).data.mul_(2.0)
        compare(net, *task(p=4))

    def test_an_error_inside_comes_through(self):
        net = rf.compile(program("ista"), features=4)
        with pytest.raises(errors.ShapeError), net.frozen():
            net([[1.0]], [1.0], [[1.0]])
        assert not net._plans.frozen

    def test_gradients_are_refused(self):
        net = rf.compile(program("ista"), features=4).requires_grad_(True)
        with pytest.raises(errors.InputError, match="wants a gradient"), net.frozen():
            pass


def test_large_workspaces_are_let_go_and_small_ones_used_again(monkeypatch):
    net = rf.compile(program("power_iteration", temperature=2.0), features=4)
    net(*task(p=4))
    (table,) = tables(net)
    kept = table.rooms[0]
    net(*task(p=4))
    assert table.rooms == [kept]
    monkeypatch.setattr(table_module, "LARGEST_KEPT", 10)
    net(*task(p=4))
    assert table.rooms == []


def test_threads_have_workspaces_of_their_own():
    net = rf.compile(program("logistic_newton"), features=4)
    tasks = [(X, (y > 0).to(y), Xq) for X, y, Xq in (task(p=4, seed=seed) for seed in range(6))]
    alone = [net(*given) for given in tasks]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda given: net(*given), tasks * 5))
    assert all(torch.equal(found, expected) for found, expected in zip(together, alone * 5, strict=True))


def test_what_overflows_is_refused_as_by_torch():
    X, y, Xq = task(p=4)
    with pytest.raises(errors.InputError, match="w is not finite in step"):
        rf.compile(PROGRAMS["whitened_descent"](steps=400, step_size=1e3), features=4).trace(X, y, Xq)


class TestWhatTorchFollows:
    """Gradients of either mode, function transforms and compilation get the literal run, whatever ran before."""

    @pytest.fixture
    def linear(self):
        """A model that is linear in its targets, which has run in the kernel, with a task and its answers."""
        net, given = rf.compile(program("whitened_descent"), features=4), task(p=4)
        answers = net(*given)
        assert tables(net)
        return net, given, answers

    def test_dual_numbers_keep_their_tangent(self, linear):
        net, (X, y, Xq), answers = linear
        with forward_ad.dual_level():
            found = forward_ad.unpack_dual(net(X, forward_ad.make_dual(y, y), Xq))
        torch.testing.assert_close(found.primal, answers)
        torch.testing.assert_close(found.tangent, answers)

    @pytest.mark.parametrize("jacobian", [torch.func.jacrev, torch.func.jacfwd])
    def test_function_transforms(self, linear, jacobian):
        net, (X, y, Xq), answers = linear
        J = jacobian(lambda targets: net(X, targets, Xq)[..., 0])(y)
        torch.testing.assert_close(torch.einsum("qko,ko->q", J, y), answers[..., 0])

    @pytest.mark.slow
    def test_compilation_notices_an_edited_weight(self):
        """In a process of its own: Dynamo does not follow the type checks that tests run with."""
        script = """
import torch
import ridgeformer as rf
net = rf.compile(rf.programs.whitened_descent(steps=3), features=2)
X = torch.randn(9, 2, generator=torch.Generator().manual_seed(0)).double()
with net.frozen():
    answers = net(X, X[:, 0], X)
run = torch.compile(net, backend="eager")
torch.testing.assert_close(run(X, X[:, 0], X), answers)
next(net.steps.parameters()).data.mul_(1.5)
torch.testing.assert_close(run(X, X[:, 0], X), net(X, X[:, 0], X))
assert not torch.allclose(net(X, X[:, 0], X), answers)
"""
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)
