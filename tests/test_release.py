"""What is released: one version everywhere, archives that hold every file, and a wheel that runs by itself."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.documented_commands import DOCUMENTS, FENCE, documented, make_yours

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ridgeformer"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive, built as `make dist` does it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        inside = {name: wheel.read(name) for name in wheel.namelist() if not name.split("/")[0].endswith(".dist-info")}
    sources = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert set(inside) == {path.relative_to(PACKAGE.parent).as_posix() for path in sources}
    assert {Path(name).suffix for name in inside} == {".py", ".j2", ".css", ".js", ".typed"}
    assert all(inside[path.relative_to(PACKAGE.parent).as_posix()] == path.read_bytes() for path in sources)


def test_the_source_archive_builds_tests_and_documents(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "Makefile",
        "constraints.txt",
        "CHANGELOG.md",
        "conftest.py",
    ):
        assert needed in names
    for file in ("src/ridgeformer/py.typed", "tests/test_release.py", "docs/index.md", "benchmarks/harness.py"):
        assert file in names, file


def test_one_version_is_told_everywhere(built):
    with zipfile.ZipFile(built[0]) as wheel:
        (metadata,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("METADATA"))
    version = PROJECT["version"]
    assert f"\nVersion: {version}\n" in metadata
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version
    page = (ROOT / "docs" / "versions.md").read_text()
    assert f"version = {{{version}}}" in page
    assert built[0].name in page
    assert built[0].name in (ROOT / "README.md").read_text()


def test_badges_say_what_the_project_says():
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_badges.py"))["badges"]()
    for name, text in drawn.items():
        assert (ROOT / "docs" / "figures" / "badges" / name).read_text() == text, "make figures"
        assert f"badges/{name}" in (ROOT / "README.md").read_text()


def test_the_versions_tested_are_within_the_ranges_declared():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pins = {name.lower().replace("_", "-"): pin for name, pin in pins.items()}
    declared = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    for requirement in map(Requirement, declared):
        name = requirement.name.lower().replace("_", "-")
        if name != "ridgeformer":
            assert name in pins, f"constraints.txt has no {name}"
            assert requirement.specifier.contains(pins[name], prereleases=True), requirement


# -- the wheel in an environment of its own ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(built, tmp_path_factory):
    """An environment that has the wheel; its dependencies are read from this one, and this one's ridgeformer is not."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    installer = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*installer, "--no-deps", "--no-index", str(built[0])], check=True)
    dependencies = Path(pytest.__file__).parents[1]
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return home


def tried(bare, folder, *arguments, path=None):
    """Run a program of the environment in a folder of its own, with `path` before all other places of modules."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {} if path is None else {"PYTHONPATH": str(path)}
    command = [str(bare / "bin" / arguments[0]), *arguments[1:]]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_wheel_is_what_runs_there(bare, tmp_path):
    code = "import ridgeformer, importlib.metadata as m; print(ridgeformer.__file__, m.version('ridgeformer'))"
    where, version = tried(bare, tmp_path, "python", "-c", code).stdout.split()
    assert Path(where).is_relative_to(bare)
    assert version == PROJECT["version"]
    assert tried(bare, tmp_path, "python", "-m", "ridgeformer", "--version").stdout == f"ridgeformer {version}\n"


LEFT_OUT = {
    "--install-completion": "asks which shell calls it, and writes to that shell's settings",
    "reproduce": "minutes to hours; studies have tests of their own",
    "explore": "serves until it is stopped: tried below",
    "mnist": "fetches data",
    "--scheduler": "needs a cluster",
    "1000000": "a million neurons take minutes",
}
"""Words of commands that are not run from the wheel, and why."""

PAGES = [page for page in DOCUMENTS if documented(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_runs_from_the_wheel_in_an_empty_folder(bare, tmp_path, page):
    make_yours(tmp_path)
    for command in documented(page):
        if not any(word in part for part in command for word in LEFT_OUT):
            done = tried(bare, tmp_path, *command)
            assert done.returncode == 0, (command, done.stderr)


EXTRAS = ("transformers", "transformer_lens", "dash", "flask", "numba", "dask", "distributed", "captum", "dattri",
          "matplotlib", "pandas", "flint", "linear_operator", "gpytorch", "mapie", "beartype")  # fmt: skip
"""Packages that only an extra installs."""

REFUSING = f"""import sys
from importlib.machinery import PathFinder

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {EXTRAS} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
"""


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory):
    """A folder that, on PYTHONPATH, hides the packages of every extra, as if they were not installed."""
    folder = tmp_path_factory.mktemp("without-extras")
    (folder / "sitecustomize.py").write_text(REFUSING)
    return folder


@pytest.mark.slow
def test_the_readme_needs_no_extra(bare, tmp_path, without_extras):
    code = "import ridgeformer, transformers"
    assert "No module named 'transformers'" in tried(bare, tmp_path, "python", "-c", code, path=without_extras).stderr
    for command in documented(ROOT / "README.md"):
        if "--install-completion" not in command:
            done = tried(bare, tmp_path, *command, path=without_extras)
            assert done.returncode == 0, (command, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("command", [
    ("explore", "--no-browser", "--port", "0"),
    ("export", "model", "--to", "t5", "--out", "t5"),
    ("run", "exported", "wine"),
    ("certify", "exported", "wine"),
    ("circuits", "make", "--limit", "1", "--out", "known"),
    ("solve", "wine", "--ridge", "1", "--workers", "1"),
])  # fmt: skip
def test_a_missing_extra_is_named_in_one_line(bare, tmp_path, without_extras, command):
    options = ("--features", "13", "--outputs", "3", "--primitives", "swiglu", "--steps", "2", "--out", "model")
    assert tried(bare, tmp_path, "ridgeformer", "compile", *options, path=without_extras).returncode == 0
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "ridgeformer.json").write_text("{}")
    done = tried(bare, tmp_path, "ridgeformer", *command, path=without_extras)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"error: .*ridgeformer\[\w+\].*\n", done.stderr), done.stderr


def test_enough_commands_are_tried():
    tried = [command for page in PAGES for command in documented(page)]
    kept = [command for command in tried if not any(word in part for part in command for word in LEFT_OUT)]
    assert len(documented(ROOT / "README.md")) >= 7
    assert len(kept) >= 35
    assert all(any(word in part for command in tried for part in command) for word in LEFT_OUT)  # no stale reason


@pytest.mark.slow
def test_the_explorer_is_served_from_the_wheel(bare, tmp_path):
    command = [str(bare / "bin" / "ridgeformer"), "explore", "--port", "0", "--no-browser"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        for page, words in (("", "ridgeformer explore"), ("guess", "Guess the algorithm")):
            with urllib.request.urlopen(address + page) as reply:
                assert words in reply.read().decode()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0


@pytest.mark.slow
def test_pages_are_written_from_the_wheel(bare, tmp_path):
    assert tried(bare, tmp_path, "ridgeformer", "demo", "--no-open", "--out", "demo.html").returncode == 0
    assert "<!doctype html>" in (tmp_path / "demo.html").read_text()
    done = tried(bare, tmp_path, "ridgeformer", "solve", "wine", "--ridge", "0.1", "--json")
    assert json.loads(done.stdout)["status"] == "converged"


@pytest.mark.slow
def test_the_example_for_users_is_typed(bare, tmp_path):
    (example,) = [text for kind, text in FENCE.findall((ROOT / "docs" / "versions.md").read_text()) if kind == "python"]
    (tmp_path / "example.py").write_text(example + "\nreveal_type(predict)\n")
    checked = tried(bare, tmp_path, "python", "-m", "mypy", "--strict", "--cache-dir", "cache", "example.py")
    assert checked.returncode == 0, checked.stdout
    assert "Tensor" in checked.stdout
    (tmp_path / "example.py").write_text(example.replace("steps=8", 'steps="eight"'))
    checked = tried(bare, tmp_path, "python", "-m", "mypy", "--strict", "--cache-dir", "cache", "example.py")
    assert '"steps"' in checked.stdout  # the types are the package's own, not Any
