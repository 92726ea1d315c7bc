import subprocess
import sys

import pytest

import ridgeformer


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_an_import_brings_no_more_than_solving_needs():
    """Each of these would add half a second to every start."""
    heavy = ("sklearn", "scipy", "plotly", "pandas", "pyarrow", "dask", "numba")
    assert run(f"import sys, ridgeformer; print([name for name in {heavy} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("name", ridgeformer.__all__)
def test_every_name_is_there_when_asked_for(name):
    assert getattr(ridgeformer, name) is not None
    assert name in dir(ridgeformer)


def test_the_audit_is_a_function_whatever_was_imported_before():
    assert run("import ridgeformer.auditing.field, ridgeformer as rf; print(callable(rf.audit))") == "True"


def test_other_names_are_refused_as_python_does_it():
    with pytest.raises(AttributeError, match="module 'ridgeformer' has no attribute 'nothing'"):
        _ = ridgeformer.nothing
