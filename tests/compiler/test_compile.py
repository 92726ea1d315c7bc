import math

import pytest
import torch

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.kernels import DotProduct, Exponential
from tests.compiler.tasks import MODELS, compiled, model, relative, task

GOOD = {"features": 3, "ridge": 0.1, "steps": 4}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": "sofmax"}, "did you mean 'softmax'"),
        ({"attention": "softmax", "algorithm": "pcg"}, "without a preconditioner"),
        ({"attention": "vanilla", "algorithm": "cg"}, "it runs 'richardson'"),
        ({"attention": "linear", "algorithm": "nadaraya_watson"}, "linear attention cannot run"),
        ({"algorithm": "direct"}, "'direct' cannot be compiled"),
        ({"attention": "linear", "preconditioner": "nystrom"}, "can only run 'jacobi'"),
        ({"steps": None}, "give steps="),
        ({"attention": "linear", "sink": 1.0}, "sink belongs to softmax attention"),
        ({"ridge": 0.0}, "ridge is 0"),
        ({"ridge": -1.0}, "ridge is -1"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"features": 0}, "features is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"outputs": 0}, "outputs is 0"),
        ({"width": 5}, "give a width of at least"),
        ({"width": 13, "sketch": "pac"}, "did you mean 'pca'"),
        ({"width": 13}, "needs reference="),
        ({"width": 13, "sketch": torch.ones(5, 3)}, r"\(2, 3\) was expected"),
        ({"algorithm": "chebyshev"}, "give spectrum="),
        ({"projection": torch.ones(2, 4)}, "was expected"),
        ({"dtype": "float16"}, "did you mean"),
        ({"algorithm": "heavy_ball"}, "give spectrum="),
        ({"algorithm": "nesterov"}, "give spectrum="),
        ({"attention": "linear", "spectrum": (1.0, 2.0)}, "has no option 'spectrum'"),
        ({"step_size": 0.1}, "has no option 'step_size'"),
        ({"attention": "vanilla", "step_size": 0.1}, "no step_size"),
        ({"algorithm": "richardson", "through_aggregator": True}, "belongs to conjugate gradients"),
        ({"attention": "linear", "through_aggregator": True}, "would ignore it: leave it out"),
        ({"attention": ["softmax"]}, "unknown attention"),
        ({"primitives": ["exact"]}, "unknown primitives"),
        ({"features": 2.5}, "features is 2.5; a whole number"),
        ({"features": None}, "features is None; a whole number"),
        ({"outputs": 1.5}, "outputs is 1.5; a whole number"),
        ({"width": 14.5}, "width is 14.5; a whole number"),
        ({"width": 13, "sketch": "orthogonal", "seed": -1}, "seed is -1; a whole number"),
        ({"ridge": None}, "ridge is None; a positive number"),
        ({"attention": "vanilla", "ridge": "a"}, "ridge is 'a'; a positive number"),
        ({"tied": "no"}, "tied is 'no'; True or False"),
        ({"sink": "a"}, "sink is 'a'; a number was expected"),
        ({"sink": math.nan}, "sink is nan; a number between"),
        ({"sink": -1000.0}, "sink is -1000; a number between"),
        ({"attention": "vanilla", "sink": 1000.0}, "sink is 1000; a number between"),
        ({"algorithm": "richardson", "step_size": -1.0}, "step_size is -1"),
        ({"algorithm": "richardson", "step_size": math.nan}, "step_size is nan"),
        ({"algorithm": "chebyshev", "spectrum": (2.0, 1.0)}, "0 < low <= high"),
        ({"algorithm": "chebyshev", "spectrum": (0.0, 1.0)}, "0 < low <= high"),
        ({"algorithm": "chebyshev", "spectrum": (1.0, math.inf)}, "0 < low <= high"),
    ],
)
def test_what_cannot_be_compiled(options, words):
    with pytest.raises(errors.InputError, match=words):
        compiled(**{**GOOD, **options}, checked=False)


@pytest.mark.parametrize("name", ["linear cg", "linear pcg", "softmax cg", "softmax richardson", "vanilla"])
@pytest.mark.parametrize("extra", [0, 1, 7])
def test_columns_to_spare_change_nothing(name, extra):
    X, y, Xq = task()
    plain = model(name)
    wide = model(name, width=plain.budget.width + extra)
    assert wide.budget.width == plain.budget.width + extra
    assert torch.equal(wide(X, y, Xq), plain(X, y, Xq))


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("sketch", ["pca", "gaussian", "orthogonal"])
def test_a_narrow_model_solves_the_sketched_problem(attention, sketch):
    X, y, Xq = task(k=20, p=6)
    c = compiled(attention, features=6, ridge=0.3, steps=2).budget.overhead
    net = compiled(
        attention, features=6, ridge=0.3, steps=25, temperature=0.5, width=4 + c, sketch=sketch, reference=X,
        **({} if attention == "linear" else {"sink": 2.0}),
    )  # fmt: skip
    assert net.spec.carried == 4
    carried = net.embed["support"][:6, list(net.layout.columns["phi"])]
    kernel = DotProduct() if attention == "linear" else Exponential(0.5)
    expected = rf.solve(kernel, X @ carried, y, 0.3).predict(Xq @ carried)
    assert relative(net(X, y, Xq), expected) < 1e-6


def test_sketches_are_what_they_are_called():
    X, _, _ = task(k=50, p=6)
    carried = {
        kind: compiled("linear", features=6, ridge=1.0, steps=1, width=4 + 8, sketch=kind, reference=X).embed[
            "support"
        ][:6, :4]
        for kind in ("pca", "orthogonal", "gaussian")
    }
    for kind in ("pca", "orthogonal"):
        torch.testing.assert_close(carried[kind].T @ carried[kind], torch.eye(4, dtype=torch.float64))
    leading = torch.linalg.svd(X).Vh[:4]
    torch.testing.assert_close(
        (leading @ carried["pca"]).abs(), torch.eye(4, dtype=torch.float64), atol=1e-10, rtol=0.0
    )
    assert not math.isclose(float((carried["gaussian"].T @ carried["gaussian"] - torch.eye(4)).norm()), 0, abs_tol=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_call_gives_the_same_weights(name):
    first, second = model(name), model(name)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("attention", ["linear", "softmax", "imitation", "vanilla"])
def test_weights_beyond_the_precision_are_refused(attention):
    with pytest.raises(errors.InputError, match="float32 does not hold"):
        compiled(attention, features=2, ridge=1e60, steps=2, dtype="float32")
