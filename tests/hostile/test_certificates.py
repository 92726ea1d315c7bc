"""A slice of the attack on certificates, and proof that it notices: every mutation below breaks a promise."""

import sys
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from hostile import certificates
from hostile.certificates import ACCURATE, BITS, BOUND, EDITED, EXPECTED, RED, RELATIVE
from hostile.tally import Tally
from ridgeformer.compiler.certificate import accuracy, evidence, expected, inexact, network
from ridgeformer.kernels import CentredDotProduct
from ridgeformer.language.roles import SUPPORT

SLICE = range(60)


def noticed(promise, cases=SLICE, seed=0):
    """Whether the promise is broken in some case of the slice; stops at the first."""
    tally = Tally()
    for index in cases:
        certificates.attack(tally, index, seed)
        if any(one.promise == promise for one in tally.broken):
            return True
    return False


@pytest.mark.parametrize("part", range(2))
def test_no_promise_is_broken(part):
    tally = Tally()
    for index in range(30 * part, 30 * part + 30):
        certificates.attack(tally, index, seed=0)
    assert not tally.broken, "\n".join(f"{one.promise}: {one.case}: {one.what}" for one in tally.broken)
    least = {BOUND: 60, RELATIVE: 50, ACCURATE: 3, BITS: 8, EXPECTED: 8, EDITED: 8, RED: 1}
    assert all(tally.tried[promise] >= number for promise, number in least.items()), tally.tried


def test_a_case_is_determined_by_its_number_and_seed():
    drawn = [certificates.draw(index, seed) for index, seed in ((3, 0), (3, 0), (3, 1))]
    assert str(drawn[0]) == str(drawn[1]) != str(drawn[2])
    assert torch.equal(drawn[0].X, drawn[1].X)


def test_forgetting_how_far_the_direct_solve_is_off_is_noticed(monkeypatch):
    judged = accuracy._judged
    monkeypatch.setattr(accuracy, "_judged", lambda *given: (judged(*given)[0], np.zeros_like(judged(*given)[1])))
    assert noticed(BOUND)


def test_forgetting_the_answers_own_distance_is_noticed(monkeypatch):
    monkeypatch.setattr(accuracy, "_added", lambda answers, predicted, bound: bound)
    assert noticed(BOUND)
    assert noticed(RELATIVE)


def test_a_problem_read_off_the_weights_is_noticed(monkeypatch):
    """As before: what the network's embedding says, not what the specification says, is the problem to be solved."""

    def from_weights(model, *task):
        name = next(n for n, c in model.program.channels.items() if c.source == "features" and SUPPORT in c.on)
        embedding = model.embed[SUPPORT.value][: model.spec.features, list(model.layout.columns[name])].double()
        return [replace(one, projection=embedding) for one in evidence.gather(model, *task)]

    monkeypatch.setattr(sys.modules["ridgeformer.compiler.certificate.certification"], "gather", from_weights)
    assert noticed(BOUND)


def test_a_size_taken_too_large_is_noticed(monkeypatch):
    monkeypatch.setattr(accuracy, "_sizes", lambda exact, solved: 1.5 * np.abs(exact).max(0))
    assert noticed(RELATIVE)


def test_forgetting_that_centring_cancels_is_noticed(monkeypatch):
    monkeypatch.setattr(
        CentredDotProduct, "entry_error", lambda self, X: 1e-12 * self.feature_map(X).norm(dim=1).to(X.dtype)
    )
    centred = (index for index in range(300) if certificates.draw(index, 0).options["attention"] == "imitation")
    assert noticed(BOUND, cases=chain([169], centred))  # 169 noticed it when this was written, and saves the search


def test_comparing_the_weights_with_themselves_is_noticed(monkeypatch):
    monkeypatch.setattr(network, "as_specified", lambda model: model)
    assert noticed(EDITED)


def test_a_model_of_rounding_without_its_constant_is_noticed(monkeypatch):
    for module in (evidence, inexact, expected):
        monkeypatch.setattr(module, "FLOOR", 0.0)
    assert noticed(EXPECTED, cases=chain([9], SLICE))
