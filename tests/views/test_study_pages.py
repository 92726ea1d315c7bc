"""Pages of studies: their sentences, tables and curves are those of the rows."""

import numpy as np

from ridgeformer.studies import STUDIES, depth_accuracy, interventions, loss_surface, tables, width_rank
from ridgeformer.studies.condition_numbers import PUBLISHED
from ridgeformer.studies.ntk_distance import SETTINGS
from ridgeformer.studies.result_cards import make_card
from ridgeformer.views import Page, render_page
from ridgeformer.views.study_pages import PAGES, reproduce
from ridgeformer.views.study_pages.shared import cards_section
from tests.studies import (
    test_condition_numbers,
    test_influence_over_time,
    test_interventions,
    test_loss_surface,
    test_malleability,
    test_ntk_distance,
    tiny_studies,
)

N = test_condition_numbers.N
images = test_condition_numbers.images
OPEN = {"ridge": "1e-3 of the mean diagonal", "rows": "200"}


def means_of(name, rows):
    return tables.intervals(tables._as_table(rows), STUDIES[name].within).to_pylist()


def test_condition_numbers_name_the_nearest_interpretation(images):
    rows = test_condition_numbers.rows_of("mnist")
    for row in rows:
        if (row["preparation"], row["truncation"]) == ("unit", "99.0% of the energy"):
            row["kappa"] = 1.2e3
    page = PAGES["condition-numbers"](rows, means_of("condition-numbers", rows))
    assert f"kappa of X X' with {N}, unit rows cut at 99.0% of the energy: 1.2e+03" in page.answer[0]
    assert page.sections[0].tables[0].rows[0][2:4] == ("1200", "1200")
    assert "every interpretation" in render_page(page)


def test_condition_numbers_ask_for_one_interpretation_of_both_numbers(images):
    rows = [row for data in PUBLISHED for row in test_condition_numbers.rows_of(data, seeds=2)]
    for row in rows:
        if (row["preparation"], row["truncation"]) == ("raw", "95.0% of the energy"):
            row["kappa"] = PUBLISHED[row["data"]] * 1.05
    said = PAGES["condition-numbers"](rows, means_of("condition-numbers", rows)).answer
    assert len(said) == 3
    assert f"kappa of X X' with {N}, raw rows cut at 95.0% of the energy, within a factor of 1.1" in said[2]
    assert "1 of 60 interpretations reproduce both" in said[2]


def test_depth_accuracy_states_powers_and_counts_what_broke():
    rows = [
        {**point, "seed": 0, **row}
        for point in STUDIES["depth-accuracy"].presets["quick"].points
        if point["kappa"] <= 100 and (point["attention"], point["dtype"]) == ("linear", "float64")
        if point["algorithm"] in ("cg", "richardson")
        for row in depth_accuracy.measure(**point, seed=0)
    ]
    means = means_of("depth-accuracy", rows)
    page = PAGES["depth-accuracy"](rows, means)
    assert "4 compiled transformers ran" in page.answer[0]
    assert "at every step" in page.answer[0]
    power = float(page.answer[2].split("to the power ")[1].split(";")[0])
    assert np.isclose(power, 1.0, atol=0.1), "gradient descent"
    assert "<script" in render_page(page)
    rows[5]["error"] = rows[5]["bound"] * 2
    assert f"except at 1 of {len(rows)} steps" in PAGES["depth-accuracy"](rows, means).answer[0]


def test_influence_over_time_names_the_epoch_from_which_it_is_settled():
    rho = {0: 0.2, 1: 0.5, 8: 0.95, 16: 1.0}
    rows = [
        test_influence_over_time.POINT
        | {"seed": 0, "model": model, "epoch": epoch, "kernel_drift": epoch / 16, "spearman_end": value}
        | {"flips_since_start": 0.25, "spearman_start": 0.2, "flips_until_end": 0.0, "overlap_end": 1.0}
        for model in ("relu", "attention") for epoch, value in rho.items()
    ]  # fmt: skip
    page = PAGES["influence-over-time"](rows, rows)
    assert "moved the kernel by 100 % and changed the sign of 25 % of the top influences" in page.answer[0]
    assert page.answer[0].endswith("from epoch 8 on it is 0.9 or more with the end.")
    assert tuple(page.sections[0].pictures[0].figure["data"][0]["y"]) == tuple(rho.values())


def test_interventions_are_those_of_the_rows():
    point = test_interventions.POINT
    rows = [point | {"seed": seed} | row for seed in (0, 1) for row in interventions.measure(**point, seed=seed)]
    page = PAGES["interventions"](rows, means_of("interventions", rows))
    untouched = [row["accuracy"] for row in rows if (row["model"], row["intervention"]) == ("relu", "untouched")]
    assert page.answer[0].startswith(f"relu: {100 * sum(untouched) / 2:.1f} % of the queries right")
    (table,) = page.sections[1].tables
    assert {len(table.head), *map(len, table.rows)} == {9}
    assert len(table.rows) == 8


def test_the_loss_surface_rises():
    point = test_loss_surface.POINT
    rows = [
        point | {"directions": kind, "reach": 0.5, "seed": 0} | row
        for kind in ("random", "hessian")
        for row in loss_surface.measure(**point, directions=kind, reach=0.5, seed=2)
    ]
    page = PAGES["loss-surface"](rows, rows)
    surface = [row["height"] for row in rows if (row["directions"], row["model"]) == ("hessian", "relu")]
    assert f"{surface[4]:.3g} at the trained weights to {max(surface):.3g}" in page.answer[0]
    assert [len(picture.figure["data"][0]["z"]) for picture in page.sections[0].pictures] == [3] * 4


def test_ntk_distance_counts_interpretations():
    rows = test_ntk_distance.rows(lambda model, width, seed: 100 / width + seed / 1e6)
    page = PAGES["ntk-distance"](rows, means_of("ntk-distance", rows))
    n = len(SETTINGS)
    assert page.answer[0].startswith(f"2L-ReLU: under {n} of {n} interpretations the distance changes with")
    assert f"under {n} in the opposite one" in page.answer[1]
    assert "<script" in render_page(page)


def test_width_rank_counts_broken_bounds():
    points = STUDIES["width-rank"].presets["quick"].points
    points = [point for point in points if point["width"] == 6 and point["dtype"] == "float64"]
    rows = [{**point, "seed": 0, **width_rank.measure(**point, seed=1)} for point in points]
    means = means_of("width-rank", rows)
    page = PAGES["width-rank"](rows, means)
    above = sum(row["kernel"] > row["tail"] for row in rows if row["attention"] == "linear" and row["sketch"] != "pca")
    assert f"exceeded by {above} of 2 random sketches" in page.answer[1]
    assert "in every run" in page.answer[0]
    rows[0]["error"] = 9.0
    assert f"all but 1 of {len(rows)} runs" in PAGES["width-rank"](rows, means).answer[0]


def test_choices_that_all_cards_share_are_listed_once():
    cards = [make_card("t", f"r{k}", 1.0, [1.0, 1.01], OPEN | {"loss": loss}) for k, loss in enumerate(("mse", "ce"))]
    section = cards_section("Cards", cards, ("First.",))
    assert section.sentences[0] == "First."
    assert "ridge: 1e-3" in section.sentences[1]
    assert [row[-2] for row in section.tables[0].rows] == ["loss: mse", "loss: ce"]
    assert "reproduced" in render_page(Page("t", "s", (), (section,)))
    assert cards_section("Cards", []).tables[0].rows == ()


def test_malleability_names_the_choice_that_reverses_the_gap():
    rows = test_malleability.made_rows()
    page = PAGES["malleability"](rows, test_malleability.made_means(rows))
    assert "40 % of attention's top influences and of 10 % of ReLU's: a gap of +30" in page.answer[0]
    assert "digits stands in for mnist" in page.sections[0].sentences[0]
    assert page.answer[2].endswith("or reverse it: units rows.")
    assert "clipped to the data's range, the attack flips 40 % of attention's and 10 % of ReLU's" in page.answer[3]
    says = {row[0]: row[-1] for row in page.sections[3].tables[0].rows}
    assert (says["as chosen"], says["units rows"]) == ("attention more", "ReLU more")
    null = page.sections[2].pictures[0].figure
    assert {tuple(trace["x"]) for trace in null["data"]} == {(64, 1024, 4096)}
    (table,) = page.sections[1].tables
    assert {len(table.head), *map(len, table.rows)} == {15}


def test_a_study_without_a_page_of_its_own_gets_a_table_of_means(tmp_path):
    study = tiny_studies.study("draw", [1, 2], seeds=2)
    report, page = reproduce(study, tmp_path)
    assert (report.computed, page.answer) == (4, (study.what,))
    (table,) = page.sections[0].tables
    assert [row[:2] for row in table.rows] == [("1", "2"), ("2", "2")]
    assert {path.name for path in tmp_path.iterdir()} >= {"report.html", "results.csv", "intervals.csv"}
    assert reproduce(study, tmp_path)[0].computed == 0


def test_every_registered_study_has_a_page_of_its_own_or_is_known_to_get_a_table():
    assert set(PAGES) == set(STUDIES) - {"overhead"}


def identified_row(**values):
    scores = {"sim_e_right": True, "sim_w_right": False, "sim_e_false": True, "sim_w_false": False}
    return {"features": 3, "noise": 0.0, "seed": 0, "outcome": "abstains", "answer": "none", "distance": None,
            "resolution": 0.02, **scores, **values}  # fmt: skip


def test_identified_models_are_counted_and_every_named_null_is_listed():
    rows = [identified_row(route="cg", truth="cg-3", outcome=outcome) for outcome in ("family", "set", "wrong")]
    page = PAGES["identify-compiled"](rows, rows)
    assert "1 of 3 (0.84 % to 91 %) a wrong one" in page.answer[0]
    assert page.sections[-1].title == "Wrong answers"
    nulls = [
        identified_row(kind="tree"),
        identified_row(kind="huber", outcome="false", answer="ridge", distance=0.05),
        identified_row(kind="huber", outcome="within resolution", answer="ridge", distance=0.015),
    ]
    page = PAGES["identify-nulls"](nulls, nulls)
    assert "1 of 3 (0.84 % to 91 %) got a false answer" in page.answer[0]
    assert "SimE was above 0.9 for a wrong candidate in 3 of them, SimW in 0" in page.answer[2]
    assert [row[-1] for row in page.sections[-1].tables[0].rows] == ["false", "within resolution"]


def test_power_is_compared_with_how_often_fresh_tasks_agree():
    rows = [
        {"route": "cg-3", "tasks": tasks, "noise": 0.1, "seed": seed, "answered": tasks > 12 or seed > 0,
         "right": tasks > 12, "wrong": False, "power": 0.5, "families": "cg", "resolution": 0.02}
        for tasks in (12, 72) for seed in range(3)
    ]  # fmt: skip
    page = PAGES["identify-power"](rows, rows)
    assert page.answer[0].startswith("3 of 6 models were recognised; 0 of 6")
    assert "below the frequency with which fresh tasks give the same answer" in page.answer[1]
    few, many = page.sections[1].tables[0].rows
    assert (few[2], few[-1], many[-1]) == ("12", "0.50", "1.00")
    assert "fraction recognised" in render_page(page)


def trained_row(**values):
    row = {"network": "linear", "layers": 1, "mlp": False, "norm": False, "condition": 10.0, "size": 9, "seed": 0,
           "trained": 1.0, "test_error": 0.1, "answer": "one step", "identified": "gd_covariance-1/k", "reason": None,
           "best": "gd_covariance-1/k", "unexplained": 1e-4, "resolution": 0.01, "steps_by_outputs": "0.77",
           "steps_by_weights": "0.76", "apart": 0.013, "from_covariance": 0.02, "sim_w_gd": 0.9, "sim_e_newton": 0.9,
           "sim_e_richardson": 0.8, "inside": None}  # fmt: skip
    return row | values


def test_trained_networks_stand_beside_their_weights_and_claims_beside_untrained_twins():
    null = {"trained": 0.0, "reason": "NEAR", "identified": "", "from_covariance": 0.9}
    failed = trained_row(network="softmax", reason="NEAR", identified="", best="ols")
    rows = [trained_row(), trained_row(**null), failed,
            trained_row(network="softmax", **null)]  # fmt: skip
    page = PAGES["identify-trained"](rows, rows)
    assert page.answer[0] == "1 of 2 trained networks and 0 of 2 untrained twins were given a name."
    assert page.answer[1].endswith("with step sizes within 1.3 % of those of the weights.")
    verdicts = [row[-1] for row in page.sections[0].tables[0].rows]
    assert verdicts[1:3] == ["confirmed by the predictions", "not confirmed"]
    assert verdicts[0].startswith("not yet run")
    assert verdicts[3].startswith("not yet run")
    assert "Every checkpoint" in render_page(page)
