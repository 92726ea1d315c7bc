"""Programs in stock classes, where their parts allow it."""

import pytest
import torch

import ridgeformer as rf
from tests.compiler.tasks import task


@pytest.fixture(scope="module")
def model():
    return rf.compile(rf.programs.logistic_descent(steps=2), features=3, primitives="swiglu")


def given():
    X, y, Xq = task()
    return X, (y > 0).double(), Xq


@pytest.mark.parametrize("export", [rf.export.to_hf, rf.export.to_transformer_lens])
def test_a_program_with_softmax_heads_runs_in_a_stock_class(model, export):
    exported = export(model)
    [found] = exported(*given())
    torch.testing.assert_close(found, model(*given()), rtol=1e-12, atol=1e-12)
    certificate = exported.certify(*given())
    assert [check.name for check in certificate.failed] == ["fixed point: gradient"]  # two steps do not arrive there
    assert certificate.accurate
    assert certificate.within < 1e-13


def test_the_card_and_the_saved_export_name_the_program(model, tmp_path):
    exported = rf.export.to_hf(model)
    exported.save(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "runs the program `logistic_descent` (ridge 0.01, step_size 1)" in card
    assert "ridge regression" not in card
    torch.testing.assert_close(rf.export.load_export(tmp_path)(*given())[0], model(*given()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "why"), [("newton_schulz", "linear head"), ("least_mean_squares", "linear head")])
def test_linear_heads_are_refused_by_name(name, why):
    program = rf.programs.PROGRAMS[name](steps=2)
    with pytest.raises(rf.errors.InputError, match=why):
        rf.export.to_hf(rf.compile(program, features=3, primitives="swiglu"))


def test_logits_that_no_mask_exceeds_are_refused():
    sharp = rf.programs.nearest_neighbour(steps=1, temperature=1e-4)
    exported = rf.export.to_hf(rf.compile(sharp, features=3, primitives="swiglu"))
    with pytest.raises(rf.errors.LogitRangeError, match=r"step 1.nearest"):
        exported(*task())
