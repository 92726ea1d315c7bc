import math

import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError, UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import ReluNetwork, Training, train


def data(n=20, c=1):
    generator = torch_generator(0, "data")
    X = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return X, torch.randn(n, c, generator=generator, dtype=torch.float64)


def network(c=1):
    return ReluNetwork(4, 30, torch_generator(0, "weights"), outputs=c, scale=1.0)


def run(settings, c=1, seed=0, model=None, **options):
    model = network(c) if model is None else model
    X, y = data(c=c)
    return model, train(model, X, y, settings, torch_generator(seed, "batches"), **options)


@pytest.mark.parametrize("method", ["adam", "descent", "flow"])
@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_loss_falls_and_runs_repeat(method, loss):
    how = Training(method, loss, rate=0.01, epochs=30, batch=7)
    (one, first), (two, second) = run(how, c=3), run(how, c=3)
    assert first == second
    assert torch.equal(one.weights, two.weights)
    assert first.curve[-1][1] < first.curve[0][1]
    assert first.steps == (90 if method == "adam" else 30)


def test_batches_depend_on_the_generator():
    how = Training(rate=0.01, epochs=3, batch=7)
    assert not torch.equal(run(how)[0].weights, run(how, seed=1)[0].weights)


def test_descent_follows_the_gradient_of_loss_and_penalty():
    how = Training("descent", rate=0.05, epochs=10, l2=0.1)
    found, _ = run(how)
    model, (X, y) = network(), data()
    for _ in range(10):
        loss = nn.functional.mse_loss(model(X), y) + 0.1 / 2 * model.weights.square().sum()
        (slope,) = torch.autograd.grad(loss, model.weights)
        model.weights.data -= 0.05 * slope
    torch.testing.assert_close(found.weights, model.weights)


def test_flow_is_of_fourth_order():
    """On a linear model the flow is a matrix exponential; halving the step divides the error by sixteen."""
    X, y = data()
    l2, time = 0.2, 2.0
    H = 2 / 20 * X.T @ X + l2 * torch.eye(4, dtype=torch.float64)
    optimum = torch.linalg.solve(H, 2 / 20 * X.T @ y)
    errors = []
    for steps in (10, 20):
        model = nn.Linear(4, 1, bias=False).double()
        nn.init.zeros_(model.weight)
        run(Training("flow", rate=time / steps, epochs=steps, l2=l2), model=model)
        exact = optimum - torch.linalg.matrix_exp(-time * H) @ optimum
        errors.append(float((model.weight.detach().T - exact).norm()))
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.3)


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_output_gradient_is_that_of_the_objective(loss):
    _, y = data(c=3)
    f = torch.randn(20, 3, generator=torch_generator(0, "f"), dtype=torch.float64, requires_grad=True)
    how = Training(loss=loss)
    (slope,) = torch.autograd.grad(how.objective(f, y), f)
    torch.testing.assert_close(how.output_gradient(f.detach(), y), slope)


def test_divergence_is_reported_and_stops():
    _, how = run(Training("descent", rate=1e6, epochs=10_000, l2=1.0), record_every=1)
    assert how.diverged
    assert how.steps < 10_000
    assert not math.isfinite(how.curve[-1][1])


def test_progress_and_records():
    seen = []
    _, how = run(Training("descent", rate=0.01, epochs=5), record_every=2, progress=seen.append)
    assert seen == [1, 2, 3, 4, 5]
    assert [epoch for epoch, _ in how.curve] == [0, 2, 4, 5]


def test_refuses_what_cannot_be_trained():
    with pytest.raises(UnknownNameError, match="did you mean 'adam'"):
        Training("adamw")
    with pytest.raises(UnknownNameError, match="loss"):
        Training(loss="hinge")
    with pytest.raises(InputError, match="l2"):
        Training(l2=-1.0)
    with pytest.raises(InputError, match="rate"):
        Training(rate=0.0)
    with pytest.raises(InputError, match="one output a class"):
        run(Training(loss="cross_entropy"))
