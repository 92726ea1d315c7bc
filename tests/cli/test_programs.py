"""Programs on the command line: listed, counted, compiled by name, explained, run and certified."""

import json

import pytest

import ridgeformer as rf
from ridgeformer.programs import PROGRAMS


def test_all_are_listed(run):
    assert set(json.loads(run("programs", "--json")[1])) == set(PROGRAMS)
    code, out, _ = run("programs")
    assert code == 0
    assert all(name in out for name in PROGRAMS)


def test_one_is_counted_before_it_is_compiled(run):
    found = json.loads(run("programs", "ista", "--features", 4, "--steps", 7, "--json")[1])
    model = rf.compile(PROGRAMS["ista"](steps=7), features=4)
    assert (found["width"], found["layers"]) == (model.budget.width, model.budget.sublayers)
    assert "layers 5 t" in run("programs", "ista")[1]


@pytest.fixture
def model(run):
    options = ("--features", 10, "--steps", 60, "--option", "penalty=5", "--step-size", 0.2, "--out", "lasso")
    code, out, err = run("compile", "--algorithm", "ista", *options)
    assert (code, err) == (0, "")
    assert "60 steps of iterative soft thresholding" in out
    return "lasso"


def test_it_is_compiled_with_its_own_options(run, model):
    loaded = rf.load_model(model).spec.algorithm
    assert (loaded.penalty, loaded.step_size, loaded.steps) == (5.0, 0.2, 60)
    assert "soft(w - step_size * g" in run("explain", model)[1]


def test_a_program_is_explained_by_its_name(run):
    code, out, _ = run("explain", "fista")
    assert code == 0
    assert "accelerated soft thresholding" in out


def test_it_is_run_and_compared_with_its_interpreter(run, model):
    facts = json.loads(run("run", model, "diabetes", "--json")[1])
    assert facts["compared_with"] == "its interpreter"
    assert facts["largest_difference"] < 1e-10 * facts["typical_output"]
    assert "its interpreter reaches" in run("run", model, "diabetes")[1]


def test_it_is_certified_to_the_tolerance_of_programs(run, model):
    facts = json.loads(run("certify", model, "diabetes", "--json")[1])
    assert facts["tolerance"] == 1e-10
    assert "Every step is its program's" in facts["verdict"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ("--algorithm", "ista", "--kernel", "gaussian"),
            "--kernel belongs to a kernel, and 'ista' is a whole program",
        ),
        (("--algorithm", "ista", "--option", "ridge=1"), "'ista' has no option 'ridge'; it has penalty=0.1"),
        (("--algorithm", "ista", "--option", "penalty=much"), "a number was expected, such as penalty=0.1"),
        (("--algorithm", "ista", "--option", "penalty=nan"), "a finite number was expected"),
        (("--algorithm", "cg", "--option", "penalty=1"), "--option belongs to a program, and 'cg' is none"),
        (
            (
                "--algorithm",
                "isto",
            ),
            "unknown algorithm 'isto'",
        ),
    ],
)
def test_refusals(run, options, why):
    code, out, err = run("compile", "--features", 3, "--out", "nowhere", *options)
    assert (code, out) == (2, "")
    assert why in err


def test_an_unknown_program(run):
    assert "unknown program 'isto'" in run("programs", "isto")[2]
