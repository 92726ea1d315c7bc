import pytest

from ridgeformer.core.statistics import proportion_interval
from ridgeformer.studies.malleability import COLUMNS, STUDY
from ridgeformer.studies.malleability_page import gaps, make_cards, make_page

CONTROLS = ("attack", "noise", "redrawn", "adaptive")
CENTRE = STUDY.presets["quick"].points[0]
SHIFT = (-0.02, 0.0, 0.02)


def rates(point, model):
    """Attention flips 40 % and ReLU 10 %; with eps in unit rows it is the other way round."""
    high = (model == "attention") != (point["units"] == "rows")
    return 0.4 if high else 0.1


def made_rows():
    found = []
    for point in STUDY.presets["quick"].points:
        for seed, shift in enumerate(SHIFT):
            for model in ("relu", "attention"):
                values = {f"{c}_{column}": rates(point, model) + shift for c in CONTROLS for column in COLUMNS}
                if point["kernel"] == "infinite":
                    values |= {f"redrawn_{column}": None for column in COLUMNS}
                found.append(point | {"seed": seed, "model": model, "length": 4.0, "attacked": 50} | values)
    return found


def made_means(rows):
    return [row for row in rows if row["seed"] == 1]  # the middle of three is their mean


def test_gaps_are_paired_by_seed():
    gap, low, high = gaps(made_rows(), CENTRE, "attack_flips_top")
    assert (gap, low, high) == pytest.approx((30.0, 30.0, 30.0))


def test_cards_compare_with_the_published_tables_and_name_the_data():
    cards = {(card.table, card.row): card for card in make_cards(made_rows(), CENTRE)}
    gap = cards["flips, mnist, all classes, FGSM", "attention - relu"]
    assert (gap.published, gap.ours) == pytest.approx((30.5, 30.0))
    assert gap.verdict == "reproduced"
    assert gap.choices["data"] == "digits"
    relu = cards["flips, mnist, all classes, FGSM", "relu, %"]
    assert (relu.published, relu.ours) == pytest.approx((4.1, 10.0))
    assert relu.verdict == "not reproduced"
    assert ("flips, mnist, all classes, PGD, after adversarial training, rounds: 1", "attention, %") in cards
    assert len(cards) == 3 * 8


def test_no_flip_in_any_seed_is_not_certain_and_so_not_a_verdict():
    """Once 0 of 10 in every seed had the interval 0 to 0."""
    rows = [row | {"attacked": 10, "attack_flips_top": 0.0} for row in made_rows()]
    relu = next(card for card in make_cards(rows, CENTRE) if card.row == "relu, %")
    assert (relu.ours, relu.low, relu.verdict) == (0.0, 0.0, "inconclusive")
    assert relu.high == pytest.approx(100 * proportion_interval(0, 30)[1])


def test_the_page_names_the_choice_that_turns_the_gap_round():
    rows = made_rows()
    page = make_page(rows, made_means(rows))
    assert "40 % of attention's top influences and of 10 % of ReLU's: a gap of +30" in page.answer[0]
    assert "digits stands in for mnist" in page.sections[0].sentences[0]
    assert page.answer[2].endswith("turn it round: units rows.")
    assert "clipped to the data's range, the attack flips 40 % of attention's and 10 % of ReLU's" in page.answer[3]
    says = {row[0]: row[-1] for row in page.sections[3].table.rows}
    assert (says["as chosen"], says["units rows"]) == ("attention more", "ReLU more")
    null = page.sections[2].pictures[0].figure
    assert {tuple(trace["x"]) for trace in null["data"]} == {(64, 1024, 4096)}
    assert all(len(row) == len(page.sections[1].table.head) for row in page.sections[1].table.rows)
