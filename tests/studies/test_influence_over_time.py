"""The study of influence over time: powers of two and the end, and a page that says when it is settled."""

import pytest

from ridgeformer.studies.influence_over_time import STUDY, measure

POINT = {"data": "digits", "rows": 40, "test_rows": 10, "width": 16, "method": "adam", "loss": "mse", "epochs": 5}
POINT |= {"ridge": 1e-2}


def test_it_begins_where_it_begins_and_ends_where_it_ends():
    found = [row for row in measure(**POINT, seed=1) if row["model"] == "attention"]
    assert [row["epoch"] for row in found] == [0, 1, 2, 4, 5]
    assert (found[0]["kernel_drift"], found[0]["flips_since_start"], found[-1]["flips_until_end"]) == (0, 0, 0)
    assert found[-1]["kernel_drift"] > 0
    assert found[0]["spearman_end"] == pytest.approx(found[-1]["spearman_start"])


@pytest.mark.parametrize("preset", STUDY.presets)
def test_presets(preset):
    assert STUDY.presets[preset].seeds >= 5
    assert len(STUDY.tasks(preset)) == len(STUDY.presets[preset])
