"""The audit's page in a real browser: no error, no request, right on wide, narrow, dark and paper."""

import pytest

from ridgeformer.views import write_page
from ridgeformer.views.audit_page import audit_page
from tests.accessibility import violations
from tests.auditing.small_audits import small_audit
from tests.real_browser import chromium, needs_chromium, new_page

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write_page(audit_page(small_audit("digits")), tmp_path_factory.mktemp("page") / "report.html").as_uri()


@pytest.fixture
def open_page(browser, address):
    """Open the page at a width; afterwards there was no error and no request but for the page itself."""
    pages, troubles, requests = [], [], []

    def open_at(width, **options):
        page = new_page(browser, viewport={"width": width, "height": 900}, **options)
        pages.append(page)
        page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield open_at
    for page in pages:
        page.context.close()
    assert troubles == []
    assert {url for url in requests if not url.startswith("data:")} == {address}


def plot_widths(page):
    return page.eval_on_selector_all(".plotly-graph-div .main-svg", "all => all.map(one => one.clientWidth)")


@pytest.mark.parametrize("width", [1400, 768, 400, 320])
def test_every_figure_is_drawn_and_nothing_overflows(open_page, width):
    page = open_page(width)
    figures = page.locator(".plotly-graph-div")
    assert figures.count() == 9
    assert page.locator(".plotly-graph-div .main-svg").count() >= figures.count()
    assert max(plot_widths(page)) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_and_the_button(open_page):
    page = open_page(1000, color_scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('.plotly-graph-div').layout.font.color"
    dark, dark_ink = page.evaluate(shade), page.evaluate(ink)
    button = page.locator("#theme")
    assert button.get_attribute("aria-label") == "Colours: auto. Press for light."
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate(shade) != dark
    assert page.evaluate(ink) != dark_ink
    page.keyboard.press("Enter")
    assert page.evaluate(shade) == dark
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}])
def test_everyone_can_read_it(open_page, options):
    assert violations(open_page(1360, **options)) == []


def test_the_first_tab_skips_to_the_content(open_page):
    page = open_page(1000)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'content'")


def test_the_contents_lead_to_the_sections(open_page):
    page = open_page(1400)
    page.get_by_role("link", name="Influence and malleability").click()
    page.wait_for_url("**#influence")


def test_a_table_is_saved_as_csv(open_page):
    page = open_page(1000)
    with page.expect_download() as download:
        page.locator("a[download='fits.csv']").last.click()
    saved = download.value.path().read_text().splitlines()
    assert (
        saved[0]
        == "method,what it is,held out,training,training rows,chosen,settings tried,against the kernel of attention"
    )
    assert len(saved) == 9  # the eight methods


def test_it_prints_light_with_figures_on_the_sheet(open_page):
    page = open_page(1400, color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert max(plot_widths(page)) <= 680
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".contents").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert max(plot_widths(page)) > 680
    assert page.pdf().startswith(b"%PDF")
