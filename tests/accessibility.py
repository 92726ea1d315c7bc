"""Accessibility of a page, by axe-core in the browser that shows it."""

from axe_playwright_python.sync_playwright import Axe

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page):
    """Return what axe-core finds against levels A and AA, one line a rule, with the first element it concerns."""
    found = (
        Axe().run(page, options={"runOnly": {"type": "tag", "values": LEVELS}, "preload": False}).response["violations"]
    )
    return [f"{rule['id']}: {rule['help']}: {rule['nodes'][0]['html'][:200]} ({len(rule['nodes'])})" for rule in found]
