"""Takes the pictures of pages that the docs show, in the Chromium of this computer: `make figures`."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from PIL import Image

import ridgeformer as rf
from ridgeformer import datasets
from ridgeformer.auditing import audit, preset
from ridgeformer.views import write_page
from ridgeformer.views.audit_page import audit_page
from ridgeformer.views.demo import write_demo
from ridgeformer.views.viewer import curve_task, trace_view, write_viewer

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from tests.real_browser import chromium, new_page
from tests.views.explorer.served_explorer import Explorer, served

REPORT: dict[str, dict[str, Any]] = {
    "report_wide": {"viewport": {"width": 1400, "height": 1500}},
    "report_dark": {"viewport": {"width": 1400, "height": 1500}, "color_scheme": "dark"},
    "report_narrow": {"viewport": {"width": 390, "height": 1500}},
}
DEMO: dict[str, dict[str, Any]] = {
    "demo": {"viewport": {"width": 1360, "height": 980}},
    "demo_dark": {"viewport": {"width": 1360, "height": 980}, "color_scheme": "dark"},
    "demo_narrow": {"viewport": {"width": 390, "height": 1500}},
}
VIEWER = {"viewport": {"width": 1440, "height": 1500}}
EXPLORER = {"viewport": {"width": 1280, "height": 1240}}
COLOURS = 128
"""Enough for text and lines, and a third of the size."""


def photograph(page: Any, name: str) -> None:
    """Take one picture of what is in sight and make it small."""
    path = HERE / "figures" / f"{name}.png"
    page.wait_for_timeout(1500)  # plots grow into their place
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(COLOURS, kmeans=4).save(path, optimize=True)
    print(f"{path.relative_to(HERE.parent)}: {path.stat().st_size / 1000:.0f} kB")


def write_trace(directory: Path) -> Path:
    """Write the trace viewer, stopped in the middle of a step."""
    task = curve_task()
    model = rf.compile(rf.Exponential(temperature=0.25), rf.ConjugateGradients(steps=10), features=2, ridge=5.0)
    view = trace_view(model, task.X, task.y, task.Xq, at=task.at, name="a noisy curve")
    start = 1 + [sublayer.place for sublayer in view.sublayers].index("step 3.kernel product")
    return write_viewer(view, directory / "trace.html", start=start)


def photograph_demo(browser: Any, directory: Path) -> None:
    """Take the pictures of the demo, in the middle of its second scene."""
    address = write_demo(directory / "demo.html").as_uri()
    for name, options in DEMO.items():
        page = new_page(browser, reduced_motion="reduce", **options)
        page.goto(address)
        page.evaluate("demo.scene(1); demo.go(12)")
        photograph(page, name)


def main() -> None:
    """Audit the embedded data, or take the report that is given, and take every picture."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
        written = given or write_page(
            audit_page(audit(datasets.load("digits"), preset("default"))), work / "report.html"
        )
        browser = stack.enter_context(chromium())
        pages = {name: (written, options) for name, options in REPORT.items()}
        for name, (path, options) in (pages | {"trace_viewer": (write_trace(work), VIEWER)}).items():
            page = new_page(browser, **options)
            page.goto(path.resolve().as_uri())
            photograph(page, name)
        photograph_demo(browser, work)
        base = stack.enter_context(served())
        photograph(Explorer(browser, base, **EXPLORER).open("steps=7&point=17").page, "explorer")


if __name__ == "__main__":
    main()
