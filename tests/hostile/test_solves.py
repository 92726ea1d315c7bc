"""The minute slice of the adversary, and proof that it notices: loosened constants and a late rounding break it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hostile import solves
from hostile.tally import Tally
from ridgeformer import kernels
from ridgeformer.algorithms import resolve
from ridgeformer.bounds import roundoff
from ridgeformer.kernels import base, dot_product, exponential, gaussian, gram_power, relu_ntk
from ridgeformer.solving import fit, system


def noticed(promises, likely, seed=1):
    """Whether one of these promises is broken in some case of the slice; stops at the first.

    Cases in `likely` are tried before the others: they noticed it when the test was written, and save the search.
    """
    tally = Tally()
    for index in (*likely, *range(400)):
        solves.attack(tally, index, seed)
        if any(one.promise in promises for one in tally.broken):
            return True
    return False


COEFFICIENTS, PREDICTIONS = "the bound on coefficients holds", "the bound on predictions holds"
CONVERGED, RESIDUAL = "converged means converged", "the residual is as stated, up to its round-off"


@pytest.mark.parametrize("part", range(4))
def test_no_promise_is_broken(part):
    tally = Tally()
    for index in range(part * 75, part * 75 + 75):
        solves.attack(tally, index, seed=1)
    assert not tally.broken, "\n".join(f"{one.promise}: {one.case}: {one.what}" for one in tally.broken)
    assert tally.tried[PREDICTIONS] > 300
    assert tally.tried[CONVERGED] > 30
    assert tally.tried["a leave-one-out residual is within its bound"] > 80


def once_broken():
    """Yield the solves that once broke a promise, kept as numbers: the adversary has drawn others since."""
    for one in json.loads((Path(__file__).parent / "once_broken.json").read_text()):
        kernel, algorithm = dict(one["kernel"]), dict(one["algorithm"])
        X, y, queries = (
            torch.tensor(one[name]["values"], dtype=getattr(torch, one[name]["dtype"]))
            for name in ("X", "y", "queries")
        )
        options = {"algorithm": resolve(algorithm.pop("name"), **algorithm), **one["options"]}
        problem = solves.Problem(getattr(kernels, kernel.pop("name"))(**kernel), X, y, one["ridge"], queries, options)
        judge = solves.judge_path if one.get("path") else solves.judge
        yield pytest.param(replace(problem, built=one["built"]), judge, id=str(one["case"]))


@pytest.mark.parametrize(("problem", "judge"), list(once_broken()))
def test_cases_that_once_broke_a_promise(problem, judge):
    """Bounds beyond float64 became its largest number; fits on centres forgot the kernel's own rounding.

    In one the oracle itself gave up: 3,000 bits do not invert a matrix of rank 3 and a ridge of 1e-233.
    """
    tally = Tally()
    judge(tally, problem, str(problem))
    assert not tally.broken
    assert sum(tally.tried.values()) > 3


def test_a_case_is_determined_by_its_number_and_seed():
    first, again, other = solves.draw(3, 0), solves.draw(3, 0), solves.draw(3, 1)
    assert str(first) == str(again) != str(other)
    assert torch.equal(first.X, again.X)


def test_judging_before_rounding_is_noticed(monkeypatch):
    monkeypatch.setattr(system.RidgeSystem, "rounded", lambda self, alpha: alpha.to(torch.float64))
    assert noticed({CONVERGED}, likely=(31, 40, 51))
    assert noticed({RESIDUAL}, likely=(16, 17, 31))


def test_forgetting_the_roundoff_of_a_residual_is_noticed(monkeypatch):
    none = lambda self, alpha, y, ridge=None: torch.zeros(y.shape[1]).double()  # noqa: E731
    monkeypatch.setattr(system.RidgeSystem, "residual_roundoff", none)
    assert noticed({COEFFICIENTS}, likely=(16, 18, 20))


def test_forgetting_the_roundoff_of_a_prediction_is_noticed(monkeypatch):
    monkeypatch.setattr(fit.Fit, "_prediction_roundoff", lambda self, Xq: torch.zeros(len(Xq), 1).double())
    assert noticed({PREDICTIONS}, likely=(32, 56, 62))


@pytest.mark.parametrize(("kernel", "case", "seed"), [(exponential.Exponential, 294, 1), (gaussian.Gaussian, 237, 2)])
def test_forgetting_the_error_of_kernel_entries_is_noticed(monkeypatch, kernel, case, seed):
    monkeypatch.setattr(kernel, "entry_error", lambda self, X: torch.zeros(len(X), dtype=X.dtype))
    assert noticed({COEFFICIENTS, PREDICTIONS}, (case,), seed)


@pytest.mark.parametrize("factor", [0.0, 0.01])
def test_smaller_rounding_constants_are_noticed(monkeypatch, factor):
    for module in (fit, system, exponential, gaussian, dot_product, gram_power, relu_ntk):
        monkeypatch.setattr(module, "gamma", lambda terms, dtype: base.gamma(terms, dtype) * factor)
    monkeypatch.setattr(roundoff, "UNIT_ROUNDOFF", factor * roundoff.UNIT_ROUNDOFF)
    assert noticed({COEFFICIENTS, RESIDUAL}, likely=(3, 4, 18))
    assert noticed({PREDICTIONS}, likely=(37, 32, 56))


def test_forgetting_underflow_is_noticed(monkeypatch):
    for module in (fit, system, exponential, dot_product, gram_power, relu_ntk):
        monkeypatch.setattr(module, "underflow", lambda operations, dtype: 0.0)
    assert noticed({COEFFICIENTS, PREDICTIONS}, likely=(92, 142, 237))
