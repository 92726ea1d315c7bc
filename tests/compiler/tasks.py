"""Problems, models and textbook algorithms that the tests of the compiler share."""

import math
from inspect import unwrap

import torch

import ridgeformer as rf
from ridgeformer.algorithms import resolve
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.language.interpreter import interpret, read
from ridgeformer.language.program import Record

MODELS = {
    "linear cg": {"attention": "linear", "algorithm": "cg"},
    "linear pcg": {"attention": "linear", "algorithm": "pcg"},
    "linear richardson": {"attention": "linear", "algorithm": "richardson"},
    "linear chebyshev": {"attention": "linear", "algorithm": "chebyshev", "spectrum": (0.3, 40.0)},
    "softmax cg": {"attention": "softmax", "algorithm": "cg"},
    "softmax cg, aggregator": {"attention": "softmax", "algorithm": "cg", "through_aggregator": True},
    "softmax richardson": {"attention": "softmax", "algorithm": "richardson"},
    "softmax richardson, given step": {"attention": "softmax", "algorithm": "richardson", "step_size": 0.01},
    "softmax chebyshev": {"attention": "softmax", "algorithm": "chebyshev", "spectrum": (0.3, 90.0)},
    "linear heavy ball": {"attention": "linear", "algorithm": "heavy_ball", "spectrum": (0.3, 40.0)},
    "linear nesterov": {"attention": "linear", "algorithm": "nesterov", "spectrum": (0.3, 40.0)},
    "softmax heavy ball": {"attention": "softmax", "algorithm": "heavy_ball", "spectrum": (0.3, 90.0)},
    "softmax nesterov": {"attention": "softmax", "algorithm": "nesterov", "spectrum": (0.3, 90.0)},
    "softmax neumann": {"attention": "softmax", "algorithm": "neumann", "ridge": 300.0},
    "linear neumann": {"attention": "linear", "algorithm": "neumann", "ridge": 300.0},
    "nadaraya_watson": {"attention": "softmax", "algorithm": "nadaraya_watson"},
    "vanilla": {"attention": "vanilla"},
    "gaussian cg": {"kernel": "gaussian"},
    "gaussian richardson": {"kernel": "gaussian", "algorithm": "richardson"},
    "gaussian nesterov": {"kernel": "gaussian", "algorithm": "nesterov", "spectrum": (0.3, 30.0)},
    "gaussian nadaraya_watson": {"kernel": "gaussian", "algorithm": "nadaraya_watson"},
    "gaussian vanilla": {"kernel": "gaussian", "attention": "vanilla"},
    "imitation": {"attention": "imitation"},
}


def task(k=17, q=4, p=3, outputs=1, seed=0, dtype=torch.float64, tasks=None):
    """Rows of unit length, so that the default sink logit is right, and random targets."""
    shape = () if tasks is None else (tasks,)

    def draw(what, *size):
        return torch.randn(*shape, *size, generator=torch_generator(seed, what), dtype=torch.float64)

    X, Xq = (torch.nn.functional.normalize(draw(w, n, p), dim=-1).to(dtype) for w, n in (("X", k), ("Xq", q)))
    return X, draw("y", k, outputs).to(dtype), Xq


def compiled(
    attention="softmax", algorithm=None, *, kernel=None, steps=None, temperature=1.0, projection=None, spectrum=None,
    step_size=None, preconditioner=None, checked=True, **options,
):  # fmt: skip
    """A model by the names of its attention and algorithm; "pcg" is CG with Jacobi's preconditioner.

    With `checked=False` values of a wrong type reach the library itself, as they do outside of tests.
    """
    algorithm = algorithm or ("richardson" if attention == "vanilla" else "cg")
    if algorithm == "pcg":
        algorithm, preconditioner = "cg", "jacobi"
    steps = None if algorithm == "nadaraya_watson" else steps
    if attention in ("linear", "imitation"):
        kernel = DotProduct(projection)
    else:
        kernel = (Gaussian if kernel == "gaussian" else Exponential)(temperature, projection)
    chosen = resolve(algorithm, steps=steps, spectrum=spectrum, step_size=step_size, preconditioner=preconditioner)
    compile = rf.compile if checked else unwrap(rf.compile)
    return compile(kernel, chosen, attention=attention, **options)


def model(name, **options):
    defaults = {"features": 3, "ridge": 0.3, "steps": 6, "temperature": 0.5}
    return compiled(**{**defaults, **MODELS[name], **options})


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
    return net.spec.kernel


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
