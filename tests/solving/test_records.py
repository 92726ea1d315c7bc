"""One `solve` is carried by four records: the system, the plan, the run and the fit."""

import sys

from ridgeformer.kernels import Exponential
from ridgeformer.solving import Fit, Plan, RidgeSystem, solve
from ridgeformer.solving.run import Run
from tests.solving.solver_case import problem


def test_a_solve_crosses_four_records():
    """Objects of the package's own classes that pass between its functions, algorithms, kernels and engines aside."""
    seen = set()

    def watch(frame, event, argument):
        if event == "return" and "/ridgeformer/solving/" in frame.f_code.co_filename:
            for value in (argument, *frame.f_locals.values()):
                if type(value).__module__.startswith("ridgeformer.solving") and "engines" not in type(value).__module__:
                    seen.add(type(value).__name__)

    X, y = problem()
    sys.setprofile(watch)
    try:
        solve(Exponential(1.0), X, y, 0.1)
    finally:
        sys.setprofile(None)
    carriers = {Fit.__name__, Plan.__name__, RidgeSystem.__name__, Run.__name__}
    workers_and_values = {"Planner", "Status", "ExtremeEigenvalues"}
    assert carriers <= seen
    assert seen <= carriers | workers_and_values | {"PivotedCholesky"}
