"""The page about the architecture is what the code gives today, and the three ways are as short as it says."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

DRAWN = """
import json, runpy
drawing = runpy.run_path("docs/draw_architecture.py")
found = drawing["ways"]()
drawing["render"].__globals__["ways"] = lambda: found
pages = {str(path): text for path, text in drawing["render"]().items()}
ways = {verb: [way.entered, way.records] for verb, way in found.items()}
print(json.dumps([pages, ways, drawing["SIGNPOSTS"]]))
"""


@pytest.fixture(scope="module")
def drawn():
    """Pages, ways and signposts, from a process whose functions are not wrapped by type checks."""
    done = subprocess.run([sys.executable, "-c", DRAWN], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_page_and_picture_are_up_to_date(drawn):
    for path, text in drawn[0].items():
        assert Path(path).read_text() == text, "run python docs/draw_architecture.py"


def test_no_package_is_entered_twice(drawn):
    for verb, (entered, _) in drawn[1].items():
        assert len(set(entered)) == len(entered), f"{verb}: {entered}"


def test_solve_crosses_at_most_four_records(drawn):
    assert len(drawn[1]["solve"][1]) <= 4


def test_signposts_lead_to_definitions(drawn):
    for what, file, name in drawn[2]:
        tree = ast.parse((ROOT / "src" / "ridgeformer" / file).read_text())
        assert name in {getattr(node, "name", None) for node in tree.body}, what
