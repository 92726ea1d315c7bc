"""`identify` on models whose algorithm is known, on nulls, and on models that misbehave."""

import numpy as np
import pytest
import torch
from torch import nn

import ridgeformer as rf
from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.identification import Reason, adapters, identify
from ridgeformer.identification.controls import reinitialised

FEW = ["cg", "cg_primal", "ridge", "nadaraya_watson"]


def ask(model, **options):
    options = {"candidates": FEW, "controls": False, "layers": [], "features": 3} | options
    return identify(model, **options)


def ridge(X, y, Xq, level=1.0):
    return Xq @ torch.linalg.solve(X.T @ X + level * torch.eye(X.shape[1]).double(), X.T @ y)


@pytest.fixture(scope="module")
def cg():
    return rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=2), features=3, ridge=0.5)


def test_compiled_conjugate_gradients_are_recognised_with_their_depth_and_ridge(cg):
    found = ask(cg)
    assert found.verdict.keys == {"cg-2"}
    assert found.verdict.identified[0].values["ridge"] == pytest.approx(0.5, rel=1e-6)
    assert "2 steps of conjugate gradients" in found.sentences[0]
    assert "ridge regression" in found.sentences[0].partition("excluded")[0]


def test_ridge_is_the_class_of_everything_that_has_converged():
    found = ask(ridge)
    assert {"ridge", "cg_primal-3"} <= found.verdict.keys
    assert found.verdict.name.startswith("ridge regression")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda X, y, Xq: 1.3 * ridge(X, y, Xq), Reason.MISFIT),
        (lambda X, y, Xq: torch.tanh(2 * ridge(X, y, Xq)), Reason.UNEXPLAINED),
        (lambda X, y, Xq: 0.5 * ridge(X, y, Xq) + 0.5 * torch.softmax(Xq @ X.T, 1) @ y, Reason.UNEXPLAINED),
        (lambda X, y, Xq: 0 * Xq[:, 0], Reason.CONTEXT),
        (lambda X, y, Xq: Xq.sum(1), Reason.CONTEXT),
    ],
)
def test_nulls_get_no_answer(model, reason):
    found = ask(model)
    assert not found.identified
    assert found.verdict.reason is reason or {found.verdict.reason, reason} == {Reason.MISFIT, Reason.UNEXPLAINED}
    assert found.sentences[0].startswith("No answer: ")


def test_shuffled_labels_get_no_answer(cg):
    def shuffled(X, y, Xq):
        return cg(X, y.flip(0), Xq)

    assert not ask(shuffled).identified


def test_a_noisy_model_is_averaged_and_that_is_said():
    generator = torch.Generator().manual_seed(0)

    def noisy(X, y, Xq):
        exact = ridge(X, y, Xq)
        return exact + 0.02 * torch.randn(exact.shape, generator=generator)

    found = ask(noisy)
    assert any("not deterministic" in note for note in found.notes)
    assert "ridge" in found.verdict.families


def test_groups_on_which_a_model_crashes_or_returns_nan_are_left_out_and_named():
    def choosy(X, y, Xq):
        if len(X) == 12:
            raise RuntimeError("too long")
        return ridge(X, y, Xq) * (float("nan") if len(X) == 4 else 1.0)

    found = ask(choosy)
    assert len(found.tasks.groups) == 1
    assert any("RuntimeError (too long)" in note for note in found.notes)
    assert any("NaN" in note for note in found.notes)


def test_models_without_any_usable_prediction_are_refused():
    with pytest.raises(InputError, match="no usable predictions"):
        ask(lambda X, y, Xq: Xq[:, 0] * float("nan"))
    with pytest.raises(ShapeError, match="expected"):
        ask(lambda X, y, Xq: y)
    with pytest.raises(ShapeError, match="no array"):
        ask(lambda X, y, Xq: "nothing")


def test_wrong_selections_are_refused(cg):
    with pytest.raises(UnknownNameError, match="did you mean 'ridge'"):
        ask(cg, candidates=["ridg", "cg"])
    with pytest.raises(InputError, match="at least two"):
        ask(cg, candidates=["cg"])
    with pytest.raises(UnknownNameError, match="task design"):
        ask(cg, tasks="hard")
    with pytest.raises(InputError, match="features"):
        identify(ridge, candidates=FEW, controls=False)


def test_own_algorithms_and_functions_are_candidates():
    mine = rf.Chebyshev(steps=3, spectrum=(1.0, 80.0))
    model = rf.compile(rf.DotProduct(), mine, features=3, ridge=0.5)
    found = ask(model, candidates=["cg", "ridge", mine, ridge])
    assert found.verdict.keys == {"your chebyshev-3"}


def test_own_tasks_and_numpy_models():
    def source(generator):
        X = torch.randn(7, 3, generator=generator, dtype=torch.float64)
        Xq = torch.randn(8, 3, generator=generator, dtype=torch.float64)
        w = torch.randn(3, generator=generator, dtype=torch.float64)
        return X, X @ w + 0.3 * torch.randn(7, generator=generator, dtype=torch.float64), Xq, Xq @ w

    def least_squares(X, y, Xq):
        return np.asarray(Xq) @ np.linalg.lstsq(np.asarray(X), np.asarray(y), rcond=None)[0]

    found = ask(least_squares, tasks=source, candidates=[*FEW, "ols"])
    assert "ols" in found.verdict.families
    assert found.sentences[-1].startswith("The answer holds for your own tasks")


class Descent(nn.Module):
    """One step of gradient descent on tokens, in whichever form an adapter gives them."""

    def __init__(self):
        super().__init__()
        self.size = nn.Parameter(torch.tensor(0.01, dtype=torch.float64))

    def predict(self, X, y, x):
        return self.size * ((x[:, None] @ X.mT)[:, 0] * y).sum(-1)


class Last(Descent):
    def forward(self, tokens):
        return self.predict(tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1, :-1])[:, None, None].expand(-1, 2, 1)


class Pairs(Descent):
    def forward(self, xs, ys):
        return self.predict(xs[:, :-1], ys[:, :-1], xs[:, -1])[:, None].expand(-1, xs.shape[1])


class Interleaved(Descent):
    def forward(self, tokens):
        return self.predict(tokens[:, :-1:2], tokens[:, 1::2, 0], tokens[:, -1])[:, None, None].expand(-1, 2, 1)


@pytest.mark.parametrize(
    "adapter", [adapters.QueryLast(Last()), adapters.TokenPairs(Pairs()), adapters.InterleavedTokens(Interleaved())]
)
def test_adapters_put_supports_and_queries_where_modules_look(adapter):
    generator = torch.Generator().manual_seed(0)
    X, y, Xq = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((2, 5, 3), (2, 5), (2, 4, 3))
    )
    expected = 0.01 * torch.einsum("tqd,tkd,tk->tq", Xq, X, y)
    assert torch.allclose(adapter(X, y, Xq), expected)
    assert adapter.module.training


def test_a_twin_has_other_matrices_of_the_same_spread():
    module = nn.Linear(30, 30)
    twin = reinitialised(module, seed=0)
    assert not torch.equal(twin.weight, module.weight)
    assert float((twin.weight.std() / module.weight.std()).detach()) == pytest.approx(1.0, rel=0.1)
    assert torch.equal(twin.bias, module.bias)


def test_an_answer_is_repeated_by_the_same_seed_and_is_plain(cg):
    first, second = (ask(cg).as_dict() for _ in range(2))
    assert {k: v for k, v in first.items() if k != "seconds"} == {k: v for k, v in second.items() if k != "seconds"}
    assert first["identified"][0]["key"] == "cg-2"


@pytest.mark.slow
def test_controls_power_and_the_compiled_control(cg):
    found = ask(cg, candidates=["cg", "ridge", "gd"], controls=True)
    assert found.control is not None
    assert found.control.passed
    assert found.power[0].power == 1.0
    assert {one.kind for one in found.nulls} == {
        "shuffled labels", "ridge regression with matched noise", "ridge regression times 0.8"
    }  # fmt: skip
    assert not any(one.same for one in found.nulls)
    assert "0 of 9 null models give this answer" in found.sentences[0]


def test_optimised_tasks_separate_what_standard_ones_leave():
    model = rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=3), features=3, ridge=0.01)
    found = ask(model, candidates=["cg", "cg_primal", "ridge"], tasks="optimised")
    assert "chosen for these candidates" in found.tasks.name or len(found.verdict.identified) == 1
    assert "cg-3" in found.verdict.keys


def test_a_deterministic_model_three_per_cent_away_is_near_and_not_named():
    def beside(X, y, Xq):
        exact = ridge(X, y, Xq)
        return exact + 0.03 * exact.std() * torch.sign(torch.sin(50 * Xq[:, 0]))

    found = ask(beside)
    assert found.verdict.reason is Reason.NEAR
    assert "away from those of" in found.sentences[0]
    assert 0.02 < found.verdict.resolution < 0.1


def test_a_deterministic_model_one_per_cent_away_is_said_to_approximate_and_not_to_be():
    def beside(X, y, Xq):
        exact = ridge(X, y, Xq)
        return exact + 0.01 * exact.std() * torch.sign(torch.sin(50 * Xq[:, 0]))

    found = ask(beside)
    assert found.verdict.approximate
    assert "ridge" in found.verdict.families
    assert "approximate those of ridge regression" in found.sentences[0]
    assert "converged" not in found.sentences[0]  # no claim about other solvers of the same regression
    assert 0.005 < found.verdict.systematic <= found.verdict.resolution < 0.02
    assert found.as_dict()["approximate"]
    exact = ask(ridge)
    assert not exact.verdict.approximate
    assert "its predictions are those of ridge regression" in exact.sentences[0]


def test_the_same_distance_by_noise_of_calls_is_named_with_its_resolution():
    generator = torch.Generator().manual_seed(1)

    def noisy(X, y, Xq):
        exact = ridge(X, y, Xq)
        return exact + 0.03 * 8**0.5 * exact.std() * torch.randn(exact.shape, generator=generator)

    found = ask(noisy)
    assert "ridge" in found.verdict.families
    assert found.verdict.unexplained > 4e-4  # more than a deterministic model may leave
    assert 0.005 < found.verdict.resolution < 0.03  # no finer than the noise allows
    assert not found.verdict.approximate  # noise of the calls explains the distance
    assert "the two agree to within" in found.sentences[0]
