"""The picture of the trace viewer in docs/compiling.md: `python docs/picture_trace_viewer.py`, with a chromium on the path."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import ridgeformer as rf
from ridgeformer.report.trace_viewer import curve_task, trace_view, write_viewer

PICTURE = Path(__file__).parent / "figures" / "trace_viewer.png"
SIZE = "1440,1140"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars")


def main() -> None:
    """Write the page, stopped in the middle of a step, and photograph it."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or sys.exit("no chromium on the path")
    task = curve_task()
    model = rf.compile("softmax", features=2, ridge=5.0, steps=10, temperature=0.25)
    view = trace_view(model, task.X, task.y, task.Xq, at=task.at, name="a noisy curve")
    start = 1 + [sublayer.place for sublayer in view.sublayers].index("step 3.kernel product")
    with tempfile.TemporaryDirectory() as work:
        page = write_viewer(view, Path(work) / "trace.html", start=start)
        options = (f"--user-data-dir={work}/profile", f"--window-size={SIZE}", f"--screenshot={PICTURE}")
        subprocess.run([chromium, *FLAGS, *options, page.as_uri()], check=True, capture_output=True)
    Image.open(PICTURE).convert("RGB").quantize(256, kmeans=8).save(PICTURE, optimize=True)  # a third of the bytes
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
