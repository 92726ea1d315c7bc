"""A program is one file: nothing else in the package names it, and its test is the file of its name."""

import re
from pathlib import Path

import pytest

from ridgeformer.programs import PROGRAMS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "ridgeformer"


def test_every_file_of_the_folder_is_a_program():
    files = {path.stem for path in (SOURCES / "programs").glob("*.py")} - {"__init__"}
    assert files == set(PROGRAMS)
    assert len(PROGRAMS) >= 14


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_other_file_of_the_package_names_it(name):
    """Candidates for what a learner runs, and studies of them, may bear the same name: they are other code."""
    word = re.compile(rf"\b{name}\b")
    naming = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if path.parent.name not in ("identification", "studies")
        and word.search("\n".join(line for line in path.read_text().splitlines() if ">>>" not in line))
    }
    assert naming <= {f"programs/{name}.py"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_has_a_test_and_a_docstring(name):
    assert (ROOT / "tests" / "programs" / f"test_{name}.py").is_file()
    assert len(PROGRAMS[name].__doc__) > 60


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_has_its_part_of_the_page_and_a_picture(name):
    page = (ROOT / "docs" / "programs.md").read_text()
    assert f"## {name}\n" in page, "python docs/draw_programs.py"
    assert PROGRAMS[name].__doc__.splitlines()[0] in page
    assert (ROOT / "docs" / "figures" / "programs" / f"{name}.svg").is_file()
