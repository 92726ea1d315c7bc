"""The linear datamodeling score without retraining: 200 subsets of 5,000 frozen embeddings of MNIST, and its price.

Run: python benchmarks/attribution_oracle.py [--rows 5000]; MNIST is fetched before by `ridgeformer data fetch mnist`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from harness import report
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

import ridgeformer as rf
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import draw_subsets, judge_scores, leave_one_out, subset_predictions

QUERIES, SUBSETS, CHECKED, WIDTH, STEPS, RIDGE, TAU = 100, 200, 10, 64, 300, 1.0, 4.0
HOW = "`python benchmarks/attribution_oracle.py`, processor time"


def train(X: Tensor, y: Tensor) -> nn.Sequential:
    """Return a small network trained on images: one hidden layer, whose outputs are the frozen embedding."""
    network = nn.Sequential(nn.Linear(X.shape[1], WIDTH), nn.Tanh(), nn.Linear(WIDTH, 10)).double()
    generator = torch_generator(0, "embedding")
    with torch.no_grad():
        for layer in (network[0], network[2]):
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) / layer.in_features**0.5)
            layer.bias.zero_()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.003)
    for _ in range(STEPS):
        batch = torch.randint(len(X), (256,), generator=generator)
        optimiser.zero_grad()
        cross_entropy(network(X[batch]), y[batch]).backward()
        optimiser.step()
    return network


def timed(run: Callable[[], object]) -> tuple[float, object]:
    """Return the processor time of one call, and its result."""
    begin = time.process_time()
    found = run()
    return time.process_time() - begin, found


def main() -> None:
    """Time and check two heads on the same embedding, then judge good and bad scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    rows = parser.parse_args().rows
    data = rf.datasets.load("mnist", limit=rows + QUERIES)
    X, y = torch.as_tensor(data.X / 255).double(), torch.as_tensor(data.y).long()
    training, network = timed(lambda: train(X[:rows], y[:rows]))
    assert isinstance(network, nn.Sequential)
    with torch.no_grad():
        features = network[:2](X)
    F, Fq, targets = features[:rows], features[rows:], 2 * one_hot(y[:rows], 10).double() - 1
    kept = draw_subsets(rows, SUBSETS, seed=0)
    timing = []
    heads = {
        "linear": (rf.DotProduct(), lambda: Ridge(RIDGE, fit_intercept=False, solver="cholesky")),
        "Gaussian": (rf.Gaussian(temperature=TAU), lambda: KernelRidge(RIDGE, kernel="rbf", gamma=1 / (2 * TAU))),
    }
    for name, (kernel, rival) in heads.items():
        solving, fit = timed(lambda kernel=kernel: rf.solve(kernel, F, targets, RIDGE, algorithm="direct"))
        assert isinstance(fit, rf.Fit)
        ours, outputs = timed(lambda fit=fit: subset_predictions(fit, Fq, kept))
        assert isinstance(outputs, Tensor)
        refits, gap = 0.0, 0.0
        for subset, values in zip(kept[:CHECKED], outputs[:CHECKED], strict=True):
            chosen = subset.numpy()
            one, model = timed(
                lambda rival=rival, chosen=chosen: rival().fit(F.numpy()[chosen], targets.numpy()[chosen])
            )
            refits += one / CHECKED
            gap = max(gap, float(np.abs(model.predict(Fq.numpy()) - values.numpy()).max()))  # type: ignore[attr-defined]
        assert gap < 1e-8, gap
        timing.append(
            {
                "head": name,
                "fit, s": f"{solving:.1f}",
                f"{SUBSETS} exact subsets, s": f"{ours:.1f}",
                f"largest difference over {CHECKED} scikit-learn refits": f"{gap:.1e}",
                "one scikit-learn refit, s": f"{refits:.3f}",
                f"{SUBSETS} of them, s": f"{SUBSETS * refits:.1f}",
                "training the network once, s": f"{training:.1f}",
                f"{SUBSETS} times, s": f"{SUBSETS * training:,.0f}",
            }
        )
    settings = {"rows": rows, "queries": QUERIES, "features": WIDTH, "ridge": RIDGE, "fraction kept": 0.5}
    report("attribution_oracle", settings, timing, HOW)
    judged(F, Fq, y, rows, network, X)


def judged(F: Tensor, Fq: Tensor, y: Tensor, rows: int, network: nn.Sequential, X: Tensor) -> None:
    """Judge scores that are known to be good, known to be bad, and one that people use."""
    labels = y.numpy()
    with torch.no_grad():
        gradient = one_hot(y, 10) - network(X).softmax(1)
    head = rf.solve(rf.DotProduct(), F, 2 * one_hot(y[:rows], 10).double() - 1, RIDGE, algorithm="direct")
    exact = leave_one_out(head, Fq).gather(2, y[rows:][None, :, None].expand(rows, -1, 1))[:, :, 0]
    noise = torch.randn(rows, QUERIES, generator=torch_generator(1, "random"), dtype=torch.float64)
    shuffled = exact[torch.randperm(rows, generator=torch_generator(1, "shuffled"))]
    given = {
        "TracIn, last layer, one checkpoint": (gradient[:rows] @ gradient[rows:].T) * (F @ Fq.T),
        "leave-one-out, sign reversed": -exact,
        "leave-one-out of the wrong rows": shuffled,
        "another draw of random scores": noise,
    }
    table, told = [], {}
    for name, scores in given.items():
        found = judge_scores(scores, F, labels[:rows], Fq, labels[rows:], name=name, ridge=RIDGE, subsets=SUBSETS)
        told |= {one.name: one for one in (found.methods[0], *found.methods[1:])}
    for name, one in told.items():
        low, high, mean = one.agreement.low, one.agreement.high, one.agreement.mean
        assert low is not None
        assert high is not None
        words = "above chance" if low > 0.1 else "wrong about the sign" if high < -0.1 else "about chance"
        words = "good" if low > 0.5 else words
        table.append(
            {
                "scores": name,
                "rank correlation with exact refits": f"{mean:.3f}",
                "95 % interval": f"{low:.3f} to {high:.3f}",
                "20 top rows removed: output falls by": f"{one.removed[-1]:.3f}",
                "in words": words,
            }
        )
    settings = {"rows": rows, "queries": QUERIES, "subsets": SUBSETS, "head": "linear, with a constant feature"}
    report(
        "attribution_known_bad",
        settings,
        sorted(table, key=lambda row: -float(row["rank correlation with exact refits"])),
        HOW,
    )


if __name__ == "__main__":
    main()
