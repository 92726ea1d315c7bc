"""Declaring a study."""

import pytest
from tiny_studies import STUDY, study

from ridgeformer.errors import InputError
from ridgeformer.studies import STUDIES, Preset, Study, find_study, product


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


@pytest.mark.parametrize("name", STUDIES)
def test_every_registered_study_has_three_presets_that_grow(name):
    found = STUDIES[name]
    sizes = [len(found.tasks(preset)) for preset in ("quick", "default", "paper")]
    assert sizes == sorted(sizes)
    assert find_study(name) is found


def test_own_studies_by_module_and_name():
    assert find_study("tiny_studies:STUDY") is STUDY
    assert isinstance(find_study("tiny_studies:GRUMPY"), Study)
    with pytest.raises(InputError, match="a Study was expected"):
        find_study("tiny_studies:draw")
