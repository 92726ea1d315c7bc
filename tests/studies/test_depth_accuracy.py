"""The depth study: its numbers are those of the certificates, its page says what was measured."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer import bounds
from ridgeformer.studies.compiled_problem import problem_with_condition_number
from ridgeformer.studies.depth_accuracy import ENOUGH, FEATURES, STUDY, SUPPORTS, measure


def rows_of(**params):
    return measure(**params, decay="log", seed=3)


@pytest.mark.parametrize(
    ("attention", "algorithm", "kappa"),
    sorted({(p["attention"], p["algorithm"], p["kappa"]) for p in STUDY.presets["quick"].points if p["kappa"] < 50}),
)
def test_every_step_of_every_method_is_under_its_bound(attention, algorithm, kappa):
    rows = rows_of(attention=attention, algorithm=algorithm, kappa=kappa, dtype="float64", steps=30)
    assert all(row["met"] and row["error"] <= row["bound"] for row in rows)
    assert rows[-1]["error"] < rows[0]["error"]


def test_linear_cg_against_a_direct_solve():
    problem = problem_with_condition_number("linear", SUPPORTS, FEATURES, 100.0, "log", seed=3)
    A = problem.X @ problem.X.T + problem.ridge * torch.eye(SUPPORTS, dtype=torch.float64)
    exact = torch.linalg.solve(A, problem.y)
    model = rf.compile(
        rf.kernels.DotProduct(), rf.algorithms.ConjugateGradients(steps=12), features=FEATURES, ridge=problem.ridge
    )
    alpha = model.trace(problem.X, problem.y, problem.X[:1]).alpha[:, :, 0]
    norm = (exact @ A @ exact).sqrt()
    errors = [float(((a - exact) @ A @ (a - exact)).sqrt() / norm) for a in alpha]
    rows = rows_of(attention="linear", algorithm="cg", kappa=100.0, dtype="float64", steps=12)
    assert [row["error"] for row in rows] == pytest.approx([errors[row["step"] - 1] for row in rows], rel=1e-8)
    theory = [bounds.cg_error_factor(100.0, row["step"]) for row in rows]
    assert [row["bound"] for row in rows] == pytest.approx(theory, rel=1e-9)


def test_the_depth_is_the_first_step_below_enough():
    rows = rows_of(attention="linear", algorithm="cg", kappa=10.0, dtype="float64", steps=14)
    assert len(rows) == 14
    assert rows[0]["depth"] == next(row["step"] for row in rows if row["error"] <= ENOUGH)
    assert rows_of(attention="linear", algorithm="cg", kappa=10.0, dtype="float64", steps=3)[0]["depth"] is None
