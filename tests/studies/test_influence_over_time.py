"""The study of influence over time: powers of two and the end, and a page that says when it is settled."""

import pytest

from ridgeformer.studies.influence_over_time import STUDY, make_page, measure

POINT = {"data": "digits", "rows": 40, "test_rows": 10, "width": 16, "method": "adam", "loss": "mse", "epochs": 5}
POINT |= {"ridge": 1e-2}


def test_it_begins_where_it_begins_and_ends_where_it_ends():
    found = [row for row in measure(**POINT, seed=1) if row["model"] == "attention"]
    assert [row["epoch"] for row in found] == [0, 1, 2, 4, 5]
    assert (found[0]["kernel_drift"], found[0]["flips_since_start"], found[-1]["flips_until_end"]) == (0, 0, 0)
    assert found[-1]["kernel_drift"] > 0
    assert found[0]["spearman_end"] == pytest.approx(found[-1]["spearman_start"])


def test_the_page_names_the_epoch_from_which_it_is_settled():
    rho = {0: 0.2, 1: 0.5, 8: 0.95, 16: 1.0}
    rows = [
        POINT | {"seed": 0, "model": model, "epoch": epoch, "kernel_drift": epoch / 16, "spearman_end": value}
        | {"flips_since_start": 0.25, "spearman_start": 0.2, "flips_until_end": 0.0, "overlap_end": 1.0}
        for model in ("relu", "attention") for epoch, value in rho.items()
    ]  # fmt: skip
    page = make_page(rows, rows)
    assert "moved the kernel by 100 % and changed the sign of 25 % of the top influences" in page.answer[0]
    assert page.answer[0].endswith("from epoch 8 on it is 0.9 or more with the end.")
    assert tuple(page.sections[0].pictures[0].figure["data"][0]["y"]) == tuple(rho.values())


@pytest.mark.parametrize("preset", STUDY.presets)
def test_presets(preset):
    assert STUDY.presets[preset].seeds >= 5
    assert len(STUDY.tasks(preset)) == len(STUDY.presets[preset])
