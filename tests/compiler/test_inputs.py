import pytest
import torch

from ridgeformer import errors
from tests.compiler.tasks import model, task


def call(net, X, y, Xq):
    return net(X, y, Xq)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y, Q: (X[:, :2], y, Q), "compiled for 3"),
        (lambda X, y, Q: (X, y, Q[:, :1]), "Xq has 1 features"),
        (lambda X, y, Q: (X[:0], y[:0], Q), "at least one row"),
        (lambda X, y, Q: (X, y, Q[:0]), "at least one row"),
        (lambda X, y, Q: (X, y[:-1], Q), "one row per support"),
        (lambda X, y, Q: (X, torch.cat([y, y], 1), Q), "as compiled"),
        (lambda X, y, Q: (X[0], y, Q), "was expected"),
        (lambda X, y, Q: (X[None], y[None], Q), "same number of tasks"),
        (lambda X, y, Q: (X * 1e200, y, Q), "shorten the rows"),
    ],
)
def test_input_that_does_not_fit(change, words):
    with pytest.raises(errors.InputError, match=words):
        call(model("softmax cg"), *change(*task()))


@pytest.mark.parametrize("name", ["softmax cg", "softmax richardson", "softmax chebyshev", "vanilla"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logits_out_of_range_are_refused_and_the_advice_works(name, dtype):
    X, y, Xq = task()
    far = {"float32": 8.0, "float64": 40.0}[dtype]
    with pytest.raises(errors.LogitRangeError, match="compile with sink="):
        model(name, dtype=dtype)(X * far, y, Xq)
    sink = far**2 / 0.5
    if name == "softmax cg":
        assert bool(torch.isfinite(model(name, dtype=dtype, sink=sink)(X * far, y, Xq)).all())


@pytest.mark.parametrize("name", ["softmax neumann", "linear neumann"])
def test_a_neumann_series_that_cannot_converge_is_refused_with_the_norm(name):
    X, y, Xq = task()
    K = X @ X.T if name.startswith("linear") else (X @ X.T / 0.5).exp()
    norm = float(torch.linalg.matrix_norm(K, ord=2))
    with pytest.raises(errors.InputError, match=f"{norm:.4g} with ridge 0.1"):
        model(name, ridge=0.1, attention=name.split()[0])(X, y, Xq)


@pytest.mark.parametrize("name", ["softmax neumann", "linear neumann"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_norm_is_not_taken_of_rows_that_are_not_finite(name, value):
    net = model(name)
    net.embed["support"].detach()[0, net.layout.columns["phi"][0]] = value
    with pytest.raises(errors.InputError, match=r"not finite in float64|largest logit"):
        call(net, *task())


def test_rows_whose_kernel_overflows_have_an_infinite_norm():
    X, y, Xq = task()
    with pytest.raises(errors.InputError, match=r"\|\|K\|\| is inf"):
        call(model("linear neumann", dtype="float32"), 1e25 * X, y, Xq)


def test_integers_and_lists_are_numbers():
    net = model("linear cg", features=2)
    assert net([[1, 0], [0, 1]], [1, 2], [[1, 1]]).shape == (1,)


@pytest.mark.parametrize("name", ["linear cg", "softmax cg", "vanilla", "imitation"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_float32_cannot_hold_is_refused(name, which):
    given = list(task())
    given[which] = given[which] * 1e60
    with pytest.raises(errors.InputError, match=r"which torch\.float32 cannot hold"):
        call(model(name, dtype="float32"), *given)


@pytest.mark.parametrize("name", ["linear cg", "linear pcg", "softmax cg", "imitation"])
@pytest.mark.parametrize(("dtype", "sizes"), [("float64", (1e-300, 1e-160, 1e170)), ("float32", (1e-30, 1e-15, 1e25))])
def test_targets_whose_squares_are_lost_are_refused_and_the_advice_works(name, dtype, sizes):
    X, y, Xq = task(outputs=2)
    net = model(name, outputs=2, dtype=dtype)
    for size in sizes:
        with pytest.raises(errors.InputError, match="divide y by a constant"):
            net(X, y * torch.tensor([1.0, size], dtype=torch.float64), Xq)
    assert bool(torch.isfinite(net(X, y / y.abs().max(), Xq)).all())


def test_an_output_of_zeros_is_at_its_solution():
    X, y, Xq = task(outputs=2)
    y[:, 1] = 0.0
    for name in ("linear cg", "softmax cg", "imitation"):
        assert bool((model(name, outputs=2)(X, y, Xq)[:, 1] == 0).all())


def test_no_advice_to_compile_with_an_infinite_sink():
    X, y, Xq = task()
    with pytest.raises(errors.LogitRangeError, match="raise the temperature") as caught:
        call(model("softmax cg"), X * 1e200, y, Xq)
    assert "sink=inf" not in str(caught.value)


def test_targets_that_the_precision_loses_are_refused():
    """Without this, a float32 model answers targets of 1e-60 with zeros."""
    X, y, Xq = task()
    for name in ("softmax richardson", "vanilla", "linear chebyshev"):
        with pytest.raises(errors.InputError, match=r"float32 holds all digits of numbers from 1e-31 on: divide y"):
            model(name, dtype="float32")(X, 1e-60 * y, Xq)
        assert model(name)(X, 1e-60 * y, Xq).abs().max() > 0
        assert not model(name, dtype="float32")(X, 0 * y, Xq).any()
