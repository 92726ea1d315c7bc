"""Shared test settings: array shapes are checked at run time, hypothesis repeats itself."""

import gc
import os
import re
from collections import Counter
from functools import wraps
from inspect import isfunction
from itertools import count
from pathlib import Path

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips a part of its contract

import jaxtyping
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

SOURCES = Path(__file__).parent / "src"
SHAPED = [
    ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    for path in SOURCES.rglob("*.py")
    if "from jaxtyping import" in path.read_text()
]
"""Modules whose annotations state shapes. mypy checks all other types, and wrapping every function of the package
took more time than the tests themselves."""

SHAPE = re.compile(rf"\b({'|'.join(name for name in dir(jaxtyping) if name[0].isupper())})\[")
check_every = jaxtyping.jaxtyped
ALWAYS, SELDOM = 200, 16
"""The first 200 calls of a function in each process are checked, then every sixteenth: some functions are called a
hundred thousand times."""


def check_shapes(*, typechecker):
    """Check what states a shape and nothing else; a function inside another would be wrapped anew at every call."""

    def decorate(given):
        stated = " ".join(map(str, getattr(given, "__annotations__", {}).values()))
        if not SHAPE.search(stated):
            return given
        checked, calls = check_every(given, typechecker=typechecker), count()
        if not isfunction(given):
            return checked

        @wraps(given)
        def checked_at_first(*args, **options):
            number = next(calls)
            return (checked if number < ALWAYS or number % SELDOM == 0 else given)(*args, **options)

        return checked_at_first

    return decorate


jaxtyping.jaxtyped = check_shapes  # what the import hook puts on every function and class
jaxtyping.install_import_hook(SHAPED, "beartype.beartype")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Examples are looked for in the sources only: looking for them in the tests takes as long as importing those."""
    found = yield
    return found if SOURCES in file_path.parents else [one for one in found if not isinstance(one, DoctestModule)]


def pytest_collection_finish():
    """Spare the garbage collector the thousands of tests and modules that stay until the end."""
    gc.collect()
    gc.freeze()


SHARED = {
    "claims": ("tests/claims/", "tests/cli/test_claims.py", "tests/views/test_claims_page.py"),
    "audits": (
        "tests/auditing/",
        "tests/views/audit_page/",
        "tests/views/test_browser.py",
        "tests/views/test_paper.py",
    ),
}
"""Tests that share what is expensive and made once a process: the ledger's findings, and the small audits."""


LONG = (
    "tests/views/",
    "tests/test_site.py",
    "tests/export/test_saving.py",
    "tests/test_documents.py",
    "tests/cli/",
    "tests/studies/",
    "tests/claims/",
    "tests/auditing/",
)
"""Tests that wait for browsers and processes, or take long for their number. They begin first: at the end a core would
have nothing to do while another waits for them."""


def pytest_collection_modifyitems(items):
    """Put files that take long first, then those with many tests."""
    files = [item.nodeid.split("::")[0] for item in items]
    size = Counter(files)
    rank = {
        name: (next((i for i, part in enumerate(LONG) if name.startswith(part)), len(LONG)), -size[name])
        for name in size
    }
    items.sort(key=lambda item: rank[item.nodeid.split("::")[0]])


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_xdist_make_scheduler(config, log):
    """Give a file of tests to one process, and files that share something expensive to the same one."""
    from xdist.scheduler import LoadFileScheduling

    class Shared(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((name for name, files in SHARED.items() if nodeid.startswith(files)), nodeid.split("::")[0])

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    return Shared(config, log)


@pytest.fixture
def unchecked():
    """Switch runtime type checks off, so that a value of a wrong type meets the library's own error."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
