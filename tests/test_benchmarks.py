"""What the benchmarks measure is what they say: errors over row orders, and a rival in mixed precision."""

import importlib
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import Exponential

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def task(rivals, n=120, ridge=1e-2, tol=1e-12):
    generator = numpy_generator(0, "task")
    X = rf.datasets.unit_rows(generator.standard_normal((n, 6)))
    return rivals.Task(X, generator.standard_normal((n, 3)), temperature=0.25, ridge=ridge, tol=tol)


def test_the_rival_in_mixed_precision_is_refined_to_the_tolerance(benchmark):
    rivals = benchmark("scale_rivals")
    given = task(rivals)
    alpha, note = rivals.RIVALS["torch mixed cholesky"](given)
    K = Exponential(0.25, log_scale=4.0)(torch.from_numpy(given.X))
    y = torch.from_numpy(given.y)
    residual = y - K @ alpha - given.ridge * alpha
    assert float((residual.norm(dim=0) / y.norm(dim=0)).max()) < 1e-12
    factor = torch.linalg.cholesky((K + given.ridge * torch.eye(120)).float())
    once = torch.cholesky_solve(y.float(), factor).double()
    assert float((y - K @ once - given.ridge * once).norm()) > 1e-6  # float32 alone is not enough
    assert note.startswith("float32 factor, ")


def test_a_tolerance_that_float32_cannot_reach_is_said(benchmark):
    rivals = benchmark("scale_rivals")
    assert "not converged" in rivals.torch_mixed(task(rivals, tol=1e-18))[1]


def test_errors_are_against_the_exact_solution_in_several_row_orders(benchmark):
    forward = benchmark("compiled_forward")
    X, y, Xq = forward.draw(60, torch.float32)
    model = rf.compile(
        Exponential(forward.TAU), rf.algorithms.ConjugateGradients(steps=20), features=64, ridge=forward.RIDGE
    )
    given = X.double(), y.double(), Xq.double()
    truth = rf.solve(Exponential(forward.TAU), X.double(), y[:, 0].double(), forward.RIDGE).predict(Xq.double())
    assert torch.allclose(forward.exact(X, y[:, 0], Xq), truth.reshape(-1), rtol=1e-9)
    plain = forward.errors(forward.plain_cg, X, y[:, 0], Xq)
    assert len(plain) == len(set(plain)) == forward.ORDERS  # rounding differs from order to order
    assert 0 < plain[0] < plain[-1] < 1e-2
    compiled = forward.errors(lambda X, y, Xq: model(X, y[:, None], Xq)[:, 0], given[0], given[1][:, 0], given[2])
    assert compiled[-1] < 1e-4
    assert forward.shown([1e-3, 2e-3, 4e-3]) == "2.0e-03 (1.0e-03 to 4.0e-03)"


@pytest.mark.parametrize("tables", [1, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_verdicts_of_audits_are_seldom_wrong(benchmark, tables):
    """At most one in twenty: nothing is learnt from noise, and the kernel is not called better than a linear truth."""
    verdicts = benchmark("audit_verdicts")
    questions = list(verdicts.QUESTIONS)[:2]
    rows = verdicts.count(tables, 0, questions, one_split=True)
    assert [row["times"] <= tables // 20 for row in rows] == [True, True]


def test_the_questions_about_verdicts_can_be_answered_either_way(benchmark):
    verdicts = benchmark("audit_verdicts")
    settings = verdicts.replace(verdicts.DUEL, few_rows=0, tries=6)
    winner, advice, field = verdicts.ask(verdicts.linear, 0, 1, settings)
    assert verdicts.learnt(winner, advice, field)  # a linear truth is no noise
    assert not verdicts.kernel_wins(winner, advice, field)

    def product(g):
        X = g.standard_normal((300, 2))
        return rf.datasets.Dataset("product", X, X[:, 0] * X[:, 1])

    assert verdicts.kernel_wins(*verdicts.ask(product, 0, 1, verdicts.replace(settings, tries=18)))


def test_suspect_labels_are_counted_at_the_number_flipped(benchmark):
    pytest.importorskip("cleanlab")
    suspect = benchmark("suspect_labels")
    data, wrong = suspect.flip(rf.datasets.load("digits", limit=200), 0)
    assert int(wrong.sum()) == 10
    assert ((data.y != rf.datasets.load("digits", limit=200).y) == wrong).all()
    split = rf.datasets.Split.of(data, test_fraction=0.0)
    for method in ("ridgeformer, exact leave-one-out", "disagreement of ten neighbours"):
        order = suspect.METHODS[method](split)
        assert sorted(order) == list(range(200))
        assert wrong[split.rows][order[:10]].sum() >= 5  # 0.5 by chance


def test_the_plots_show_what_the_tables_say():
    drawing = runpy.run_path(str(BENCHMARKS.parent / "docs" / "draw_benchmarks.py"))
    fits, coverage, circuits = drawing["draw"]().axes
    rows = drawing["table"]("solve_at_scale_rivals")
    ours = next(line for line in fits.lines if line.get_label() == "ridgeformer")
    assert list(ours.get_ydata()) == [float(row["seconds"]) for row in rows if row["rival"] == "ridgeformer"]
    crosses = sum(len(line.get_xdata()) for line in fits.lines if line.get_marker() == "x")
    assert crosses == sum(row["seconds"] == "-" for row in rows if row["rival"] in drawing["SAME_MODEL"])
    assert len(coverage.containers) == len({row["noise"] for row in drawing["table"]("interval_prediction_coverage")})
    assert max(bar.get_width() for bar in circuits.patches) <= 1
    plt.close("all")


def test_data_of_fits_on_centres_are_the_same_for_any_number_of_rows(benchmark, monkeypatch):
    scale = benchmark("centres_at_scale")
    monkeypatch.setattr(scale, "DRAWN", 100)
    for data in ("sphere", "rough"):
        few, many = scale.draw(data, 130), scale.draw(data, 250)
        assert all((one == other[:130]).all() for one, other in zip(few, many, strict=True))
        assert abs(float(many[1].std()) - 1) < 0.5  # errors are relative to this


def test_all_methods_for_many_rows_have_as_many_candidates(benchmark):
    scale = benchmark("centres_at_scale")
    assert {len(candidates) for _, candidates in scale.METHODS.values()} == {12}
