import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import (
    AttentionFeatures,
    Network,
    RawFeatures,
    adversarial_rows,
    compare,
    influence,
    influence_over_time,
    intervene,
    malleability,
    network_malleability,
)
from ridgeformer.influence.attacks import FGSM, PGD
from ridgeformer.influence.baseline import top_rows
from ridgeformer.kernels import Exponential, ReluNTK
from ridgeformer.regime import Training, network_kernel
from tests.influence.influence_case import KERNELS, assert_equal, fit, problem, refit, without


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
    found = malleability(fit(kernel, features(X, Xq)[0], y, 0.3), Xq, yq, FGSM(0.5), tau=0.1, features=features, X=X)
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
    found = malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, PGD(0.0))
    for control in (found.attacked, found.noise, found.adaptive):
        assert (control.flips_all, control.pair_flips_all, control.overlap) == (0, 0, 1)
        assert control.spearman == pytest.approx(1)
    assert found.redrawn is None


def test_the_adaptive_attack_flips_more_than_noise():
    X, y, Xq, yq = classes()
    attack = PGD(0.15, steps=10, relative_step=0.2, random_start=False)
    found = malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, attack, tau=0.3)
    assert found.adaptive.flips_top >= found.noise.flips_top + 0.3
    assert malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, attack, adaptive=False).adaptive is None


def test_the_redrawn_kernel_is_judged_on_the_rows_as_they_were():
    X, y, Xq, yq = classes()
    same, other = (
        malleability(
            fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.3), adaptive=False, redraw=lambda k=kernel: k
        ).redrawn
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

    found = malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.3), adaptive=False, rebuild=rebuild)
    assert any(torch.equal(moved, found.X) for moved in seen)
    assert_equal(found.after, by_refits(Exponential(3.0), RawFeatures(), found.X, y, Xq, yq))


def test_regression_by_output_and_loss():
    X, y, Xq = problem(n=30)
    yq = y[:5]
    for measure in ("output", "loss"):
        found = malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.3), measure=measure, adaptive=False)
        assert found.before.shape == (30, 5)


def test_whether_the_attacker_knows_that_the_context_moves():
    X, y, Xq, yq = classes()
    moved = [
        malleability(
            fit(KERNELS["relu_ntk"](X), features(X, Xq)[0], y, 0.3), Xq, yq, FGSM(0.5), tau=1.0, adaptive=False, X=X,
            features=features,
        )
        for features in (AttentionFeatures(), AttentionFeatures(moving_context=False))
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
        ({"y": torch.tensor([[1.0, -1.0, -1.0]] * 30)}, "one class only"),
        ({"yq": torch.ones(6)}, "code both alike"),
        ({"yq": torch.ones(5, 3)}, "yq has 5 rows"),
        ({"measure": "mean"}, "unknown measure"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input(change, words):
    X, y, Xq, yq = classes()
    settings = {"y": y, "yq": yq, "attack": FGSM(0.1), "tau": 0.1} | change
    fitted = fit(Exponential(1.0), X, settings.pop("y"), 0.3)
    with pytest.raises(errors.InputError, match=words):
        malleability(fitted, Xq, **settings)


def test_random_signs_are_clipped_as_the_attack_is():
    X, y, Xq, yq = classes()
    attack, seen = FGSM(2.0).clipped_to(X), []

    def rebuild(moved, targets):
        seen.append(moved)
        return Exponential(1.0)

    found = malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, attack, tau=1.0, rebuild=rebuild)
    assert len(seen) == 3  # attack, random signs, attack on the influence
    for moved in seen:
        assert float(X.min()) <= float(moved.min()) < float(moved.max()) <= float(X.max())
        assert not torch.equal(moved, X)
    free = malleability(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(2.0), tau=1.0, adaptive=False)
    assert float(free.X.abs().max()) > float(X.abs().max())
    assert found.noise.spearman != free.noise.spearman


def test_infinite_width_is_malleability_under_the_relu_kernel():
    X, y, Xq, yq = classes()
    features = AttentionFeatures()
    found = network_malleability(Network(relative_ridge=0.1), X, y, Xq, yq, FGSM(0.3), features=features)
    ridge = 0.1 * float(ReluNTK().diag(features(X, Xq)[0]).mean())
    direct = malleability(fit(ReluNTK(), features(X, Xq)[0], y, ridge), Xq, yq, FGSM(0.3), features=features, X=X)
    assert torch.equal(found.after, direct.after)
    assert found.redrawn is None


def test_the_control_is_the_next_draw_on_the_same_rows():
    X, y, Xq, yq = classes()
    found = network_malleability(Network(width=20, relative_ridge=0.1), X, y, Xq, yq, FGSM(0.3), seed=3)
    kernels = [network_kernel(X, y, 20, seed) for seed in (3, 4)]
    ridge = 0.1 * float(kernels[0].diag(X).mean())
    direct = malleability(fit(kernels[0], X, y, ridge), Xq, yq, FGSM(0.3), redraw=lambda: kernels[1], seed=3)
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


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_each_round_attacks_the_rows_as_given_under_the_fit_of_the_round_before(features, rounds):
    X, y, Xq = problem()
    moved = X
    for _ in range(rounds):
        leaf = X.clone().requires_grad_()
        alpha = fit(Exponential(2.0), features(moved, Xq)[0], y[:, None], 0.3).alpha
        outputs = Exponential(2.0)(features(leaf, Xq)[0], features(moved, Xq)[0]) @ alpha
        loss = (outputs[:, 0] - y).square().sum() / 2
        moved = X + 0.1 * torch.autograd.grad(loss, leaf)[0].sign()
    fitted = fit(Exponential(2.0), features(X, Xq)[0], y, 0.3)
    assert_equal(adversarial_rows(fitted, Xq, FGSM(0.1), rounds, X=X, features=features), moved)


@pytest.mark.parametrize("rounds", [-1, 1.5, "many"])
@pytest.mark.usefixtures("unchecked")
def test_rounds_that_are_no_number_of_rounds(rounds):
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="rounds is"):
        adversarial_rows(fit(Exponential(2.0), X, y, 0.3), Xq, FGSM(0.1), rounds)


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
def test_each_fit_is_a_real_one(features):
    X, y, Xq, yq = classes(q=8)
    fitted = fit(Exponential(1.0), features(X, Xq)[0], y, 0.3)
    found = intervene(fitted, Xq, yq, FGSM(0.5), tau=0.2, X=X, features=features)
    rest = without(30, *found.top.tolist())
    assert found.curated.kept.tolist() == torch.arange(30)[rest].tolist()
    assert_equal(found.curated.X, X[rest])
    assert torch.equal(found.transformed.X[rest], X[rest])
    assert not bool((found.adversarial.X == X).all(1).any())
    for one in (found.untouched, found.curated, found.transformed, found.adversarial):
        rows, queries = features(one.X, Xq)
        outputs = refit(Exponential(1.0), rows, y[one.kept], queries, 0.3)
        own = yq.argmax(1)
        assert one.accuracy == pytest.approx(float((outputs.argmax(1) == own).double().mean()))
        margins = [
            float(row[c] - max(value for k, value in enumerate(row) if k != c))
            for row, c in zip(outputs, own, strict=True)
        ]
        assert one.margin == pytest.approx(sum(margins) / len(margins))
        table = influence(fit(Exponential(1.0), rows, y[one.kept], 0.3), queries).leave_one_out
        assert one.influence == pytest.approx(float(table[:, range(len(own)), own].abs().mean()))


def test_one_column_of_signs():
    X, y, Xq, yq = classes(q=8)
    found = intervene(fit(Exponential(1.0), X, y[:, 0], 0.3), Xq, yq[:, 0], FGSM(0.5))
    outputs = refit(Exponential(1.0), X, y[:, :1], Xq, 0.3)[:, 0]
    assert found.untouched.margin == pytest.approx(float((outputs * yq[:, 0]).mean()))


def test_an_attack_of_size_zero_changes_nothing_but_what_is_removed():
    X, y, Xq, yq = classes(q=8)
    found = intervene(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.0))
    assert found.transformed.margin == found.adversarial.margin == pytest.approx(found.untouched.margin)
    assert found.adversarial.changed.flips_all == 0
    assert found.curated.margin != pytest.approx(found.untouched.margin)


def test_more_rounds_of_adversarial_training():
    X, y, Xq, yq = classes(q=8)
    found = intervene(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.5), rounds=3)
    assert torch.equal(found.adversarial.X, adversarial_rows(fit(Exponential(1.0), X, y, 0.3), Xq, FGSM(0.5), 3))
    with pytest.raises(errors.InputError, match="rounds is 0"):
        intervene(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.5), rounds=0)


def test_bad_input_of_interventions():
    X, y, Xq, yq = classes(q=8)
    with pytest.raises(errors.InputError, match="tau is 2"):
        intervene(fit(Exponential(1.0), X, y, 0.3), Xq, yq, FGSM(0.1), tau=2.0)
    with pytest.raises(errors.InputError, match="one class only"):
        intervene(fit(Exponential(1.0), X, torch.ones(30), 0.3), Xq, torch.ones(8), FGSM(0.1))


HOW = Training("descent", rate=0.5, epochs=6, l2=0.0)


def at(epochs, features):
    """The influences of a network trained so long from nothing."""
    X, y, Xq, yq = classes(20, 6)
    rows, queries = features(X, Xq)
    kernel = network_kernel(rows, y, 16, 3, Training("descent", rate=0.5, epochs=epochs, l2=0.0))
    ridge = 1e-2 * float(kernel.diag(rows).mean())
    return kernel(rows), influence(fit(kernel, rows, y, ridge), queries).leave_one_out[:, range(6), yq.argmax(1)]


def test_every_moment_is_that_of_a_network_trained_so_long():
    features = AttentionFeatures()
    found = influence_over_time(Network(16, HOW, relative_ridge=1e-2), *classes(20, 6), [2], features=features, seed=3)
    assert [moment.epoch for moment in found] == [0, 2, 6]
    (K, first), (moved, middle), (_, last) = (at(epochs, features) for epochs in (0, 2, 6))
    expected = compare(first, middle, top_rows(first.mean(1), 2))
    assert found[1].since_start.spearman == pytest.approx(expected.spearman)
    assert found[1].since_start.pair_flips_all == pytest.approx(expected.pair_flips_all)
    assert found[1].until_end.overlap == compare(last, middle, top_rows(last.mean(1), 2)).overlap
    assert found[1].kernel_drift == pytest.approx(float((moved - K).norm() / K.norm()))
    assert_equal(torch.tensor(found[2].until_end.spearman).double(), torch.tensor(1.0).double())


@pytest.mark.parametrize(
    ("network", "epochs", "words"),
    [
        (Network(), [1], "give Network a width"),
        (Network(8), [1], "give Network a width"),
        (Network(8, HOW), [7], "training ends at 6"),
        (Network(8, HOW), [-1], "an epoch is -1"),
        (Network(8, Training("descent", rate=1e30, epochs=6)), [1], "diverged"),
    ],
)
def test_bad_epochs_or_network(network, epochs, words):
    with pytest.raises(errors.InputError, match=words):
        influence_over_time(network, *classes(20, 6), epochs)
