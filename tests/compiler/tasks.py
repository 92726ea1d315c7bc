"""Problems, models and textbook algorithms that the tests of the compiler share."""

import math

import torch

import ridgeformer as rf
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.language.interpreter import interpret, read
from ridgeformer.language.program import Record

MODELS = {
    "linear cg": {"route": "linear", "solver": "cg"},
    "linear pcg": {"route": "linear", "solver": "pcg"},
    "linear richardson": {"route": "linear", "solver": "richardson"},
    "linear chebyshev": {"route": "linear", "solver": "chebyshev", "spectrum": (0.3, 40.0)},
    "softmax cg": {"route": "softmax", "solver": "cg"},
    "softmax cg, aggregator": {"route": "softmax", "solver": "cg", "through_aggregator": True},
    "softmax richardson": {"route": "softmax", "solver": "richardson"},
    "softmax richardson, given step": {"route": "softmax", "solver": "richardson", "step_size": 0.01},
    "softmax chebyshev": {"route": "softmax", "solver": "chebyshev", "spectrum": (0.3, 90.0)},
    "softmax neumann": {"route": "softmax", "solver": "neumann", "ridge": 300.0},
    "linear neumann": {"route": "linear", "solver": "neumann", "ridge": 300.0},
    "nadaraya-watson": {"route": "softmax", "solver": "nadaraya-watson"},
    "vanilla": {"route": "vanilla"},
    "imitation": {"route": "imitation"},
}


def task(k=17, q=4, p=3, outputs=1, seed=0, dtype=torch.float64, tasks=None):
    """Rows of unit length, so that the default sink logit is right, and random targets."""
    shape = () if tasks is None else (tasks,)

    def draw(what, *size):
        return torch.randn(*shape, *size, generator=torch_generator(seed, what), dtype=torch.float64)

    X, Xq = (torch.nn.functional.normalize(draw(w, n, p), dim=-1).to(dtype) for w, n in (("X", k), ("Xq", q)))
    return X, draw("y", k, outputs).to(dtype), Xq


def model(name, **options):
    defaults = {"features": 3, "ridge": 0.3, "steps": 6, "temperature": 0.5}
    return rf.compile(**{**defaults, **MODELS[name], **options})


def interpreted(net, X, y, Xq):
    """What the reference interpreter records, by name: a list over steps."""
    tokens = net.tokens(len(X), len(Xq))
    found = {}
    for section, instruction, state in interpret(net.program, tokens, X, y, Xq, net.spec.steps):
        if isinstance(instruction, Record):
            step = net.spec.steps if section == "readout" else int(section.split()[1]) - instruction.lag
            if step >= 1:
                found.setdefault(instruction.name, {})[step] = read(instruction, state, tokens)
    return {name: torch.stack([by[s] for s in sorted(by)]) for name, by in found.items()}


def kernel_of(net):
    return DotProduct() if net.spec.route == "linear" else Exponential(net.spec.temperature)


def textbook_cg(A, b, steps):
    """The iterates of conjugate gradients, one column, in the plainest form."""
    alpha, r, p, iterates = torch.zeros_like(b), b.clone(), b.clone(), []
    for _ in range(steps):
        u = A @ p
        gamma = (r @ r) / (p @ u)
        alpha, new = alpha + gamma * p, r - gamma * u
        p, r = new + (new @ new) / (r @ r) * p, new
        iterates.append(alpha)
    return torch.stack(iterates)


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


def problem_with_condition(kappa, k, p, seed=0):
    """Features for which Phi Phi' + I has condition number kappa, its nonzero eigenvalues log-spaced."""
    Q, _ = torch.linalg.qr(torch.randn(k, p, generator=torch_generator(seed, "Q"), dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(p, p, generator=torch_generator(seed, "V"), dtype=torch.float64))
    values = torch.logspace(math.log10(2), math.log10(kappa), p, dtype=torch.float64) - 1
    return Q * values.sqrt() @ V.T, torch.randn(k, generator=torch_generator(seed, "y"), dtype=torch.float64)
