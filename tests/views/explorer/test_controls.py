"""What controls do to the state: pure functions, each checked for what it changes and what it leaves."""

from dataclasses import replace

import pytest

from ridgeformer.core.errors import InputError
from ridgeformer.views.explorer.compute import run
from ridgeformer.views.explorer.controls import (
    FIRST_POINTS,
    PRESETS,
    add_point,
    apply,
    limits,
    pick_data,
    pick_point,
    remove_point,
    scope,
    settle,
    shown,
)
from ridgeformer.views.explorer.data import load_regression
from ridgeformer.views.explorer.state import ALGORITHMS, ATTENTIONS, DRAWN, SOURCES, State


def moved(state, **controls):
    return apply(state, shown(state, scope(state)) | controls)


@pytest.mark.parametrize("state", [State(), *PRESETS.values()], ids=lambda s: s.address or "default")
def test_controls_nobody_touched_change_nothing(state):
    assert settle(state) == state
    assert moved(state) == state
    assert apply(state, dict.fromkeys(shown(state, scope(state)), None) | {"point": state.point}) == state


def test_a_ridge_between_two_notches_stays_until_the_slider_moves():
    state = State(ridge=0.123456)
    assert moved(state, steps=9).ridge == 0.123456
    assert moved(state, ridge=-2).ridge == 0.01


@pytest.mark.parametrize(
    ("controls", "changes"),
    [
        ({"steps": "12"}, {"steps": 12}),
        ({"ridge": "-1.5"}, {"ridge": 0.0316}),
        ({"temperature": 0.3}, {"temperature": 2.0}),
        ({"rows": 50}, {"rows": 50}),
        ({"width": 15, "sketch": "gaussian"}, {"width": 15, "sketch": "gaussian"}),
        ({"width": 20}, {}),
        ({"width": 3}, {"width": 12}),
        ({"sublayer": 30}, {"sublayer": 30}),
        ({"point": 4}, {"point": 4}),
        ({"point": 9999}, None),
        ({"steps": 1000}, None),
    ],
    ids=str,
)
def test_a_control_changes_its_own_part(controls, changes):
    if changes is None:
        with pytest.raises(InputError):
            moved(State(), **controls)
    else:
        assert moved(State(), **controls) == State(**changes)


@pytest.mark.parametrize("kernel", ATTENTIONS)
def test_a_kernel_brings_its_attention_and_keeps_the_algorithm_if_it_can(kernel):
    state = moved(State(), kernel=kernel)
    assert state.attention == ATTENTIONS[kernel][0]
    assert state.algorithm == "cg"
    other = moved(state, attention=ATTENTIONS[kernel][1])
    assert other.algorithm == ("cg" if "cg" in ALGORITHMS[other.attention] else ALGORITHMS[other.attention][0])


def test_a_number_that_no_longer_fits_is_brought_back():
    state = State(sublayer=83, point=23)
    assert moved(state, steps=2).sublayer == 23
    assert moved(state, rows=10).point is None
    assert moved(State.parse("attention=vanilla&width=14"), attention="softmax").width == 14
    assert moved(State.parse("attention=vanilla&width=23"), attention="softmax").width is None


@pytest.mark.parametrize("name", SOURCES)
def test_all_data_can_be_picked_and_show_something(name):
    state = pick_data(State(data="wine", output=2, point=3), name)
    assert (state.data, state.output, state.point) == (name, 0, None)
    found = run(state)
    assert found.distance(found.predicted) < found.distance(found.average)


def test_settings_stay_between_one_dimensional_data():
    assert pick_data(State(ridge=0.5, steps=3), "bumps") == State(data="bumps", ridge=0.5, steps=3)


def test_drawing_begins_with_what_is_there():
    drawn = pick_data(State(rows=10), DRAWN)
    task = load_regression(State(rows=10))
    assert [x for x, _ in drawn.points] == pytest.approx(task.x, abs=1e-3)
    assert pick_data(State(data="wine"), DRAWN).points == FIRST_POINTS


def test_points_are_added_in_order_and_removed_by_number():
    state = State(data=DRAWN, points=((-1.0, 0.0), (1.0, 0.0)))
    more = add_point(state, 0.12345, 0.5)
    assert more.points == ((-1.0, 0.0), (0.123, 0.5), (1.0, 0.0))
    assert remove_point(pick_point(more, 1)) == state
    assert add_point(State(rows=5), 0.0, 0.0).data == DRAWN
    assert len(add_point(State(rows=5), 0.0, 0.0).points) == 6


def test_a_point_picked_twice_is_let_go():
    assert pick_point(pick_point(State(), 3), 3) == State()


def test_what_cannot_be_drawn_or_removed_is_refused():
    with pytest.raises(InputError, match="one-dimensional"):
        add_point(State(data="wine"), 0.0, 0.0)
    with pytest.raises(InputError, match="outside"):
        add_point(State(), 99.0, 0.0)
    with pytest.raises(InputError, match="no drawn point is selected"):
        remove_point(State())
    with pytest.raises(InputError, match="no drawn point is selected"):
        remove_point(State(data="wine", point=3))


def test_the_scope_of_a_refused_state_is_what_can_be_said_of_it():
    assert scope(State(algorithm="neumann")).full == 20 - 3  # its program has fewer channels
    assert scope(State(data=DRAWN)).askable == 0
    assert not scope(State(data="upload-" + "0" * 16)).line


def test_the_scope_names_heads_and_outputs():
    assert scope(State.parse("attention=vanilla&sublayer=1")).heads == (
        "update memories",
        "update anchors",
        "update queries",
    )
    assert scope(State(data="wine")).outputs == ("class_0", "class_1", "class_2")
    assert scope(replace(State(), sublayer=0)).heads == ()


def test_logarithmic_controls_have_logarithmic_ends():
    assert limits("ridge") == (-6.0, 3.0)
    assert limits("steps") == (1, 60)
