"""Certificates of programs: they say of which kind each line is, and every line can fail."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.algorithms.written import WRITTEN
from tests.compiler.tasks import task


@pytest.fixture(scope="module")
def lasso():
    return rf.compile(rf.programs.ista(steps=60, penalty=0.01, step_size=1.0), features=3, primitives="swiglu")


def test_every_line_says_of_which_kind_it_is(lasso):
    certificate = rf.certify(lasso, *task())
    kinds = {check.name: check.kind for check in certificate.checks}
    assert kinds == {
        "steps": "observed", "weights": "observed", "leakage": "observed", "operand range": "observed",
        "float floor": "observed", "fixed point: residual": "observed", "theorem: descent": "expected",
    }  # fmt: skip
    assert certificate.holds
    assert certificate.within < 1e-12
    assert certificate.verdict.startswith("Every step is its program's")
    assert all(kind in str(certificate) for kind in ("observed", "expected"))
    assert 0 < certificate["float floor"].measured < 1e-12
    assert "proved" not in {check.kind for check in certificate.checks}
    assert bool((torch.tensor(certificate.proved) == torch.inf).all())


def test_a_changed_weight_is_noticed_by_two_lines():
    model = rf.compile(rf.programs.ista(steps=3), features=3)
    with torch.no_grad():
        model.steps[0][3].W_b[-1, 0] += 1e-3
        next(iter(model.steps[0][0].parameters())).mul_(1.01)
    certificate = rf.certify(model, *task())
    assert not certificate["steps"].holds
    assert not certificate["weights"].holds
    assert "NOT" in certificate.verdict


def test_too_few_steps_are_not_a_fixed_point_and_too_long_a_step_has_no_theorem():
    few = rf.certify(rf.compile(rf.programs.ista(steps=2), features=3), *task())
    assert [check.name for check in few.failed] == ["fixed point: residual"]
    assert "take more steps" in few.verdict
    long = rf.certify(rf.compile(rf.programs.ista(steps=2, step_size=50.0), features=3), *task())
    assert not long["theorem: descent"].holds
    assert "condition is NOT met" in long["theorem: descent"].condition


def test_theorems_of_one_s_own_can_fail():
    @rf.algorithm
    def liar(net, rate=0.3):
        """Gradient descent with a false promise."""
        net.features("x"), net.targets("y"), net.state("w", "features")
        with net.step():
            net.let(w="w - rate * mean((dot(x, w) - y) * x)")
            net.record("w")
            net.predict("dot(x, w)")

    @liar.theorem("w stays at zero")
    def still(value, X, y, Xq, values):
        return values["w"].flatten(1).norm(dim=1), torch.zeros(len(values["w"]), dtype=torch.float64)

    certificate = rf.certify(rf.compile(liar(steps=3), features=3), *task(tasks=2))
    assert [check.name for check in certificate.failed] == ["theorem: still"]
    del WRITTEN["liar"]


def test_float32_has_a_floor_of_its_own():
    model = rf.compile(rf.programs.newton_schulz(steps=6), features=3, dtype="float32")
    certificate = rf.certify(model, *task(dtype=torch.float32))
    assert certificate["steps"].holds
    assert 1e-9 < certificate["float floor"].measured < 1e-3


def test_a_saved_program_is_loaded_by_its_name(lasso, tmp_path):
    lasso.save(tmp_path)
    loaded = rf.load_model(tmp_path)
    assert loaded.spec == lasso.spec
    assert torch.equal(loaded(*task()), lasso(*task()))
    kept = WRITTEN.pop("ista")
    try:
        with pytest.raises(rf.errors.DataFileError, match="not defined in this session"):
            rf.load_model(tmp_path)
    finally:
        WRITTEN["ista"] = kept


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ridge": 0.1}, "ridge belongs to a kernel"),
        ({"attention": "softmax"}, "attention belongs to a kernel"),
        ({"sink": 1.0}, "sink belongs to a kernel"),
        ({"width": 40}, "leave width out"),
    ],
)
def test_options_of_a_kernel_are_refused(options, why):
    with pytest.raises(rf.errors.InputError, match=why):
        rf.compile(rf.programs.ista(steps=2), features=3, **options)


def test_a_kernel_and_a_program_do_not_mix():
    for given in ((rf.DotProduct(), rf.programs.ista(steps=2)), (rf.programs.ista(steps=2), "cg")):
        with pytest.raises(rf.errors.InputError, match=r"alone|whole program"):
            rf.compile(*given, features=3)
    with pytest.raises(rf.errors.InputError, match="use interpret"):
        rf.solve(rf.DotProduct(), *task()[:2], ridge=0.1, algorithm=rf.programs.ista(steps=3))
