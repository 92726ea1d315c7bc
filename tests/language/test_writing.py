"""Programs of one's own do what their formulas say; statements that mean nothing are refused with their line."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError, ProgramError
from ridgeformer.language.writing import ProgramWriter

FORMULAS = {
    "relu(a - 0.3)": lambda a, b: (a - 0.3).clamp_min(0),
    "abs(a) + 2 * abs(a - b)": lambda a, b: a.abs() + 2 * (a - b).abs(),
    "max(a, b) - min(a, 2 * b)": lambda a, b: torch.maximum(a, b) - torch.minimum(a, 2 * b),
    "clip(a, -0.5, 0.5)": lambda a, b: a.clamp(-0.5, 0.5),
    "soft(a * b, 0.2)": lambda a, b: (a * b).sign() * ((a * b).abs() - 0.2).clamp_min(0),
    "above(a, b, 0.5)": lambda a, b: ((a - b) / 0.5).clamp(0, 1),
    "sigmoid(a - b)": lambda a, b: torch.sigmoid(a - b),
    "exp(2 * a) * b": lambda a, b: torch.exp(2 * a) * b,
    "sqrt(a * a + 1, 0.5, 100)": lambda a, b: (a * a + 1).sqrt(),
    "b * rsqrt(a * a + b * b + 1, 0.5, 100)": lambda a, b: b / (a * a + b * b + 1).sqrt(),
    "(a + b) * (a - b) * a / (1 + b ** 2)": lambda a, b: (a + b) * (a - b) * a / (1 + b**2),
    "a / (-b ** 2 - 1)": lambda a, b: 0 * a,  # divisors must be positive: exact units give 0, Newton's sweeps diverge
    "-(a - 3) / 2 + 1 / (b * b + 2)": lambda a, b: -(a - 3) / 2 + 1 / (b * b + 2),
    "mean(a) * b + sum(a * b)": lambda a, b: a[:12].mean() * b + (a * b)[:12].sum(),
    "dot(x, x * a) + dot(x + x, x)": lambda a, b: None,
}


@pytest.mark.parametrize("primitives", ["exact", "swiglu"])
@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_computed_by_the_weights_and_by_the_interpreter(text, primitives):
    @rf.algorithm
    def formula(net):
        net.features("x"), net.targets("y")
        with net.step():
            net.let(a="dot(x, x) - y * y", b="y + dot(x, x) / 4")
            net.let(c=text)
            net.record("a"), net.record("b"), net.record("c")
            net.predict("c")

    generator = torch.Generator().manual_seed(0)
    X, y, Xq = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((12, 3), (12,), (4, 3)))
    model = rf.compile(formula(steps=2), features=3, primitives=primitives)
    if primitives == "swiglu" and "-b ** 2" in text:
        with pytest.raises(InputError, match="divide by positive numbers only"):
            model.trace(X, y, Xq)
        return
    trace, plain = model.trace(X, y, Xq), model.interpret(X, y, Xq)
    torch.testing.assert_close(trace.c, plain.c, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(trace.f, plain.f, rtol=1e-9, atol=1e-10)
    a, b, c = (getattr(plain, name)[0, :, 0] for name in "abc")
    expected = FORMULAS[text](a, b)
    if expected is None:
        square = (X * X).sum(1)
        expected = square * a + 2 * square
    torch.testing.assert_close(c, expected, rtol=1e-10, atol=1e-11)


def test_the_stated_error_of_relu_in_swiglu_units_is_attained():
    from ridgeformer.compiler.primitives import rectifier_error
    from ridgeformer.compiler.primitives.swiglu import SHARP

    x = torch.linspace(-4, 4, 80_001, dtype=torch.float64) / SHARP
    error = (torch.nn.functional.silu(SHARP * x) / SHARP - x.clamp_min(0)).abs().max()
    assert 0.9999 * rectifier_error() < float(error) <= rectifier_error()


def test_all_right_hand_sides_are_read_before_any_is_written():
    @rf.algorithm
    def swap(net):
        net.features("x"), net.targets("y"), net.state("a"), net.state("b")
        net.let(a="1", b="2")
        with net.step():
            net.let(a="b", b="a")
            net.record("a"), net.record("b")
            net.predict("a")

    found = rf.compile(swap(steps=3), features=1).trace([[1.0]], [1.0], [[1.0]])
    assert found.a.flatten().tolist() == [2.0, 1.0, 2.0]
    assert found.b.flatten().tolist() == [1.0, 2.0, 1.0]


def test_heads_replace_what_a_channel_held():
    @rf.algorithm
    def again(net):
        net.features("x"), net.targets("y"), net.state("s", "outputs")
        with net.step():
            net.attend({"s": "y"})
            net.record("s")
            net.predict("s")

    found = rf.compile(again(steps=4), features=1).trace([[1.0], [2.0]], [1.0, 3.0], [[1.0]])
    assert found.s.flatten().tolist() == [2.0] * 8


def test_several_outputs_where_no_formula_mixes_them_with_features():
    generator = torch.Generator().manual_seed(0)
    X, y, Xq = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((9, 3), (9, 2), (4, 3)))
    model = rf.compile(rf.programs.least_mean_squares(steps=9), features=3, outputs=2)
    for output in range(2):
        alone = rf.programs.least_mean_squares(steps=9).interpret(X, y[:, output], Xq)["f"][-1, :, 0]
        torch.testing.assert_close(model(X, y, Xq)[:, output], alone, rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match=r"takes one \(ista.py, line \d+"):
        rf.compile(rf.programs.ista(steps=2), features=3, outputs=2)


def test_supports_are_counted_and_kernels_multiplied():
    @rf.algorithm
    def counting(net):
        net.features("x"), net.targets("y")
        net.count("n")
        with net.step():
            net.kernel_product("g", "y", temperature=2.0, gaussian=True)
            net.record("n")
            net.predict("g")

    generator = torch.Generator().manual_seed(0)
    X, y, Xq = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((9, 3), (9,), (4, 3)))
    found = rf.compile(counting(steps=1), features=3).trace(X, y, Xq)
    torch.testing.assert_close(found.n, torch.full_like(found.n, 9.0))
    expected = torch.exp(-torch.cdist(Xq, X).square() / 4) @ y
    torch.testing.assert_close(found.f[-1, :, 0], expected, rtol=1e-12, atol=1e-12)


def compiled(body, steps=2, **options):
    """A program of features x, targets y and coefficients w with this body, compiled for three features."""

    def odd(net, rate: float = 0.5):
        net.features("x"), net.targets("y"), net.state("w", "features")
        with net.step():
            body(net)

    return rf.compile(rf.algorithm(odd)(steps=steps, **options), features=3)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda net: net.let(v=3), r"3 is no formula: text was expected"),
        (lambda net: net.predict(3), r"3 is no formula: text was expected"),
        (lambda net: net.let(v="(" * 300 + "y" + ")" * 300), r"\.\.\.' is not a formula"),
        (lambda net: net.attend({"v": "y"}, scores={("x", "x"): "2"}), r"is no pair of channels with a number"),
        (lambda net: net.attend({"v": "y"}, scores={"x": 1.0}), r"is no pair of channels with a number"),
        (lambda net: net.attend("y"), r"values are \{target: source\}"),
        (lambda net: net.record("w", role="nobody"), r"unknown role 'nobody'"),
        (lambda net: [net.record("w"), net.record("w")], r"'w' is recorded twice in a step"),
        (lambda net: net.record("f", "w"), r"'f' is what the answers are recorded as"),
        (lambda net: [net.let(w="w + mean(y * x)"), net.let(t1="y")], r"'t1' is a temporary of an earlier statement"),
    ],
)
def test_odd_statements_are_refused_with_their_line(body, why):
    with pytest.raises(ProgramError, match=rf"test_writing\.py, line \d+: .*{why}"):
        compiled(body)


@pytest.mark.parametrize(
    ("names", "formula"),
    [("v_own", "exp(dot(x, x))"), ("v_rest", "exp(dot(x, x))"), ("v_missing", "sqrt(dot(x, x))")],
)
def test_channels_of_functions_do_not_meet_those_of_the_program(names, formula):
    """A channel of the program that has the name a function would give its own is left alone."""

    def body(net):
        net.let(**{names: "y"})
        net.let(v=formula)
        net.let(w=f"w + mean({names} * x)")
        net.predict("dot(x, w) + 0 * v")

    X, y, Xq = (torch.randn(*shape, generator=torch.Generator().manual_seed(1)) for shape in ((6, 3), (6,), (2, 3)))
    model = compiled(body)
    X, y, Xq = X.double(), y.double(), Xq.double()
    torch.testing.assert_close(model(X, y, Xq), 2 * Xq @ (X.T @ y / 6))


def test_a_channel_with_the_name_of_a_kernel_product_s_own_is_left_alone():
    def body(net):
        net.let(u_weighted="2 * y")
        net.kernel_product("u", "y", temperature=3.0)
        net.let(w="w + mean(u_weighted * x)")
        net.predict("dot(x, w)")

    X, y, Xq = (torch.randn(*shape, dtype=torch.float64) for shape in ((6, 3), (6,), (2, 3)))
    torch.testing.assert_close(compiled(body, steps=1)(X, y, Xq), 2 * Xq @ (X.T @ y / 6))


def test_numbers_of_numpy_are_numbers():
    def body(net):
        net.constant(two=np.int64(2))
        net.let(w="w + rate * two * mean(y * x)")
        net.predict("dot(x, w)")

    model = compiled(body, steps=1, rate=np.float32(0.5))
    assert type(model.spec.algorithm.rate) is float
    assert float(model([[1.0, 0, 0]], [3.0], [[1.0, 0, 0]])) == 3.0


def test_programs_that_are_none_are_refused():
    def endless(net):
        endless_body(net)

    def endless_body(net):
        endless_body(net)

    def generator(net):
        yield net

    def steps(net, steps: int = 3):
        pass

    def ista(net):
        pass

    with pytest.raises(InputError, match="calls itself without end"):
        rf.algorithm(endless)(steps=1).program  # noqa: B018
    for function, why in ((generator, "without yield"), (3, "is no function"), (steps, "every program has 'steps'"),
                          (ista, "there is an algorithm 'ista' in the library")):  # fmt: skip
        with pytest.raises(InputError, match=why):
            rf.algorithm(function)


def test_a_loop_over_steps_runs_to_its_end():
    def hasty(net):
        net.features("x"), net.targets("y")
        for _ in net.each_step():
            net.predict("mean(y)")
            break

    with pytest.raises(ProgramError, match="step 1 was left before its end"):
        rf.algorithm(hasty)(steps=3).program  # noqa: B018


def test_scores_that_read_targets_take_one_target_column():
    def body(net):
        net.attend({"r": "x"}, scores={("one", "y"): 1.0}, kind="linear")
        net.predict("dot(x, r)")

    value = compiled(body).spec.algorithm
    with pytest.raises(InputError, match=r"its scores read targets.*one pass each"):
        rf.compile(value, features=3, outputs=2)
    with pytest.raises(InputError, match="y has 2 columns and this program takes one"):
        value.interpret([[1.0, 2, 3]], [[1.0, 2.0]], [[1.0, 2, 3]])


def test_above_is_exact_at_both_ends_however_far():
    def body(net):
        net.let(c="above(1e9 * y, 0, 1e-9)")
        net.predict("mean(c)")

    found = compiled(body, steps=1)([[0.0, 0, 0]] * 2, [1.0, -1.0], [[0.0, 0, 0]])
    assert float(found) == 0.5


def test_a_gaussian_kernel_product_in_steps_with_weights_of_their_own():
    def smooth(net):
        net.features("x"), net.targets("y")
        for number in net.each_step():
            net.kernel_product("u", "y", temperature=float(number), gaussian=True)
            net.predict("u")

    X, y = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([1.0, 2.0]).double()
    model = rf.compile(rf.algorithm(smooth)(steps=2), features=1)
    expected = [torch.exp(-((X - X.T) ** 2) / (2 * number)) @ y for number in (1, 2)]
    torch.testing.assert_close(model.trace(X, y, X).f[..., 0], torch.stack(expected))


def test_a_state_that_is_read_and_never_assigned_is_refused_where_it_is_declared():
    """It would have no columns of its own, and hold what others leave there."""
    for answer, record in (("mean(y) + dot(x, w)", False), ("mean(y)", True)):
        net = ProgramWriter("idle", steps=1)
        net.features("x"), net.targets("y")
        net.state("w", "features")
        with net.step():
            if record:
                net.record("w")
            net.predict(answer)
        with pytest.raises(ProgramError, match=r"line \d+: the state 'w' is read and never assigned"):
            net.finish()
