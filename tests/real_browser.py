"""A real Chromium for tests; where the environment requires one, its absence is a failure and not a skip."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

KNOWN = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
]  # the first takes a third less time
NAMES = [os.environ["CHROMIUM"]] if "CHROMIUM" in os.environ else KNOWN
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
REQUIRED = os.environ.get("RIDGEFORMER_BROWSER_TESTS") == "required"
MISSING = f"no Chromium: there is no {' or '.join(NAMES)}; install Debian's package `chromium`, or set CHROMIUM"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 120_000
"""Milliseconds that a page may take to become what is waited for: a busy machine is no failure."""

needs_chromium = pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason=MISSING)


@contextmanager
def chromium():
    """Yield the Chromium of this computer, driven by Playwright, which ends it whatever happens."""
    if CHROMIUM is None:
        raise RuntimeError(MISSING)  # Playwright would look for one of its own
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


def new_page(browser, **options):
    """Return a page in a context of its own, with `options` of the context; everything on it waits with patience."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    return context.new_page()
