"""One `solve` is carried by four records: the system, the plan, the run and the fit."""

import json
import subprocess
import sys

WATCHED = """
import json, sys
import torch
from ridgeformer import Exponential, solve
seen = set()
def watch(frame, event, argument):
    if event == "return" and "/ridgeformer/solving/" in frame.f_code.co_filename:
        for value in (argument, *frame.f_locals.values()):
            home = type(value).__module__
            if home.startswith("ridgeformer.solving") and "engines" not in home:
                seen.add(type(value).__name__)
X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).double()
sys.setprofile(watch)
solve(Exponential(1.0), X, X[:, 0], 0.1)
sys.setprofile(None)
print(json.dumps(sorted(seen)))
"""


def test_a_solve_crosses_four_records():
    """Objects of the package's own classes that pass between its functions, algorithms, kernels and engines aside."""
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True, timeout=120)
    seen = set(json.loads(done.stdout))
    carriers = {"Fit", "Plan", "RidgeSystem", "Run"}
    assert carriers <= seen
    assert seen <= carriers | {"Status", "ExtremeEigenvalues", "PivotedCholesky"}
