"""Every sublayer has a place in the algorithm, a sentence, and formulas that are its program."""

from xml.etree import ElementTree

import pytest

from ridgeformer.language.program import Program
from ridgeformer.language.roles import SUPPORT
from ridgeformer.views.page import formula
from ridgeformer.views.viewer.descriptions import formulas
from tests.views.viewer_models import MODELS, model_of, view_of


@pytest.mark.parametrize("name", MODELS)
def test_sentences_name_what_is_written_and_what_it_means(name):
    meanings = {channel.name: channel.meaning for channel in model_of(name).program.channels.values()}
    for sublayer in view_of(name).sublayers:
        assert sublayer.writes
        for written in sublayer.writes:
            assert f"{written} ({meanings[written]})" in sublayer.sentence


def test_titles_count_steps():
    titles = {sublayer.place: sublayer.title for sublayer in view_of("softmax cg").sublayers}
    assert titles["prelude.square residual"] == "Before the first step: square residual"
    assert titles["step 3.curvature"] == "CG step 3 of 3: curvature"
    last = view_of("softmax richardson").sublayers[-1]
    assert last.title == "After the last step: undo normalisation"


def sentence(name, place):
    return next(s for s in view_of(name).sublayers if s.place == place).sentence


def test_sentences_say_who_reads_whom():
    assert sentence("softmax cg, aggregator", "step 1.pool curvature").startswith(
        "Supports, the aggregator and queries read supports, all with equal weight"
    )
    assert sentence("linear cg", "step 1.move").startswith("Supports and queries read only themselves, weighted by")
    assert sentence("linear pcg", "step 1.turn").startswith("3 heads (beta p, new part, r'z) work at once: p = z")
    assert sentence("softmax cg", "step 1.step size").endswith("gamma (step size); s and w are cleared.")


@pytest.mark.parametrize("name", MODELS)
def test_every_sublayer_has_formulas_that_become_mathml(name):
    sublayers = view_of(name).sublayers
    assert all(len(sublayer.formulas) == len(sublayer.writes) for sublayer in sublayers)
    for latex in {latex for sublayer in sublayers for latex in sublayer.formulas}:
        assert ElementTree.fromstring(formula(latex)).tag.endswith("math")


def line(name, place, number=0):
    return next(s for s in view_of(name).sublayers if s.place == place).formulas[number]


def test_a_quotient_and_the_ridge_by_its_letter():
    assert line("softmax cg", "step 1.undo normalisation") == r"u_i \leftarrow \frac{o_i}{a_i} + \lambda\,p_i"


def test_a_channel_that_holds_something_is_added_to():
    assert line("softmax cg", "step 2.move") == r"\alpha_i \leftarrow \alpha_i + \gamma_i\,p_i"


def test_softmax_equal_weights_and_products():
    attention = line("softmax cg", "step 1.kernel product")
    assert attention.startswith(r"o_i \leftarrow \sum_{j\,\in\,\text{supports, sink}}\text{softmax}_j\left(4\,\varphi")
    assert attention.endswith(" p_j")
    mean = r"s_i \leftarrow \underset{j\,\in\,\text{supports}}{\text{mean}}\;w_j"
    assert line("softmax cg", "step 1.mean curvature") == mean
    assert line("linear cg", "step 1.curvature") == r"s_i \leftarrow \sum_{j\,\in\,\text{supports}}u_j\,p_j"


def test_logits_of_the_gaussian_kernel():
    assert line("softmax gaussian", "prelude.squared lengths") == r"h_i \leftarrow 0.5\,\varphi_i^{\top}\varphi_i"
    attention = line("softmax gaussian", "step 1.kernel product")
    assert r"\left(4\,\varphi_i^{\top}\varphi_j - 4\,h_j + 4\,h_i\,\mathrm{agg}_j\right) p_j" in attention


def test_heads_that_write_one_channel_are_one_sum():
    gradient = line("linear richardson", "step 1.gradient")
    assert gradient.endswith(r"\varphi_i^{\top}\varphi_j\,\alpha_j + \lambda\,\alpha_i - y_i")


def test_large_numbers_are_powers_of_ten():
    program = Program("test", "softmax", (SUPPORT,), {"huge": 1e9})
    program.state({"a_b": "x", "c": "y"})
    program.gate("scale", a_b="-huge * c")
    found = formulas(program, program.prelude[0], frozenset({"a_b"}))
    assert found == [r"\mathrm{a\_b}_i \leftarrow -1\cdot 10^{9}\,c_i"]


def test_the_constants_of_a_model_are_its_own():
    assert model_of("softmax cg").program.constants["ridge"] != 5.0  # scaled by the sink, and still lambda
