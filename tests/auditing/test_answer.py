from dataclasses import replace

import numpy as np
import pytest

from ridgeformer.auditing.answer import _describes, _quality, _robustness, _size, answer, best_baseline
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import one_part_in
from tests.auditing.small_audits import small_audit


def test_five_sentences_made_of_the_numbers():
    wine = small_audit("wine")
    good, exact, transformer, large, explained = wine.sentences
    assert f"{100 * wine.certified.scored.test_score:.1f} % of {len(wine.data.Xt)} held-out rows" in good
    assert one_part_in(wine.certified.worst_bound / wine.certified.typical_output) in exact
    assert f"{wine.compiled[-1].budget.sublayers} layers" in transformer
    assert f"{wine.convergence.curves[0].steps_to_target} rounds" in large
    assert f"need {wine.spectra.measured_10:,} of them" in large
    flips = wine.malleability.of("the certified fit", wine.malleability.sizes[0], "adaptive")
    assert f"flips the sign of {100 * flips.mean:.0f} % of their influences" in explained
    assert "64 neurons" in explained


def scored(fit, rows):
    return replace(fit, row_scores=np.array(rows), test_score=float(np.mean(rows)))


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        ([1.0] * 40, [0.0] * 40, "better than the best simpler method"),
        ([0.0] * 40, [1.0] * 40, "WORSE than the best simpler method"),
        ([1.0] * 40, [1.0] * 40, "statistically no different from the best simpler method"),
        ([1.0] * 39 + [0.0], [1.0] * 40, "wrong on 1 where the other is right (exact p = 1)"),
        ([1.0] * 40, [1.0] * 36 + [0.0] * 4, "no different from"),  # 4 : 0, p = 0.125
        ([1.0] * 40, [1.0] * 34 + [0.0] * 6, "better than"),
        ([1.0] * 40, [1.0] * 34 + [0.0] * 6, "right on 6 rows where the other is wrong"),
    ],
)
def test_the_comparison_knows_its_noise(own, other, words):
    wine = small_audit("wine")
    certified = replace(wine.certified, scored=scored(wine.certified.scored, own))
    assert words in _quality(wine.data, certified, (scored(wine.baselines[0], other),))


def test_the_best_baseline():
    wine = small_audit("wine")
    assert best_baseline(wine.baselines).test_score == max(fit.test_score for fit in wine.baselines)


def test_a_violated_bound_is_said():
    wine = small_audit("wine")
    assert "VIOLATED" in _size(wine.spectra, replace(wine.convergence, bound_holds=False))


def test_parts_left_out_are_said():
    reason = Skipped("row 3 is all zeros.")
    assert "could not be measured" in _describes(reason)
    assert "could not be measured" in _robustness(reason)
    wine = small_audit("wine")
    said = answer(
        wine.data, wine.certified, wine.baselines, wine.spectra, wine.convergence, wine.compiled, reason, reason
    )
    assert len(said) == 5


@pytest.mark.parametrize("share", [0.9, 0.1, 0.051, 1e-3, 3e-4, 6.5e-8, 1e-9, 1e-14, 1e-17])
def test_one_in_is_never_smaller_than_the_share(share):
    numbers = {"one": 1, "ten": 10, "a": 1, "hundred": 100}
    units = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
    said = 1.0
    for word in one_part_in(share).removeprefix("one part in ").split():
        said *= numbers.get(word, 1) * units.get(word, 1) if not word.startswith("10^") else 10.0 ** int(word[3:])
    assert share <= 1 / said * (1 + 1e-9) < 10.1 * share
