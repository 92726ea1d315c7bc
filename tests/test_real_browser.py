"""Where a browser is required, its absence fails; elsewhere it skips, and both say what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASKS_FOR_A_BROWSER = """
from tests.real_browser import chromium, needs_chromium

@needs_chromium
def test_it():
    with chromium():
        pass
"""


@pytest.mark.parametrize(("asked", "code", "outcome"), [("", 0, "1 skipped"), ("required", 1, "1 failed")])
def test_without_a_chromium(tmp_path, asked, code, outcome):
    (tmp_path / "test_page.py").write_text(ASKS_FOR_A_BROWSER)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    hidden = {"CHROMIUM": str(tmp_path / "chromium"), "RIDGEFORMER_BROWSER_TESTS": asked}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "-p", "no:dash", "test_page.py"],
        cwd=tmp_path, env=os.environ | hidden | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert found.returncode == code, found.stdout
    assert outcome in found.stdout
    assert f"no Chromium: there is no {hidden['CHROMIUM']}" in found.stdout
