"""Cards: the verdict is a rule that noise cannot win, shared choices are said once."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from ridgeformer.core.errors import InputError
from ridgeformer.core.statistics import mean_interval
from ridgeformer.studies.result_cards import CardVerdict, make_card, verdict_of

OPEN = {"ridge": "1e-3 of the mean diagonal", "rows": "200"}


@pytest.mark.parametrize(
    ("published", "ours", "low", "high", "neutral", "verdict"),
    [
        (-5.0, -5.2, -5.4, -4.9, 0.0, "reproduced"),
        (-5.0, -5.2, -5.6, -4.9, 0.0, "same direction"),
        (-5.0, -5.0, -11.0, 1.0, 0.0, "inconclusive"),
        (-5.0, -1.0, -1.5, -0.5, 0.0, "same direction"),
        (-5.0, -1.0, -2.5, 0.5, 0.0, "not reproduced"),
        (-5.0, 1.0, 0.5, 1.5, 0.0, "opposite"),
        (0.5, 2.0, 1.5, 2.5, 1.0, "opposite"),
        (0.5, 0.8, 0.7, 0.9, 1.0, "same direction"),
        (0.1, 0.1, -0.5, 0.7, 0.0, "inconclusive"),
        (10.0, 10.1, 9.1, 11.0, None, "reproduced"),
        (10.0, 10.1, 9.1, 11.1, None, "inconclusive"),
        (10.0, 8.0, 7.0, 9.0, None, "inconclusive"),
        (10.0, 8.0, 7.0, 8.9, None, "not reproduced"),
        (0.0, 1.0, 0.9, 1.1, 0.0, "not reproduced"),
        (5.0, None, None, None, 0.0, "inconclusive"),
        (5.0, float("nan"), None, None, 0.0, "inconclusive"),
        (5.0, 5.0, None, None, 0.0, "inconclusive"),
    ],
)
def test_the_rule(published, ours, low, high, neutral, verdict):
    assert verdict_of(published, ours, low, high, neutral=neutral) == verdict


def test_mirrored_numbers_have_the_same_verdict():
    rng = np.random.default_rng(0)
    for _ in range(200):
        published, ours, width = rng.normal(size=3)
        low, high = ours - abs(width), ours + abs(width)
        assert verdict_of(published, ours, low, high) == verdict_of(-published, -ours, -high, -low)


def test_a_published_number_must_be_one():
    with pytest.raises(InputError, match="finite number"):
        verdict_of(float("nan"), 1.0, 0.0, 2.0)


@pytest.mark.parametrize("neutral", [0.0, None])
def test_noise_is_never_reproduced(neutral):
    """The wider the interval of a right answer, the less it shows: more noise never improves the verdict."""
    verdicts = [verdict_of(5.0, 5.0, 5.0 - width, 5.0 + width, neutral=neutral) for width in (0.4, 1.0, 20.0)]
    assert verdicts[0] == CardVerdict.REPRODUCED
    assert verdicts[2] == CardVerdict.INCONCLUSIVE
    assert CardVerdict.REPRODUCED not in verdicts[1:]


def test_a_card_has_student_s_interval_and_leaves_out_lost_seeds():
    card = make_card("t", "r", 0.5, [1.9, None, 2.0, float("inf"), 2.1], OPEN)
    assert card.ours == 2.0
    assert (card.low, card.high) == mean_interval([1.9, 2.0, 2.1])
    assert json.loads(json.dumps(asdict(card)))["verdict"] == "same direction" == CardVerdict.SAME_DIRECTION
    assert make_card("t", "r", 1.0, [], OPEN).ours is None
