"""Takes the pictures of the audit's page that the docs show, with a Chromium on the path: `make figures`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from ridgeformer import datasets, report
from ridgeformer.audit import audit, preset

HERE = Path(__file__).parent
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=20000",
)  # fmt: skip
SHOTS = {
    "report_wide": (1400, 1500, ()),
    "report_dark": (1400, 1500, ("--force-dark-mode",)),
    "report_narrow": (500, 1500, ()),  # the narrowest window that a headless Chromium opens
}
COLOURS = 128
"""Enough for text and lines, and a third of the size."""


def take(chromium: str, page: Path, name: str) -> Path:
    """Take one picture and make it small."""
    width, height, more = SHOTS[name]
    path = HERE / "figures" / f"{name}.png"
    with tempfile.TemporaryDirectory() as profile:
        options = (f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={path}", *more)
        subprocess.run([chromium, *FLAGS, *options, page.as_uri()], check=True, capture_output=True, timeout=300)
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    return path


def main() -> None:
    """Audit the embedded data and take every picture."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("error: no Chromium on the path; install one (Debian: apt install chromium) and try again.")
    with tempfile.TemporaryDirectory() as work:
        given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
        page = given or report.write(audit(datasets.load("digits"), preset("default")), Path(work))
        for name in SHOTS:
            path = take(chromium, page.resolve(), name)
            print(f"{path.relative_to(HERE.parent)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
