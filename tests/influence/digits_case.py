"""A real dataset small enough for the exact answer, and how often an error covers the truth."""

import functools

import torch

from ridgeformer import datasets
from ridgeformer.influence import influence
from ridgeformer.kernels import Exponential, ReluNTK
from ridgeformer.solving import solve

KERNELS = {"exponential": Exponential(0.5), "relu_ntk": ReluNTK()}
RIDGE = 0.5


@functools.cache
def digits(n=300, q=8):
    data = datasets.load("digits")
    X = torch.from_numpy(datasets.unit_rows(data.X))
    y = torch.from_numpy(data.targets())
    return X[:n], y[:n], X[n : n + q]


@functools.cache
def exact(name):
    X, y, Xq = digits()
    return influence(solve(KERNELS[name], X, y, RIDGE, algorithm="direct"), Xq)


def coverage(found, truth, error):
    """The share of entries within their error, round-off allowed."""
    return float(((found - truth).abs() <= error + 1e-9 * truth.abs().max()).double().mean())
