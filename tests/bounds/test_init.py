import importlib
import inspect
import pkgutil

import pytest

from ridgeformer import bounds

MODULES = [name for _, name, _ in pkgutil.iter_modules(bounds.__path__) if not name.startswith("_")]

PLURALS = ("_norms", "_energies", "_diagonals", "_lengths")
"""Endings that the docstring of the package explains."""


def test_the_room_exports_what_its_files_export():
    everything = [name for module in MODULES for name in importlib.import_module(f"{bounds.__name__}.{module}").__all__]
    assert sorted(everything) == sorted(bounds.__all__)
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("name", [name for name in bounds.__all__ if name.islower()])
def test_every_function_says_what_holds_and_shows_it(name):
    text = getattr(bounds, name).__doc__
    assert ">>> " in text
    for argument in inspect.signature(getattr(bounds, name)).parameters:
        explained = f"`{argument}`" in bounds.__doc__ + text or f"{argument}: " in text
        assert explained or argument.endswith(PLURALS), argument


def test_the_one_guide_says_that_it_is_one():
    assert "NOT a theorem" in bounds.gaussian_sketch_relative_error.__doc__
