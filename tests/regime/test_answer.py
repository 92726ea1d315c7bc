import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split, load
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    Architecture,
    CustomArchitecture,
    OutputDistance,
    Training,
    answer_regime,
    gram_spectrum,
    measure,
)
from ridgeformer.regime.answer import CLOSE, NEARLY, RIDGES, choose_ridge, influence_supported, obstacles, sentences


@pytest.fixture(scope="module")
def measured():
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0, classes=("3", "8"))
    how = Training("descent", rate=1.0, epochs=60, l2=0.0)
    found = measure(problem, Architecture("relu", scale=1.0), how, width=2048, seed=0, ridge=1.0)
    return replace(found, to_ridge=OutputDistance(1.0, CLOSE / 2))  # as after long training


def test_a_wide_network_is_close(measured):
    assert influence_supported(measured)
    said = sentences(measured, ())
    assert said[0].startswith("At width 2,048 this network's kernel is within ")
    assert f"{100 * measured.kernel_start.whitened:.2g} %" in said[0]
    assert f"the kernel moved {100 * measured.kernel_drift:.2g} %" in said[1]
    assert said[-1].startswith("Influence by NTK is supported, with the limit kernel or the network's own")


@pytest.mark.parametrize(
    "change",
    [
        {"kernel_drift": 2 * CLOSE},
        {"to_linearised": OutputDistance(1.0, 2 * CLOSE)},
        {"to_linearised": None},
        {"to_ridge": OutputDistance(1.0, 2 * CLOSE)},
        {"kernel_drift": None},
        {"dead": True},
        {"diverged": True},
    ],
)
def test_each_condition_is_needed(measured, change):
    changed = replace(measured, **change)
    assert not influence_supported(changed)
    assert len(obstacles(changed)) == 1
    (said,) = [
        sentence for sentence in sentences(changed, ()) if sentence.startswith("Influence by NTK is not supported")
    ]
    assert obstacles(changed)[0] in said


def test_a_kernel_far_from_its_limit_leaves_the_network_s_own(measured):
    far = replace(measured, kernel_start=replace(measured.kernel_start, whitened=3.0))
    said = sentences(far, ())
    assert "300 % away from" in said[0]
    assert "with the network's own kernel" in said[-1]


def test_what_went_wrong_is_said(measured):
    assert any("diverged" in sentence for sentence in sentences(replace(measured, diverged=True), ()))
    assert any("is dead" in sentence for sentence in sentences(replace(measured, dead=True), ()))


SMALL = {"width": 256, "widest": 100_000, "seed": 1}


def digits():
    return Split.for_networks(load("digits"), rows=60, test_rows=30, seed=1)


@pytest.fixture(scope="module")
def attention():
    how = Training("descent", epochs=50, l2=0.0)
    return answer_regime(digits(), Architecture("mlp-attn", scale=1.0), training=how, **SMALL)


def test_everything_is_there_and_is_json(attention):
    plain = json.loads(json.dumps(attention.as_dict(), allow_nan=True))
    assert plain["answer"] == list(attention.sentences)
    assert plain["sizes"] == {"rows": 60, "test_rows": 30, "features": 64, "outputs": 10}
    assert [one["criterion"] if "criterion" in one else one["name"] for one in plain["criteria"]] == [
        "additive", "frobenius", "multiplicative", "whitened", "published",
    ]  # fmt: skip
    assert set(plain["spectra"]) == {"rows", "attended"}
    assert "60 training rows, 30 test rows, of 1,797" in attention.notes[0]


def test_attention_raises_the_condition_number_of_what_the_layer_sees(attention):
    assert attention.attended.condition(20) > 100 * attention.spectrum.condition(20)
    problem = Split.for_networks(load("digits"), rows=60, test_rows=30, seed=1)
    assert attention.spectrum.condition() == pytest.approx(gram_spectrum(problem.X).condition())


def test_wider_kernels_are_closer(attention):
    assert [width for width, _ in attention.at_widths] == [1_000, 10_000, 100_000]
    first, last = attention.at_widths[0][1], attention.at_widths[-1][1]
    assert last.multiplicative < first.multiplicative / 3
    assert last.ridge == attention.measured.ridge


def test_the_ridge_is_the_largest_that_is_nearly_best():
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0)
    K, n = ReluNTK()(problem.X), 40

    def left_out(ridge):
        total = 0.0
        for i in range(n):
            keep = [j for j in range(n) if j != i]
            A = K[keep][:, keep] + ridge * torch.eye(n - 1, dtype=K.dtype)
            total += float((problem.y[i] - K[i, keep] @ torch.linalg.solve(A, problem.y[keep])).square().sum())
        return total

    ridges = [share * float(K.diagonal().mean()) for share in RIDGES]
    errors = [left_out(ridge) for ridge in ridges]
    expected = max(ridge for ridge, error in zip(ridges, errors, strict=True) if error <= NEARLY * min(errors))
    assert choose_ridge(K, problem.y)[0] == pytest.approx(expected)


def test_a_network_of_your_own_has_no_limit():
    mine = CustomArchitecture(lambda d, c, m: nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c)))
    how = Training("descent", epochs=20, l2=0.0)
    wine = Split.for_networks(load("wine"), rows=30, test_rows=20)
    found = answer_regime(wine, mine, model="mine", training=how, width=32)
    assert (found.criteria, found.at_widths, found.attended, found.model) == ((), (), None, "mine")
    assert "no closed form" in found.sentences[0]
    assert found.measured.train_loss < 1


def test_repeated_rows_have_no_width():
    wine = load("wine")
    how = Training("descent", epochs=2, l2=0.0)
    mixed = wine.subset(torch.cat([torch.arange(170), torch.arange(170)]).numpy())
    split = Split.for_networks(mixed, rows=200, test_rows=20)
    found = answer_regime(split, Architecture("relu"), width=16, widest=1_000, training=how)
    assert found.criteria == ()
    assert any("singular" in note for note in found.notes)


def test_repeats_itself(attention):
    how = Training("descent", epochs=50, l2=0.0)
    again = answer_regime(digits(), Architecture("mlp-attn", scale=1.0), training=how, **SMALL)
    assert again.measured == attention.measured
    assert again.at_widths == attention.at_widths


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda d, c, m: "net", "returned str; a torch.nn.Module was expected"),
        (lambda d: nn.Linear(d, 1), r"called with \(4, 3, 8\), raised TypeError"),
        (lambda d, c, m: nn.Linear(d + 1, c), "given rows of 4 features, raised RuntimeError"),
        (lambda d, c, m: nn.Linear(d, c + 1), "has 4 outputs; the targets have 3"),
        (lambda d, c, m: nn.Sequential(nn.Linear(d, c), nn.Flatten(0)), r"\(rows, outputs\) was expected"),
        (lambda d, c, m: nn.Identity(), "has 4 outputs"),
    ],
)
def test_bad_factories(factory, message):
    X = torch.randn(6, 4, generator=torch_generator(0, "rows"), dtype=torch.float64)
    with pytest.raises(InputError, match=message):
        CustomArchitecture(factory).build(X, 8, 3, torch_generator(0, "weights"))
