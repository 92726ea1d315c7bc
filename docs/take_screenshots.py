"""Takes pictures of every page, in the Chromium of this computer: `make figures`.

Each page is taken 1280 pixels wide, 390 pixels wide, and in the dark. A page that is wider than its window, complains on
the console or asks another host for something is an error. Names of pages as arguments take only those; `--whole FOLDER`
takes them from top to bottom, to be looked at, into another folder; `--report FILE` takes an audit's page as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from markdown import markdown
from PIL import Image

import ridgeformer as rf
from ridgeformer import datasets
from ridgeformer.auditing import audit, preset
from ridgeformer.views import write_page
from ridgeformer.views.audit_page import audit_page
from ridgeformer.views.demo import write_demo
from ridgeformer.views.viewer import curve_task, trace_view, write_viewer

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.append(str(ROOT))

from tests.real_browser import chromium, new_page
from tests.views.explorer.served_explorer import AWAITED, served

FOLDER = HERE / "figures" / "screens"
LOOKS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": {"width": 1280, "height": 1000}},
    "narrow": {"viewport": {"width": 390, "height": 1200}},
    "dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
}
TALL = {"viewer": 1770, "own_program": 1220, "explorer": 1530, "compare": 1530, "game": 1530, "demo": 1110}
"""Height of pages that the documentation shows at full width, in pixels; the others are cut at 1000."""

COLOURS = 128
"""Enough for text and lines, and a third of the size."""

PAPER = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><base href="{base}/"><style>
:root {{ color-scheme: light dark; --ink: #1f2328; --line: #d1d9e0; --code: #f6f8fa; --link: #0969da; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #f0f6fc; --line: #3d444d; --code: #151b23; --link: #4493f8; }}
  body {{ background: #0d1117; }} }}
body {{ color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 1.5rem auto; padding: 0 1rem; }}
img {{ max-width: 100%; }} a {{ color: var(--link); }} h1, h2 {{ border-bottom: 1px solid var(--line); padding-bottom: .3em; }}
pre {{ background: var(--code); padding: 1rem; overflow: auto; border-radius: 6px; font-size: 85%; }}
code {{ background: var(--code); padding: .2em .3em; font-size: 85%; }} pre code {{ padding: 0; font-size: 100%; }}
table {{ border-collapse: collapse; display: block; overflow: auto; }} td, th {{ border: 1px solid var(--line); padding: 6px 13px; }}
</style><body>{body}</body></html>"""
"""The README as code hosts show it, roughly."""


def write_readme(work: Path) -> str:
    """Render the README."""
    body = markdown((ROOT / "README.md").read_text(), extensions=["tables", "fenced_code"])
    path = work / "readme.html"
    path.write_text(PAPER.format(base=ROOT.as_uri(), body=body))
    return path.as_uri()


def build_site(work: Path) -> Path:
    """Build the documentation once."""
    folder = work / "site"
    if not folder.exists():
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


def write_trace(work: Path) -> str:
    """Write the trace viewer, stopped in the middle of a step."""
    task = curve_task()
    model = rf.compile(rf.Exponential(temperature=0.25), rf.ConjugateGradients(steps=10), features=2, ridge=5.0)
    view = trace_view(model, task.X, task.y, task.Xq, at=task.at, name="a noisy curve")
    start = 1 + [sublayer.place for sublayer in view.sublayers].index("step 3.kernel product")
    return write_viewer(view, work / "trace.html", start=start).as_uri()


def write_own_program(work: Path) -> str:
    """Write the trace viewer on the program that "Write an algorithm" compiles, from the page's own words."""
    text = (HERE / "howto" / "own_algorithm.md").read_text()
    block = next(one for one in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "write_viewer(" in one)
    names: dict[str, Any] = {"__name__": "document"}
    exec(compile(block.partition("folder =")[0], "own_algorithm.md", "exec"), names)
    view = trace_view(*(names[name] for name in ("model", "X", "y", "Xq")), name="my lasso")
    return write_viewer(view, work / "own.html", start=len(view.sublayers) // 2).as_uri()


def play_demo(page: Any) -> None:
    """Stop the demo in the middle of its second scene."""
    page.evaluate("demo.scene(1); demo.go(12)")


def play_game(page: Any) -> None:
    """Test a symmetry and two suspects, then accuse one."""
    page.wait_for_selector("#plot .model-line", state="attached")
    for button in ("[data-test=additivity]", "[data-test=linearity]", "[data-fit=gd]", "[data-fit=cg]"):
        page.click(button)
        page.wait_for_function(f"document.querySelector('{button} ~ output').textContent")
    page.click("[data-guess=cg]")
    page.wait_for_selector("#answer:not([hidden])")
    page.evaluate("scrollTo(0, 0)")


def settle(page: Any) -> None:
    """Wait until the explorer stands still."""
    page.wait_for_function(f"() => ({AWAITED})().length === 0")


def addresses(work: Path, base: str, report: Path | None) -> dict[str, tuple[Callable[[], str], Callable[[Any], None]]]:
    """Return every page: how its address is had, and what is done on it before the picture."""

    def audited() -> str:
        found = report or work / "report.html"
        if not found.exists():
            write_page(audit_page(audit(datasets.load("digits"), preset("default"))), found)
        return found.resolve().as_uri()

    def nothing(page: Any) -> None:
        pass

    return {
        "readme": (lambda: write_readme(work), nothing),
        "landing": (lambda: (build_site(work) / "index.html").as_uri(), nothing),
        "demo": (lambda: write_demo(work / "demo.html").as_uri(), play_demo),
        "viewer": (lambda: write_trace(work), nothing),
        "explorer": (lambda: f"{base}?steps=7&point=17", settle),
        "compare": (lambda: f"{base}?steps=14&algorithm=nesterov&ridge=1&against=steps%3D7%26ridge%3D1", settle),
        "digit": (lambda: f"{base}?data=digits&rows=100&output=3&ridge=1&steps=16&point=28", settle),
        "game": (lambda: f"{base}guess?round=2", play_game),
        "report": (audited, nothing),
        "own_algorithm": (lambda: (build_site(work) / "howto" / "own_algorithm.html").as_uri(), nothing),
        "own_program": (lambda: write_own_program(work), nothing),
    }


def photograph(
    browser: Any, name: str, look: str, address: str, prepare: Callable[[Any], None], whole: Path | None
) -> None:
    """Take one picture of a page and make it small; complain of whatever is wrong with the page."""
    troubles: list[str] = []
    view = LOOKS[look]["viewport"]
    view = view | {"height": TALL.get(name, view["height"]) if look != "narrow" else view["height"]}
    page = new_page(browser, reduced_motion="reduce", **LOOKS[look] | {"viewport": view})
    page.on("console", lambda said: troubles.append(said.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    local = ("file:", "data:", "blob:", "http://127.0.0.1:")
    page.on("request", lambda request: request.url.startswith(local) or troubles.append(f"asks for {request.url}"))
    page.goto(address)
    prepare(page)
    page.wait_for_timeout(1500)  # plots grow into their place
    wide, room = page.evaluate("document.documentElement.scrollWidth"), view["width"]
    if wide > room:
        troubles.append(f"{wide} pixels wide in a window of {room}")
    path = (whole or FOLDER) / f"{name}_{look}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=whole is not None)
    page.context.close()
    if whole is None:  # a whole report would take minutes
        Image.open(path).convert("RGB").quantize(COLOURS, kmeans=4).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", *troubles, sep="\n  ")
    if troubles:
        raise SystemExit(f"{name} ({look}) is not as it should be: {'; '.join(troubles)}")


def main() -> None:
    """Take every picture, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="names of pages; all if left out")
    parser.add_argument("--whole", type=Path, help="take whole pages into this folder")
    parser.add_argument("--report", type=Path, help="an audit's page, instead of a new audit")
    given = parser.parse_args()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        browser, base = stack.enter_context(chromium()), stack.enter_context(served())
        known = addresses(work, base, given.report)
        for name in given.pages or known:
            find, prepare = known[name]
            address = find()
            for look in LOOKS:
                photograph(browser, name, look, address, prepare, given.whole)


if __name__ == "__main__":
    main()
