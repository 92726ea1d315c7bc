import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, Network, compare, influence, influence_over_time
from ridgeformer.influence.comparison import top_rows
from ridgeformer.regime import Training, network_kernel
from tests.influence.influence_case import assert_equal, problem

HOW = Training("descent", rate=0.5, epochs=6, l2=0.0)


def classes():
    X, y, _ = problem(n=26, classes=3, q=1)
    return X[:20], y[:20], X[20:], y[20:]


def at(epochs, features):
    """The influences of a network trained so long from nothing."""
    X, y, Xq, yq = classes()
    rows, queries = features(X, Xq)
    kernel = network_kernel(rows, y, 16, 3, Training("descent", rate=0.5, epochs=epochs, l2=0.0))
    ridge = 1e-2 * float(kernel.diag(rows).mean())
    return kernel(rows), influence(kernel, rows, y, queries, ridge).leave_one_out[:, range(6), yq.argmax(1)]


def test_every_moment_is_that_of_a_network_trained_so_long():
    features = AttentionFeatures()
    found = influence_over_time(Network(16, HOW, relative_ridge=1e-2), *classes(), [2], features=features, seed=3)
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
def test_bad_input(network, epochs, words):
    with pytest.raises(errors.InputError, match=words):
        influence_over_time(network, *classes(), epochs)
