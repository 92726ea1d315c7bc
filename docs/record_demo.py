"""Records the animation of the README from the demo, in the Chromium of this computer: `make figures`.

Every frame is a picture of the page `ridgeformer demo` writes: depth grows, then a point is dragged, and the curves are
the forward passes that the page ran for it.
"""

from __future__ import annotations

import io
import sys
import tempfile
from math import cos, pi, sin
from pathlib import Path
from typing import Any

from PIL import Image

from ridgeformer.views.demo import write_demo

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from tests.real_browser import chromium, new_page

ANIMATION = HERE / "figures" / "demo.gif"
VIEWPORT = {"width": 1320, "height": 1100}
POINT, DEPTH, TURN = 13, 16, 44  # the point that is dragged, the step at which it is, frames of its way
MILLISECONDS, COLOURS, WIDTH = 90, 200, 1120


def frames(page: Any) -> list[Image.Image]:
    """Return the pictures: every step, then the way of the point and back."""
    x, y = page.evaluate(f"[demo.state.x[{POINT}], demo.state.y[{POINT}]]")
    page.evaluate(f"demo.state.point = {POINT}; demo.ask(52)")
    box = page.locator(".panels").bounding_box()
    clip = {"x": box["x"] - 6, "y": box["y"] - 6, "width": box["width"] + 12, "height": box["height"] + 12}
    path = [(x, y)] * DEPTH + [
        (
            x + 0.22 * sin(2 * pi * n / TURN),
            y - 1.25 * (1 - cos(2 * pi * n / TURN)) / 2 * (1 + 0.6 * sin(pi * n / TURN)),
        )
        for n in range(TURN)
    ]
    found = []
    for n, (here, there) in enumerate(path):
        page.evaluate(f"demo.go({min(n + 1, DEPTH)}); demo.move({POINT}, {here}, {there})")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shot = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
        found.append(shot.resize((WIDTH, round(shot.height * WIDTH / shot.width)), Image.Resampling.LANCZOS))
    return found


def main() -> None:
    """Write the page, record it and save the animation."""
    with tempfile.TemporaryDirectory() as work, chromium() as browser:
        page = new_page(browser, viewport=VIEWPORT, reduced_motion="reduce")
        page.goto(write_demo(Path(work) / "demo.html").as_uri())
        pictures = frames(page)
    palette = pictures[DEPTH].quantize(COLOURS, kmeans=4)
    small = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    times = [2 * MILLISECONDS] * DEPTH + [MILLISECONDS] * TURN
    small[0].save(ANIMATION, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True, disposal=1)
    print(f"{ANIMATION.relative_to(HERE.parent)}: {ANIMATION.stat().st_size / 1000:.0f} kB, {len(small)} frames")


if __name__ == "__main__":
    main()
