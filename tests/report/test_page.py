import re
from pathlib import Path

import pytest
from markupsafe import escape

from ridgeformer import datasets, errors, report
from ridgeformer.audit import audit


@pytest.fixture(scope="module")
def wine():
    return audit(datasets.load("wine"))


def test_the_page_holds_the_answer_and_calls_nobody(wine):
    page = report.render(wine)
    own = page.replace(re.search(r"<script>(.*?)</script>", page, re.S).group(1), "")  # plotly itself
    for sentence in wine.sentences:
        assert str(escape(sentence)) in own
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", own)
    assert own.count("<figure") == 4
    assert len(page) < 10_000_000


def test_a_certificate_that_does_not_hold_is_said_on_the_page(wine):
    from dataclasses import replace

    page = report.render(wine)
    assert page.count("holds (9 checks)") == 2
    model = wine.compiled[0]
    bad = replace(model.certificate, checks=(replace(model.certificate.checks[0], holds=False),))
    page = report.render(replace(wine, compiled=(replace(model, certificate=bad), wine.compiled[1])))
    assert "does NOT hold: predictions" in page


def test_names_from_outside_are_escaped(wine):
    from dataclasses import replace

    dataset = replace(wine.data.dataset, name="<script>alert(1)</script>")
    page = report.render(replace(wine, data=replace(wine.data, dataset=dataset)))
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_writing_replaces_the_old_page_and_leaves_nothing_else(wine, tmp_path):
    (tmp_path / "report.html").write_text("old")
    path = report.write(wine, tmp_path)
    assert path.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_directory_that_cannot_be_made(wine, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.RidgeformerError, match="choose another place"):
        report.write(wine, Path(tmp_path / "file" / "inner"))
