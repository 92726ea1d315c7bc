"""The documentation builds without a warning, asks nothing of another host, and sets every formula."""

import html
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from ridgeformer.claims import CLAIMS
from tests.accessibility import violations
from tests.real_browser import chromium, needs_chromium, new_page

ROOT = Path(__file__).parents[1]
THEORY = sorted((ROOT / "docs" / "theory").glob("*.md"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared  # one build for all workers
    with FileLock(shared / "site.lock"):
        if not (shared / "site" / "sitemap.xml").is_file():
            build(shared / "site")
    return shared / "site"


@pytest.fixture(scope="module")
def site(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.html")}


def build(directory):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def test_every_document_has_a_page(site):
    documents = (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
    assert {document.with_suffix(".html").as_posix() for document in documents} <= set(site)


def fetched(page):
    """Return the addresses that a browser asks for by itself when it shows the page."""
    tags = re.findall(r"<(?:link|script|img|iframe|source|video|audio|object|embed)\b[^>]*>", page)
    return [address for tag in tags for address in re.findall(r"\b(?:src|href|data|srcset)=\"?([^\"\s>]+)", tag)]


def test_no_page_asks_anything_of_another_host(site):
    assert fetched('<script src="https://a.example/x.js"></script>') == ["https://a.example/x.js"]
    for name, page in site.items():
        assert not [address for address in fetched(page) if re.match(r"(\w+:)?//", address)], name


def test_formulas_are_set_when_the_site_is_built(site):
    assert "<math" in site["theory/width.html"]
    for name, page in site.items():
        assert "arithmatex" not in page, name
        for formula in re.findall(r"<math.*?</math>", page, re.S):
            assert not re.search(r"\\[a-zA-Z]", formula), f"{name}: {formula}"


def test_docstrings_are_shown_as_text_and_doctests_as_code(site):
    page = html.unescape(re.sub(r"<[^>]+>", "", site["api/bounds.html"]))
    assert "norm(alpha_t - alpha*)_A is at most this times norm(alpha*)_A" in page
    assert ">>> round(cg_error_factor(kappa=9.0, steps=3), 12)" in page


@pytest.mark.parametrize(
    "room", sorted(path.stem for path in (ROOT / "docs" / "api").glob("*.md") if path.stem != "index")
)
def test_the_reference_shows_every_public_function_and_class(site, room):
    module = f"core.{room}" if (ROOT / "src" / "ridgeformer" / "core" / f"{room}.py").exists() else room
    public = importlib.import_module(f"ridgeformer.{module}")
    for name in getattr(public, "__all__", ()):
        if inspect.isroutine(getattr(public, name)) or inspect.isclass(getattr(public, name)):
            assert f'id="ridgeformer.{module}.{name}"' in site[f"api/{room}.html"], name


def test_every_claim_is_on_a_theory_page_in_the_ledgers_words(site):
    pages = " ".join(path.read_text() for path in THEORY)
    assert set(re.findall(r"<!-- claim (\w+) -->", pages)) == {claim.id for claim in CLAIMS}, (
        "put <!-- claim ID --> on a page of docs/theory"
    )
    assert "W4 as published: amended" in site["theory/effective_dimension.html"]
    assert "<!-- claim" not in "".join(site.values())


@needs_chromium
def test_the_site_works_from_the_disk_with_its_search_and_for_everyone(folder):
    troubles, requests = [], []
    with chromium() as browser:
        page = new_page(browser, viewport={"width": 1360, "height": 900})
        page.on("console", lambda said: troubles.append(said.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((folder / "index.html").as_uri())
        page.wait_for_function("document.querySelector('img[src$=\"demo.gif\"]').naturalWidth > 0")
        assert violations(page) == []
        page.keyboard.press("/")
        page.keyboard.type("jackknife")
        page.wait_for_function("document.querySelectorAll('.md-search-result__item').length > 2")
        page.set_viewport_size({"width": 390, "height": 800})
        page.reload()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert troubles == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
