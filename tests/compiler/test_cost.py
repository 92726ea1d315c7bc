"""What is counted before compiling is what compiling makes."""

import pytest

import ridgeformer as rf
from ridgeformer.compiler.cost import budget
from ridgeformer.programs import PROGRAMS


@pytest.mark.parametrize("primitives", ["exact", "swiglu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_budget_before_compiling_is_that_of_the_model(name, primitives):
    value = PROGRAMS[name](steps=2 if name == "fista" else 1)
    cost, model = budget(value, features=3, primitives=primitives), rf.compile(value, features=3, primitives=primitives)
    found = model.budget
    assert (cost.width, cost.layers, cost.units) == (found.width, found.sublayers, found.widest_gated)
    assert cost.parameters == found.parameters


def test_the_growth_holds_elsewhere():
    cost = budget(PROGRAMS["logistic_newton"](steps=3), features=4)
    laws = {name: eval(law.replace(" m", " * m").replace(" t", " * t").replace("+ *", "+"), {"m": 9, "t": 7})
            for name, law in cost.growth.items() if not law.startswith(("m", "t"))}  # fmt: skip
    other = budget(PROGRAMS["logistic_newton"](steps=7), features=9)
    assert laws
    for name, predicted in laws.items():
        assert predicted == getattr(other, name), name


def test_the_sublayers_that_dominate_come_first_and_add_up():
    cost = budget(PROGRAMS["ista"](steps=5), features=6)
    ranked = cost.dominant(most=100)
    fractions = [fraction for _, fraction in ranked]
    assert fractions == sorted(fractions, reverse=True)
    assert sum(fractions) == pytest.approx(1.0)
    assert "grows as width" in str(cost)


def test_what_has_no_program_is_refused():
    with pytest.raises(rf.errors.InputError, match="steps"):
        budget(PROGRAMS["ista"](), features=3)
