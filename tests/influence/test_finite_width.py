import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, Network, malleability, network_malleability
from ridgeformer.influence.attacks import FGSM
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import Training, network_kernel
from tests.influence.influence_case import problem


def classes(n=30, q=6):
    X, y, _ = problem(n=n + q, classes=3, q=1)
    return X[:n], y[:n], X[n:], y[n:]


def test_infinite_width_is_malleability_under_the_relu_kernel():
    X, y, Xq, yq = classes()
    features = AttentionFeatures()
    found = network_malleability(Network(relative_ridge=0.1), X, y, Xq, yq, FGSM(0.3), features=features)
    ridge = 0.1 * float(ReluNTK().diag(features(X, Xq)[0]).mean())
    direct = malleability(ReluNTK(), X, y, Xq, yq, ridge, FGSM(0.3), features=features)
    assert torch.equal(found.after, direct.after)
    assert found.redrawn is None


def test_the_control_is_the_next_draw_on_the_same_rows():
    X, y, Xq, yq = classes()
    found = network_malleability(Network(width=20, relative_ridge=0.1), X, y, Xq, yq, FGSM(0.3), seed=3)
    kernels = [network_kernel(X, y, 20, seed) for seed in (3, 4)]
    ridge = 0.1 * float(kernels[0].diag(X).mean())
    direct = malleability(kernels[0], X, y, Xq, yq, ridge, FGSM(0.3), redraw=lambda: kernels[1], seed=3)
    assert found.redrawn.pair_flips_all == direct.redrawn.pair_flips_all > 0
    assert torch.equal(found.after, direct.after)


def test_the_null_shrinks_with_the_width():
    X, y, Xq, yq = classes()
    flips = [
        network_malleability(Network(width=m), X, y, Xq, yq, FGSM(0.0), adaptive=False).redrawn.pair_flips_all
        for m in (8, 100_000)
    ]
    assert flips[1] < flips[0]


def test_training_again_on_the_attacked_rows():
    X, y, Xq, yq = classes()
    how = Training(method="descent", rate=2.0, epochs=100, l2=0.0)
    kept, again = (
        network_malleability(
            Network(width=20, training=how, retrain=retrain), X, y, Xq, yq, FGSM(0.3), adaptive=False, tau=0.5
        )
        for retrain in (False, True)
    )
    assert torch.equal(kept.X, again.X)
    assert not torch.equal(kept.after, again.after)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "width is 0"),
        ({"training": Training()}, "infinitely wide network cannot be trained"),
        ({"width": 8, "retrain": True}, "retrain is for a trained network"),
        ({"relative_ridge": 0.0}, "relative_ridge is 0"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(errors.InputError, match=words):
        Network(**options)
