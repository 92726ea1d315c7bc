"""The ledger's page: all there, typeset, self-contained."""

import re

import pytest

from ridgeformer.claims import CLAIMS
from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.claims_page import render_claims, write_claims_page
from ridgeformer.views.page import formula
from tests.claims.findings import finding


@pytest.fixture(scope="module")
def page():
    return render_claims([finding("W1"), finding("W4")])


def test_statement_correction_figures_and_counterexample_are_there(page):
    for claim in (finding("W1").claim, finding("W4").claim):
        for text in (claim.title, claim.stated, claim.quote, claim.corrected, claim.condition):
            assert text in page.replace("&#39;", "'").replace("&gt;", ">").replace("&lt;", "<")
    assert "900.900901" in page  # the ratio by which S = 0 breaks W1
    assert page.count("plotly-graph-div") >= 2


def test_formulas_are_typeset_without_a_script(page):
    assert page.count("<math") == 4
    assert "mathjax" not in page.lower().replace("plotly", "")[:2000]


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.id for claim in CLAIMS])
def test_every_formula_of_the_ledger_can_be_typeset(claim):
    for latex in (claim.formula, claim.corrected_formula):
        if latex:
            assert formula(latex).startswith("<math")
            assert "\\" not in re.sub(r"<[^>]*>", "", formula(latex))  # no command was left over


def test_no_outside_request(page):
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", markup)


def test_an_unwritable_place_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RidgeformerError, match="cannot write"):
        write_claims_page([finding("W1")], tmp_path / "file" / "page.html")
