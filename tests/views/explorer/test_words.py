"""Sentences: made of the numbers they speak of, and different where those are."""

import numpy as np
import pytest

from ridgeformer.views.explorer import words
from ridgeformer.views.explorer.compute import influenced, run, spectrum
from ridgeformer.views.explorer.state import State
from ridgeformer.views.explorer.stream import look, pattern


def test_the_headline_says_whether_it_is_solved():
    solved, not_yet = State(steps=20), State(steps=2)
    assert "is kernel ridge regression to within" in words.say_headline(solved, run(solved))
    assert "2 steps, 23 sublayers: the transformer is still" in words.say_headline(not_yet, run(not_yet))
    one = State(algorithm="nadaraya_watson")
    assert words.say_headline(one, run(one)).startswith("One softmax head is up to")


def test_the_prediction_gives_both_distances_and_what_a_sketch_costs():
    state = State(width=16)
    found = run(state)
    said = words.say_prediction(state, found)
    for distance in (found.predicted, found.average, found.limit):
        assert words.number(float(np.abs(distance - found.exact).max())) in said
    assert "5 of 9 features" in said
    assert "features" not in words.say_prediction(State(), run(State()))


def test_convergence_says_error_bound_and_whether_it_is_kept():
    found = run(State())
    said = words.say_convergence(State(), found)
    assert words.number(found.errors[-1]) in said
    assert words.number(found.bound[-1]) in said
    assert "stays below its bound" in said
    broken = type(found)(**{**vars(found), "bound": found.errors / 2, "holds": False})
    assert "stays ABOVE its bound" in words.say_convergence(State(), broken)
    assert "condition is not met" in words.say_convergence(State(), broken)
    one = State(algorithm="nadaraya_watson")
    assert "no steps" in words.say_convergence(one, run(one))


def test_the_spectrum_counts_what_is_above_the_ridge():
    found = spectrum(State())
    said = words.say_spectrum(State(), found)
    assert said.startswith(f"{int((found.kernel > 0.1).sum())} of 24 eigenvalues")
    assert words.number(found.d_eff) in said


def test_stream_and_attention_say_where_one_is():
    state = State()
    view = look(state)
    assert "sublayer 4 of 83 (attention), which wrote a, o" in words.say_stream(state, view)
    assert "83 sublayers follow" in words.say_stream(state, look(State(sublayer=0)))
    assert "spreads its attention over about" in words.say_attention(state, view, pattern(state))
    gated = State(sublayer=5)
    assert "gated sublayer reads no other" in words.say_attention(gated, look(gated), pattern(gated))
    linear = State.parse("attention=linear&sublayer=2")
    assert "no softmax" in words.say_attention(linear, look(linear), pattern(linear))


def test_uniform_attention_spreads_over_all_supports():
    state = State(sublayer=2)
    assert pattern(state).head == "mean"
    assert "about 24.0 of 24" in words.say_attention(state, look(state), pattern(state))


@pytest.mark.parametrize("data", ["sine", "wine"])
def test_influence_names_the_strongest(data):
    state = State(data=data, temperature=5.0)
    found = influenced(state)
    assert "Click" in words.say_influence(state, found, None)
    said = words.say_influence(state, found, 2)
    if data == "sine":
        assert words.number(float(np.abs(found.change[2]).max())) in said
    else:
        assert found.task.labels[int(found.change[:, 2].argmax())] in said
        assert words.number(float(found.change[:, 2].max())) in said


def test_parts_of_one_are_per_cents_until_they_are_many():
    assert words.percent(0.1234) == "12.3 %"
    assert words.percent(123.4) == "123 times"
