"""Depth, by the algorithm that the layers run.

Six compiled networks on the same data, with the error of their coefficients after every step. Conjugate gradients,
Chebyshev's iteration and Nesterov's need depth in proportion to the square root of the condition number, gradient
descent in proportion to the condition number. Attention alone, without MLP or division, is gradient descent that
needs no step size. Linear attention is done after as many steps as there are features, and one.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import ridgeformer as rf

NETWORKS = {
    "linear attention, conjugate gradients": ("linear", rf.ConjugateGradients),
    "softmax attention, conjugate gradients": ("softmax", rf.ConjugateGradients),
    "softmax attention, Chebyshev": ("softmax", rf.Chebyshev),
    "softmax attention, Nesterov": ("softmax", rf.Nesterov),
    "softmax attention, gradient descent": ("softmax", rf.Richardson),
    "softmax attention and nothing else": ("vanilla", rf.Richardson),
}


def draw(quick: bool = False) -> Figure:
    """Return the figure; quick takes fewer steps."""
    steps, ridge, tau = 10 if quick else 60, 1.0, 1.0
    X = torch.nn.functional.normalize(torch.randn(25, 4, generator=torch.Generator().manual_seed(0)).double(), dim=1)
    y = X[:, 0] * X[:, 1]
    figure, axis = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    for name, (attention, kind) in NETWORKS.items():
        kernel = rf.DotProduct() if attention == "linear" else rf.Exponential(temperature=tau)
        K = kernel(X)
        exact = torch.linalg.solve(K + ridge * torch.eye(25, dtype=K.dtype), y)
        ends = torch.linalg.eigvalsh(K)[[0, -1]] + ridge
        options = {"spectrum": tuple(float(end) for end in ends)} if kind in (rf.Chebyshev, rf.Nesterov) else {}
        model = rf.compile(kernel, kind(steps=steps, **options), attention=attention, features=4, ridge=ridge)
        alphas = model.trace(X, y, X[:1]).alpha[..., 0]
        axis.semilogy(
            range(1, len(alphas) + 1), ((alphas - exact).norm(dim=1) / exact.norm()).clamp_min(1e-16), label=name
        )
    axis.set(xlabel="step", ylabel="relative error of the coefficients", ylim=(1e-16, 3))
    axis.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.08))
    return figure


if __name__ == "__main__":
    draw().savefig("depth_by_solver.svg")
