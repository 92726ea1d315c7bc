"""The bibliography: every cited key is there, every entry is cited, and the page is made from it."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def hook():
    spec = importlib.util.spec_from_file_location("references_hook", ROOT / "docs" / "hooks" / "references.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = hook()
ENTRIES = HOOK.entries()
KEYS = [entry.key for entry in ENTRIES]
NEEDED = {"article": {"journal"}, "inproceedings": {"booktitle"}, "book": {"publisher"}, "misc": {"eprint"}}


def citations():
    """Return the keys that docstrings and pages cite, each with the files."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    found = {}
    for path in files:
        if path.name != "references.md":
            for key in HOOK.CITED.findall(path.read_text(encoding="utf-8")):
                found.setdefault(key, []).append(path.relative_to(ROOT).as_posix())
    return found


def test_every_cited_work_is_in_the_bibliography_and_every_entry_is_cited():
    assert set(citations()) == set(KEYS)


def test_some_are_cited_in_docstrings():
    assert sum(any(path.startswith("src/") for path in paths) for paths in citations().values()) >= 10


@pytest.mark.parametrize("entry", ENTRIES, ids=KEYS)
def test_an_entry_is_complete(entry):
    assert len(set(KEYS)) == len(KEYS)
    assert entry.fields.keys() >= NEEDED[entry.kind] | {"year"}
    assert entry.fields.keys() >= {"author", "title"} or "could not be checked" in entry.fields["note"]
    assert entry.key.endswith(entry.fields["year"])
    assert all(", " in one for one in entry.fields.get("author", "A, B").split(" and "))
    assert re.fullmatch(r"\d{4}\.\d{4,5}", entry.fields.get("eprint", "0909.4061"))


def test_nothing_of_the_file_is_lost_by_the_parser():
    text = HOOK.BIBLIOGRAPHY.read_text(encoding="utf-8")
    assert len(KEYS) == text.count("\n@")
    assert sum(len(entry.fields) for entry in ENTRIES) == len(re.findall(r"\w+ = \{", text))


def test_the_page_is_made_from_the_file():
    page = HOOK.on_page_markdown((ROOT / "docs" / "references.md").read_text(encoding="utf-8"))
    for entry in ENTRIES:
        assert f'id="{entry.key}"' in page
        for name in ("title", "year", "eprint"):
            assert entry.fields.get(name, "") in page


def test_keys_become_links_outside_code_and_unknown_ones_stop_the_build():
    page = SimpleNamespace(url="theory/a.html", file=SimpleNamespace(src_uri="theory/a.md"))
    html = HOOK.on_page_content("<p>[Higham2002]</p><code>[Higham2002]</code>", page)
    assert html == '<p>[<a href="../references.html#Higham2002">Higham2002</a>]</p><code>[Higham2002]</code>'
    with pytest.raises(KeyError, match="Nobody1999"):
        HOOK.on_page_content("<p>[Nobody1999]</p>", page)


def test_the_citation_file_is_valid_and_agrees_with_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation.keys() >= {"message", "title", "authors"}
    assert citation["authors"] == [{"name": "The ridgeformer developers"}]
    assert str(citation["version"]) == project["version"]
    assert (citation["license"], citation["keywords"]) == (project["license"], project["keywords"])
    assert citation["abstract"].strip() == project["description"]
