"""Programs of one's own that are wrong are refused, with the line and the reason."""

import inspect
import math

import pytest

import ridgeformer as rf
from ridgeformer.core.errors import InputError, ProgramError
from ridgeformer.language.writing import ProgramWriter

FILE = "test_refused_programs.py"


def writer(steps=2, **constants):
    net = ProgramWriter("test", steps, constants)
    net.features("x"), net.targets("y"), net.state("w", "features")
    return net


def undeclared(net):
    with net.step():
        net.let(r="dot(x, w) - z")  # refused


def cleared(net):
    with net.step():
        net.let(r="dot(x, w) - y")
        net.let(w="w - mean(r * x)", clear="r")
        net.let(s="r + 1")  # refused


def leaky(net):
    with net.step():
        net.attend({"s": "y"}, scores={("x", "x"): 1.0}, sources="support query")  # refused


def queries_of_others(net):
    with net.step():
        net.attend({"s": "x"}, readers="query", sources="query")  # refused


def infinite(net):
    with net.step():
        net.let(w="w - 1e999 * x")  # refused


def not_a_number(net):
    net.constant(rate=math.nan)  # refused


def infinite_score(net):
    with net.step():
        net.attend({"s": "y"}, scores={("x", "x"): math.inf})  # refused


def silent(net):
    with net.step():  # refused
        net.let(w="w - mean((dot(x, w) - y) * x)")


def silent_loop(net):
    for _ in net.each_step():  # refused
        net.let(w="w - mean((dot(x, w) - y) * x)")


def gone(net):
    with net.step():
        net.let(r="dot(x, w) - y")
        net.predict("dot(x, w)")
    net.predict("r")  # refused


def summed(net):
    with net.step():
        net.let(a="dot(x, w)")
        net.let(a="x * w")  # refused


def overwritten(net):
    with net.step():
        net.let(y="y - dot(x, w)")  # refused


def no_function(net):
    with net.step():
        net.let(a="tanh(dot(x, w))")  # refused


def no_formula(net):
    with net.step():
        net.let(a="dot(x, w) if y else w")  # refused


def no_syntax(net):
    with net.step():
        net.let(a="dot(x, w")  # refused


def divided_by_zero(net):
    with net.step():
        net.let(w="w / (2 - 2)")  # refused


def twice(net):
    net.state("w")  # refused


def second_step(net):
    with net.step():
        net.predict("dot(x, w)")
    with net.step():  # refused
        net.predict("dot(x, w)")


def too_early(net):
    net.record("w")  # refused


def wide_answer(net):
    with net.step():
        net.predict("x")  # refused


def unknown_role(net):
    with net.step():
        net.attend({"s": "y"}, sources="memory")  # refused


BAD = {
    undeclared: "unknown channel 'z'",
    cleared: "'r' was cleared on line",
    leaky: "answers would depend on other queries",
    queries_of_others: "answers would depend on other queries",
    infinite: "is inf; a finite number",
    not_a_number: "constant 'rate' is nan",
    infinite_score: "is inf; a finite number",
    silent: "records nothing",
    silent_loop: "records nothing",
    gone: "gone after it: declare it with net.state",
    summed: "use dot(a, b)",
    overwritten: "filled by the embedding",
    no_function: "unknown function 'tanh'",
    no_formula: "is no arithmetic of channels",
    no_syntax: "is not a formula",
    divided_by_zero: "divides by zero",
    twice: "there is a channel or constant 'w' already",
    second_step: "one kind of step",
    too_early: "belongs to no step",
    wide_answer: "one column a feature",
    unknown_role: "unknown role 'memory'",
}


@pytest.mark.parametrize("body", BAD, ids=lambda body: body.__name__)
def test_a_bad_program_is_refused_with_its_line_and_the_reason(body):
    with pytest.raises(ProgramError) as refusal:
        body(writer())
    source, first = inspect.getsourcelines(body)
    line = first + next(number for number, text in enumerate(source) if "# refused" in text)
    assert (refusal.value.file, refusal.value.line) == (FILE, line)
    assert str(refusal.value).startswith(f"{FILE}, line {line}: ")
    assert BAD[body] in str(refusal.value)


def test_a_refusal_reaches_whoever_compiles():
    @rf.algorithm
    def forgetful(net, rate=0.1):
        net.features("x"), net.targets("y"), net.state("w", "features")
        with net.step():
            net.let(w="w - rate * mean(rest * x)")
            net.predict("dot(x, w)")

    with pytest.raises(ProgramError, match=r"test_refused_programs.py, line \d+: unknown channel 'rest'"):
        rf.compile(forgetful(steps=2), features=2)


def test_a_program_without_an_answer_or_a_step_is_refused():
    with pytest.raises(ProgramError, match="no step"):
        writer().finish()
    net = writer()
    with net.step():
        net.let(w="w + x")
        net.record("w")
    with pytest.raises(ProgramError, match="never answers"):
        net.finish()


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.1", True])
def test_options_are_finite_numbers(value):
    with pytest.raises(InputError, match="a finite number was expected"):
        rf.programs.ista(penalty=value)


def test_an_option_without_a_default_and_a_name_of_the_library_are_refused():
    def cg(net, rate=0.1):
        """Taken."""

    def needy(net, rate):
        """No default."""

    def ista(net, rate=0.1):
        """Ships."""

    for function, why in ((cg, "in the library"), (needy, "has no default"), (ista, "in the library")):
        with pytest.raises(InputError, match=why):
            rf.algorithm(function)


def test_values_are_values():
    ista = rf.programs.ista
    assert ista(steps=3, penalty=0.2) == ista(steps=3, penalty=0.2) != ista(steps=3)
    assert len({ista(steps=3), ista(steps=3)}) == 1
    assert repr(ista(steps=3)) == "ista(steps=3, penalty=0.1, step_size=0.5)"
