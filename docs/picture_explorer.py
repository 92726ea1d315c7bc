"""Take the picture of the explorer that the docs show: `python docs/picture_explorer.py`, with Chromium installed."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "app")]

from served_explorer import Explorer, served

from real_browser import chromium

TARGET = HERE / "figures" / "explorer.png"

with served() as base, chromium() as browser:
    explorer = Explorer(browser, base, viewport={"width": 1280, "height": 1240}).open("steps=7&point=17")
    explorer.page.wait_for_timeout(500)
    explorer.page.screenshot(path=TARGET)
print(f"{TARGET.relative_to(HERE.parent)}: {TARGET.stat().st_size // 1024} kB")
