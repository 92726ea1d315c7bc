"""The audit's section on uncertainty says whether the promise is kept, and where nothing is promised."""

from dataclasses import replace

from ridgeformer.auditing.coverage import CoveredRows, HeldOutCoverage
from ridgeformer.auditing.settings import Skipped
from ridgeformer.views.audit_page.coverage import coverage_section
from ridgeformer.views.page import render_page
from ridgeformer.views.parts import Page


def page(found):
    section = coverage_section(found, "yield")
    return render_page(Page.of("coverage", "", (), section)), " ".join(map(str, section.parts))


def test_the_page_says_whether_the_promise_is_kept():
    everything, groups = CoveredRows("all held-out rows", 100, 91, 2.0), (CoveredRows("0", 50, 41, 1.5),)
    found = HeldOutCoverage(0.9, everything, groups, False, False)
    shown, words = page(found)
    assert "all held-out rows" in shown
    assert "in agreement with the level asked for" in words
    assert "nothing is guaranteed" not in words
    assert "nothing is guaranteed" in page(replace(found, ordered=True))[1]
    assert "fewer than asked for" in page(replace(found, everything=replace(everything, covered=60)))[1]
    assert "more than asked for" in page(replace(found, everything=replace(everything, covered=100)))[1]
    assert "some are empty" in page(replace(found, sets=True, everything=replace(everything, width=0.9)))[1]
    assert "Left out: too few rows." in page(Skipped("too few rows."))[1]
