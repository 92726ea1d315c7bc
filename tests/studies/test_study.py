"""Declaring a study."""

import pytest

from ridgeformer.core.errors import InputError, UnknownNameError
from ridgeformer.studies import STUDIES, Preset, Study, find_study, product
from tests.studies.tiny_studies import STUDY, study


def test_points_are_joined_with_plus():
    points = product(a=[1], b=["x", "y"]) + product(a=[2])
    assert points == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2}]
    assert len(Preset(points, seeds=4)) == 12


def test_the_same_point_twice_is_refused():
    with pytest.raises(InputError, match=r'\{"x":1\} is there twice'):
        study("draw", [1, 2, 1]).tasks("quick")


def test_parameters_must_be_plain():
    with pytest.raises(InputError, match="only plain numbers"):
        study("draw", [object()]).tasks("quick")


def test_seeds_must_be_a_whole_number():
    with pytest.raises(InputError, match="seeds is 0"):
        study("draw", [1], seeds=0).tasks("quick")


def test_other_values_of_a_parameter_make_another_grid():
    grid = Preset(product(data=["a"], width=[1, 2]) + product(data=["b"], depth=[3]), seeds=2)
    assert grid.with_axes(data=["c"], width=[5]).points == [{"data": "c", "width": 5}, {"data": "c", "depth": 3}]
    assert len(grid.with_axes(data=["a", "b"])) == 2 * 6
    with pytest.raises(UnknownNameError, match="did you mean 'width'"):
        grid.with_axes(wdith=[1])


def test_options_keep_what_is_stored():
    """A point that is in both grids has the same key, so its result is found again."""
    changed = STUDY.with_options("quick", seeds=1, x=[0, 1000])
    keys = {task.key for task in STUDY.tasks("quick")}
    assert [task.key in keys for task in changed.tasks("quick")] == [True, False]
    with pytest.raises(InputError, match="seeds is 0"):
        STUDY.with_options("quick", seeds=0)
    with pytest.raises(UnknownNameError, match="preset of tiny"):
        STUDY.with_options("huge")


@pytest.mark.parametrize("name", STUDIES)
def test_every_registered_study_has_three_presets_that_grow(name):
    found = STUDIES[name]
    sizes = [len(found.tasks(preset)) for preset in ("quick", "default", "paper")]
    assert sizes == sorted(sizes)
    assert find_study(name) is found


def test_own_studies_by_module_and_name():
    assert find_study("tests.studies.tiny_studies:STUDY") is STUDY
    assert isinstance(find_study("tests.studies.tiny_studies:GRUMPY"), Study)
    with pytest.raises(InputError, match="a Study was expected"):
        find_study("tests.studies.tiny_studies:draw")
