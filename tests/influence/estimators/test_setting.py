import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import influence, nystrom_influence, pcg_influence, stochastic_influence
from ridgeformer.influence.estimators import ESTIMATORS
from ridgeformer.kernels import Exponential
from ridgeformer.solving import system
from tests.influence.estimators.digits_case import KERNELS, RIDGE, digits
from tests.influence.influence_case import assert_equal


@pytest.mark.parametrize("name", ESTIMATORS)
def test_k_is_never_held_whole(name, monkeypatch):
    """With room for a block of 40 rows, nothing larger than n times the rank is ever formed."""
    X, y, Xq = digits()
    monkeypatch.setattr(system, "STORED_ENTRIES", 0)
    monkeypatch.setattr("ridgeformer.kernels.base.BLOCK_ENTRIES", 40 * len(X))
    monkeypatch.setattr("ridgeformer.solving.engines.tiles.TILE", 40)
    largest, dense = [], Exponential.dense

    def watched(self, X, Z):
        largest.append(X.shape[0] * Z.shape[0])
        return dense(self, X, Z)

    monkeypatch.setattr(Exponential, "dense", watched)
    options = {"rows": [0, 1]} if name == "pcg" else {}
    ESTIMATORS[name](KERNELS["exponential"], X, y, Xq, RIDGE, rank=50, **options)
    assert max(largest) <= 40 * len(X)


def test_large_logits_are_rescaled_and_float32_stays_float32():
    X, y, Xq = digits()
    hot = Exponential(0.02)  # logits up to 50: more than float32 squares hold
    truth = influence(hot, X, y, Xq, 1e21)
    for found in (
        nystrom_influence(hot, X.float(), y, Xq, 1e21, rank=300),
        stochastic_influence(hot, X.float(), y, Xq, 1e21, rank=300, tol=1e-5),
        pcg_influence(hot, X.float(), y, Xq, 1e21, rank=300, tol=1e-5),
    ):
        assert found.leave_one_out.dtype == torch.float32
        assert_equal(found.leave_one_out.double(), truth.leave_one_out, 1e-2)


@pytest.mark.parametrize(
    ("kernel", "ridge", "words"), [("exponential", 1.0, "kernel object"), (KERNELS["exponential"], 0.0, "ridge is 0")]
)
def test_bad_input(kernel, ridge, words):
    X, y, Xq = digits()
    with pytest.raises(errors.InputError, match=words):
        ESTIMATORS["nystrom"](kernel, X, y, Xq, ridge)
