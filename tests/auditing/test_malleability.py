from dataclasses import replace

import pytest

from ridgeformer.auditing.malleability import CONTROLS, examine_malleability
from tests.auditing.small_audits import SMALL, small_audit


@pytest.mark.parametrize("name", ["wine", "diabetes"])
def test_every_model_size_and_control(name):
    found = small_audit(name).malleability
    assert found.sizes == SMALL.attack_sizes
    assert len(found.models) == 3
    for model in found.models:
        for size in found.sizes:
            for control in CONTROLS:
                flips = found.of(model, size, control)
                if control == "redrawn" and model == "the certified fit":
                    assert flips is None  # nothing about its kernel is drawn
                else:
                    assert len(flips.shares) == SMALL.repeats
                    assert 0 <= flips.mean <= 1


def test_an_attack_of_no_size_flips_nothing():
    audit = small_audit("wine")
    settings = replace(SMALL, attack_sizes=(0.0,), repeats=1)
    found = examine_malleability(audit.data, audit.certified, settings)
    for model in found.models:
        assert [found.of(model, 0.0, control).mean for control in ("noise", "attacked", "adaptive")] == [0, 0, 0]


def test_a_larger_attack_on_the_influence_flips_no_fewer():
    audit = small_audit("wine")
    settings = replace(SMALL, attack_sizes=(0.3, 0.1), attack_queries=4)
    found = examine_malleability(audit.data, audit.certified, settings)
    large, small = (found.of("the certified fit", size, "adaptive").mean for size in (0.3, 0.1))
    assert large >= small
