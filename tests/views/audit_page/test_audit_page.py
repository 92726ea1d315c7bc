"""The page of an audit: sections in order, captions made of the numbers, nothing hidden."""

import re
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import escape

from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import number
from ridgeformer.views import Page, Picture, Strip, Table
from ridgeformer.views.audit_page import audit_page, claims_section, settings_section
from ridgeformer.views.audit_page.field import (
    drivers_section,
    errors_section,
    fits_figure,
    fits_section,
    labels_section,
    reproduce_section,
)
from ridgeformer.views.audit_page.fit import compiled_section, data_section, depth_figure, size_section
from ridgeformer.views.audit_page.networks import influence_section, regime_section
from ridgeformer.views.page import render_page, tidy
from ridgeformer.views.parts import Fragment
from tests.auditing.small_audits import small_audit

ORDER = [
    "fit", "errors", "coverage", "drivers", "labels", "repeat", "data", "compiled", "size", "regime", "influence",
    "claims", "settings",
]  # fmt: skip


def words(section):
    said = []
    for part in section.parts:
        said += [part] if isinstance(part, str) else list(getattr(part, "sentences", ()))
        said += [getattr(part, "caption", "")]
    return " ".join(said)


@pytest.mark.parametrize("name", ["wine", "diabetes", "digits"])
def test_sections_in_order_and_every_figure_says_what_to_see(name):
    page = audit_page(small_audit(name))
    assert [section.anchor for section in page.sections] == ORDER
    shown = [part for section in page.sections for part in section.parts if isinstance(part, Picture | Strip)]
    assert len(shown) >= 7
    for part in shown:
        assert part.caption.startswith("What to see: ")
        assert re.search(r"\d", part.caption)
        assert part.name
    names = [part.name for part in shown]
    assert len(names) == len(set(names))
    assert all(part.name for section in page.sections for part in section.parts if isinstance(part, Table))


def test_the_page_is_complete_in_itself_and_small_enough():
    audit = small_audit("digits")
    text = render_page(audit_page(audit))
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    for sentence in audit.sentences:
        rest = sentence.partition(": ")[2]
        assert str(escape(tidy(rest[1:]))) in own
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", own)
    assert len(text) < 6_000_000


def test_names_from_outside_are_escaped():
    wine = small_audit("wine")
    dataset = replace(wine.data.dataset, name="<script>alert(1)</script>")
    text = render_page(audit_page(replace(wine, data=replace(wine.data, dataset=dataset))))
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_images_are_shown_where_rows_are_images():
    digits = small_audit("digits")
    (examples,) = [part for part in data_section(digits).parts if isinstance(part, Strip)]
    assert [image.title for image in examples.images] == list(digits.data.dataset.classes)
    (points,) = [part for part in influence_section(digits).parts if isinstance(part, Strip)]
    assert [image.mark for image in points.images] == ["asked", "helps", "helps", "harms", "harms"]
    asked = digits.data.dataset.X[digits.attribution.row].reshape(8, 8)
    np.testing.assert_allclose(points.images[0].pixels, asked / digits.data.dataset.X.max())
    assert not [part for part in data_section(small_audit("wine")).parts if isinstance(part, Strip)]


def test_the_bars_are_the_scores():
    wine = small_audit("wine")
    (bars,) = fits_figure(wine)["data"]
    assert list(bars["x"]) == pytest.approx([100 * fit.test_score for fit in wine.fits[::-1]])
    assert "points" in fits_section(wine).tables[0].rows[1][-1]
    intervals = [fit.interval for fit in wine.fits[::-1]]
    assert np.add(bars["x"], bars["error_x"]["array"]) == pytest.approx([100 * high for _, high in intervals])
    assert np.subtract(bars["x"], bars["error_x"]["arrayminus"]) == pytest.approx([100 * low for low, _ in intervals])


def test_errors_drivers_labels_and_the_snippet():
    wine, digits, diabetes = (small_audit(name) for name in ("wine", "digits", "diabetes"))
    (table,) = errors_section(diabetes).tables
    assert table.rows[0][2] == number(diabetes.metrics["attention"].rmse)
    confusion = errors_section(wine).tables[-1]
    assert sum(sum(row[1:]) for row in confusion.values) == len(wine.field.rows)
    assert len(drivers_section(diabetes).pictures) == 3
    assert "Not measured" in words(drivers_section(digits))
    assert [part for part in labels_section(digits).parts if isinstance(part, Strip)]
    (code,) = [part for part in reproduce_section(wine).parts if isinstance(part, Fragment)]
    assert "AttentionKernelClassifier" in code.html


def test_a_certificate_that_does_not_hold_is_said():
    wine = small_audit("wine")
    (table,) = compiled_section(wine).tables
    assert [row[-1].startswith("Proved within ") for row in table.rows] == [True, True]
    assert not table.alarms
    model = wine.compiled[0]
    checks = tuple(replace(check, holds=check.name != "accuracy") for check in model.certificate.checks)
    bad = replace(model.certificate, checks=checks)
    audit = replace(wine, compiled=(replace(model, certificate=bad), wine.compiled[1]))
    (table,) = compiled_section(audit).tables
    assert [row[-1].startswith("Not shown to be accurate") for row in table.rows] == [True, False]
    assert table.alarms == {table.rows[0][-1]}
    page = render_page(Page("title", "subtitle", ("answer",), (compiled_section(audit),)))
    assert page.count('<td class="alarm">Not shown to be accurate') == 1


def test_a_violated_rate_is_said():
    wine = small_audit("wine")
    assert "below their bound at every step" in words(size_section(wine))
    bad = replace(wine, convergence=replace(wine.convergence, bound_holds=False))
    assert "EXCEED their bound" in words(size_section(bad))
    drawn = [len(trace["y"]) for trace in depth_figure(wine)["data"][:4]]
    assert drawn == [len(curve.errors) for curve in wine.convergence.curves]


def test_the_regime_in_bars_table_and_verdicts():
    wine = small_audit("wine")
    section = regime_section(wine)
    relu, attended, limit = section.pictures[0].figure["data"]
    drifts = [one.measured.kernel_drift for one in wine.regime.of("mlp-attn")]
    assert attended["x"][0] == pytest.approx(100 * np.mean(drifts))
    assert (len(relu["x"]), len(limit["x"])) == (4, 4)
    tables = section.tables
    assert [len(table.head) for table in tables] == [1 + 2 * len(wine.regime.widths), 6]
    assert words(section).count("described by its kernel") == 2


def test_flip_rates_are_shown_with_their_controls():
    wine = small_audit("wine")
    section = influence_section(wine)
    noise, redrawn, attacked, adaptive = section.pictures[0].figure["data"]
    assert (len(noise["x"]), len(redrawn["x"]), len(attacked["x"]), len(adaptive["x"])) == (3, 2, 3, 3)
    first = wine.malleability.of("the certified fit", wine.malleability.sizes[0], "adaptive")
    assert adaptive["x"][0] == pytest.approx(100 * first.mean)


def test_what_was_left_out_says_why():
    wine = small_audit("wine")
    bad = replace(wine, **dict.fromkeys(("regime", "attribution", "malleability"), Skipped("row 3 is all zeros.")))
    assert words(regime_section(bad)).count("row 3 is all zeros") == 1
    assert words(influence_section(bad)).count("row 3 is all zeros") == 2
    assert "row 3 is all zeros" in render_page(audit_page(bad))


def test_claims_lead_to_their_cards_and_useful_ones_come_first():
    wine = small_audit("wine")
    (table,) = claims_section(wine).tables
    useful = [row[-1] for row in table.rows]
    assert useful == sorted(useful, reverse=True)
    assert {claim.id for claim in audit_page(wine).claims} == {row[0] for row in table.rows} == set(table.links)


def test_settings_versions_and_seconds_of_every_stage():
    wine = small_audit("wine")
    timing, settings, versions = settings_section(wine).tables
    assert [row[0] for row in timing.rows] == list(wine.seconds)
    assert {row[0] for row in settings.values} == {name.replace("_", " ") for name in vars(wine.settings)}
    assert "torch" in {row[0] for row in versions.rows}
