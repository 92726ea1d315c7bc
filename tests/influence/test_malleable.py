import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, Network, RawFeatures, malleability, network_malleability
from ridgeformer.influence.attacks import FGSM, PGD
from ridgeformer.kernels import Exponential, ReluNTK
from ridgeformer.regime import Training, network_kernel
from tests.influence.influence_case import KERNELS, assert_equal, problem, refit, without


def classes(n=30, q=6):
    X, y, _ = problem(n=n + q, classes=3, q=1)
    return X[:n], y[:n], X[n:], y[n:]


def by_refits(kernel, features, X, y, Xq, yq):
    """The influence on the true class, from n real refits."""
    rows, queries = features(X, Xq)
    full = refit(kernel, rows, y, queries, 0.3)
    drops = torch.stack([full - refit(kernel, rows, y, queries, 0.3, without(len(X), i)) for i in range(len(X))])
    return drops[:, range(len(yq)), yq.argmax(1)]


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
@pytest.mark.parametrize("kernel", [Exponential(1.0), ReluNTK()])
def test_the_whole_protocol_against_refits(kernel, features):
    X, y, Xq, yq = classes()
    found = malleability(kernel, X, y, Xq, yq, 0.3, FGSM(0.5), tau=0.1, features=features)
    before = by_refits(kernel, features, X, y, Xq, yq)
    assert_equal(found.before, before)
    assert set(found.top.tolist()) == set(before.mean(1).abs().argsort(descending=True)[:3].tolist())
    still = without(30, *found.top.tolist())
    assert torch.equal(found.X[still], X[still])
    torch.testing.assert_close((found.X - X)[found.top].abs(), torch.full((3, 4), 0.5).double())
    after = by_refits(kernel, features, found.X, y, Xq, yq)
    assert_equal(found.after, after)
    flipped = (before * after < 0).double()
    assert found.attacked.pair_flips_top == pytest.approx(float(flipped[found.top].mean()))
    assert found.attacked.pair_flips_all == pytest.approx(float(flipped.mean()))


def test_an_attack_of_size_zero_changes_nothing():
    X, y, Xq, yq = classes()
    found = malleability(Exponential(1.0), X, y, Xq, yq, 0.3, PGD(0.0))
    for control in (found.attacked, found.noise, found.adaptive):
        assert (control.flips_all, control.pair_flips_all, control.overlap) == (0, 0, 1)
        assert control.spearman == pytest.approx(1)
    assert found.redrawn is None


def test_the_adaptive_attack_flips_more_than_noise():
    X, y, Xq, yq = classes()
    attack = PGD(0.15, steps=10, relative_step=0.2, random_start=False)
    found = malleability(Exponential(1.0), X, y, Xq, yq, 0.3, attack, tau=0.3)
    assert found.adaptive.flips_top >= found.noise.flips_top + 0.3
    assert malleability(Exponential(1.0), X, y, Xq, yq, 0.3, attack, adaptive=False).adaptive is None


def test_the_redrawn_kernel_is_judged_on_the_rows_as_they_were():
    X, y, Xq, yq = classes()
    same, other = (
        malleability(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.3), adaptive=False, redraw=lambda k=kernel: k).redrawn
        for kernel in (Exponential(1.0), Exponential(50.0))
    )
    assert (same.flips_all, same.overlap) == (0, 1)
    assert other.pair_flips_all > 0


def test_the_kernel_can_be_rebuilt_from_the_moved_rows():
    X, y, Xq, yq = classes()
    seen = []

    def rebuild(moved, targets):
        seen.append(moved)
        assert torch.equal(targets, y)
        return Exponential(3.0)

    found = malleability(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.3), adaptive=False, rebuild=rebuild)
    assert any(torch.equal(moved, found.X) for moved in seen)
    assert_equal(found.after, by_refits(Exponential(3.0), RawFeatures(), found.X, y, Xq, yq))


def test_regression_by_output_and_loss():
    X, y, Xq = problem(n=30)
    yq = y[:5]
    for measure in ("output", "loss"):
        found = malleability(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(0.3), measure=measure, adaptive=False)
        assert found.before.shape == (30, 5)


def test_whether_the_attacker_knows_that_the_context_moves():
    X, y, Xq, yq = classes()
    moved = [
        malleability(
            KERNELS["relu_ntk"](X), X, y, Xq, yq, 0.3, FGSM(0.5), tau=1.0, adaptive=False,
            features=AttentionFeatures(moving_context=knows),
        )
        for knows in (True, False)
    ]  # fmt: skip
    torch.testing.assert_close(moved[0].before, moved[1].before)
    assert not torch.equal(moved[0].X, moved[1].X)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tau": 0.0}, r"tau is 0; .*\(0, 1\]"),
        ({"tau": 1.01}, "tau is 1.01"),
        ({"tau": float("nan")}, "tau is nan"),
        ({"tau": "much"}, "tau is 'much'"),
        ({"attack": FGSM(0.1, bounds=(0.0, 1.0))}, "bounds must hold the data"),
        ({"ridge": 0.0}, "ridge is 0"),
        ({"y": torch.tensor([[1.0, -1.0, -1.0]] * 30)}, "one class only"),
        ({"yq": torch.ones(6)}, "code both alike"),
        ({"yq": torch.ones(5, 3)}, "yq has 5 rows"),
        ({"measure": "mean"}, "unknown measure"),
    ],
)
def test_bad_input(change, words):
    X, y, Xq, yq = classes()
    settings = {"y": y, "yq": yq, "ridge": 0.3, "attack": FGSM(0.1), "tau": 0.1} | change
    with pytest.raises(errors.InputError, match=words):
        malleability(Exponential(1.0), X, Xq=Xq, **settings)


def test_random_signs_are_clipped_as_the_attack_is():
    X, y, Xq, yq = classes()
    attack, seen = FGSM(2.0).clipped_to(X), []

    def rebuild(moved, targets):
        seen.append(moved)
        return Exponential(1.0)

    found = malleability(Exponential(1.0), X, y, Xq, yq, 0.3, attack, tau=1.0, rebuild=rebuild)
    assert len(seen) == 3  # attack, random signs, attack on the influence
    for moved in seen:
        assert float(X.min()) <= float(moved.min()) < float(moved.max()) <= float(X.max())
        assert not torch.equal(moved, X)
    free = malleability(Exponential(1.0), X, y, Xq, yq, 0.3, FGSM(2.0), tau=1.0, adaptive=False)
    assert float(free.X.abs().max()) > float(X.abs().max())
    assert found.noise.spearman != free.noise.spearman


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
def test_bad_networks(options, words):
    with pytest.raises(errors.InputError, match=words):
        Network(**options)
