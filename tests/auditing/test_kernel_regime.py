from dataclasses import replace

import pytest
import torch

from ridgeformer.auditing.kernel_regime import NETWORKS, examine_regime
from ridgeformer.core.errors import InputError
from tests.auditing.small_audits import SMALL, small_audit


def test_every_network_width_and_draw():
    regime = small_audit("wine").regime
    assert regime.widths == SMALL.regime_widths
    for network in NETWORKS:
        for width in (*regime.widths, None):
            draws = regime.of(network, width)
            assert len(draws) == SMALL.repeats
            assert {one.model for one in draws} == {network}
            assert {one.measured.width for one in draws} == {width or max(regime.widths)}
            assert len({one.measured.test_error for one in draws} | {one.measured.kernel_drift for one in draws}) > 1


def test_a_zero_row_is_refused_and_the_audit_can_say_so():
    data = small_audit("wine").data
    with pytest.raises(InputError, match="zero"):
        examine_regime(replace(data, X=torch.zeros_like(data.X)), SMALL)
