from dataclasses import replace

import numpy as np
import pytest

from ridgeformer.auditing.answer import _describes, _robustness, _size, _transformers, name_winner
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import one_part_in
from tests.auditing.small_audits import small_audit


def test_six_sentences_made_of_the_numbers():
    wine = small_audit("wine")
    good, exact, transformer, large, explained, advice = wine.sentences
    assert f"{100 * wine.field.own.test_score:.1f} % right on {len(wine.data.Xt)} held-out rows" in good
    assert one_part_in(wine.certified.worst_bound / wine.certified.typical_output) in exact
    assert f"{wine.compiled[-1].budget.sublayers} layers" in transformer
    assert f"{wine.convergence.curves[0].steps_to_target} rounds" in large
    assert f"need {wine.spectra.measured_10:,} of them" in large
    assert "flips the sign of" in explained
    assert "64 neurons" in explained
    assert advice.startswith("What to do: use ")


def scored(fit, rows):
    return replace(fit, row_scores=np.array(rows, dtype=float))


def compared(own, other):
    """Return the first sentence where the attention kernel and a random forest have these scores, the constant none."""
    wine = small_audit("wine")
    field = wine.field
    entrants = (
        scored(field.own, own),
        scored(field.of("forest"), other),
        scored(field.of("constant"), [0.0] * len(own)),
    )
    field = replace(field, scored=entrants, rows=np.arange(len(own)))
    metrics = {one.key: wine.metrics["attention"] for one in entrants}
    return name_winner(wine.data, field, metrics)


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        ([1.0] * 40, [0.0] * 40, "Who wins: regression with the kernel of attention wins with 100.0 % right on 40"),
        ([0.0] * 40, [1.0] * 40, "Who wins: a random forest, with 100.0 % right on 40 held-out rows"),
        ([0.0] * 40, [1.0] * 40, "reaches only 0.0 % right: -100.0 points"),
        ([1.0] * 40, [1.0] * 40, "no method is clearly better than regression with the kernel of attention"),
        ([1.0] * 39 + [0.0], [1.0] * 40, "wrong on 1 where the other is right (exact p = 1)"),
        ([1.0] * 40, [1.0] * 36 + [0.0] * 4, "no method is clearly better"),  # 4 : 0, p = 0.125
        ([1.0] * 40, [1.0] * 32 + [0.0] * 8, "wins with 100.0 % right"),
        ([1.0] * 40, [1.0] * 32 + [0.0] * 8, "right on 8 rows where the other is wrong"),
        ([0.0] * 60, [0.0] * 60, "Who wins: nobody. On 60 held-out rows no method is better than a constant"),
        ([0.0] * 40, [0.0] * 40, "Who wins: too few rows to tell."),
    ],
)
def test_the_first_sentence_names_the_winner_and_knows_its_noise(own, other, words):
    assert words in compared(own, other)


def test_whose_answers_the_transformer_gives_is_said():
    wine = small_audit("wine")
    last = wine.compiled[-1]
    assert last.supports < last.training_rows
    assert f"{last.supports} of the {last.training_rows} training rows; its answers are those of" in wine.sentences[2]
    whole = replace(last, supports=last.training_rows)
    assert f"reads all {last.training_rows} training rows of the fit" in _transformers((whole,))


def test_a_network_that_was_not_trained_supports_no_verdict():
    wine = small_audit("wine")
    regime = wine.regime

    def with_error(error):
        measured = [replace(one, measured=replace(one.measured, train_error=error)) for one in regime.answers]
        return _describes(wine.data, replace(regime, answers=tuple(measured)))

    assert "is open: training did not reach a small error in 2 of 2 draws (up to 64 % of" in with_error(0.64)
    assert "is open" not in with_error(0.0)


def test_a_violated_bound_is_said():
    wine = small_audit("wine")
    assert "VIOLATED" in _size(wine.spectra, replace(wine.convergence, bound_holds=False))


def test_parts_left_out_are_said():
    reason = Skipped("row 3 is all zeros.")
    assert "could not be measured" in _describes(small_audit("wine").data, reason)
    assert "could not be measured" in _robustness(reason)


@pytest.mark.parametrize("share", [0.9, 0.1, 0.051, 1e-3, 3e-4, 6.5e-8, 1e-9, 1e-14, 1e-17])
def test_one_in_is_never_smaller_than_the_share(share):
    numbers = {"one": 1, "ten": 10, "a": 1, "hundred": 100}
    units = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
    said = 1.0
    for word in one_part_in(share).removeprefix("one part in ").split():
        said *= numbers.get(word, 1) * units.get(word, 1) if not word.startswith("10^") else 10.0 ** int(word[3:])
    assert share <= 1 / said * (1 + 1e-9) < 10.1 * share
