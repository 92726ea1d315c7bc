"""The state and its address: what is written is what is read, and nothing else is taken."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.core.errors import InputError
from ridgeformer.views.explorer.state import ALGORITHMS, ATTENTIONS, DRAWN, LIMITS, MOST_ROWS, SOURCES, State

coordinates = st.integers(-9999, 9999).map(lambda n: n / 1000)


@st.composite
def settings_of_a_state(draw):
    kernel = draw(st.sampled_from(list(ATTENTIONS)))
    attention = draw(st.sampled_from(ATTENTIONS[kernel]))
    whole = {
        name: draw(st.integers(int(low), int(high)))
        for name, (low, high) in LIMITS.items()
        if name not in ("ridge", "temperature", "width", "point")
    }
    return dict(
        data=draw(st.sampled_from([*SOURCES, "upload-0123456789abcdef"])),
        kernel=kernel,
        attention=attention,
        algorithm=draw(st.sampled_from(ALGORITHMS[attention])),
        ridge=float(f"{draw(st.floats(*LIMITS['ridge'])):.3g}"),
        temperature=float(f"{draw(st.floats(*LIMITS['temperature'])):.3g}"),
        width=draw(st.none() | st.integers(1, 100)),
        point=draw(st.none() | st.integers(0, 199)),
        points=tuple(draw(st.lists(st.tuples(coordinates, coordinates), max_size=5))),
        **whole,
    )


@given(settings_of_a_state())
def test_an_address_gives_back_the_state_it_was_made_of(settings):
    state = State(**settings)
    assert State.parse(state.address) == state
    assert State.parse("?" + state.address) == state


def test_the_plain_state_needs_no_address():
    assert State().address == ""
    assert State.parse("") == State.parse("?") == State()


def test_every_part_of_a_state_can_be_in_an_address():
    from ridgeformer.views.explorer.state import READERS

    assert set(READERS) == {field.name for field in fields(State)}


def test_a_route_without_a_solver_takes_its_first():
    assert State.parse("attention=vanilla").algorithm == "richardson"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("colour=red", "unknown setting in the address: 'colour'"),
        ("steps=3&steps=4", "twice"),
        ("steps=many", "a finite number was expected"),
        ("steps=2.5", "whole number"),
        ("steps=1e999", "finite"),
        ("ridge=nan", "finite"),
        ("steps=0", "from 1 to 60"),
        ("ridge=-1", "from 1e-06"),
        ("rows=100000", f"to {MOST_ROWS}"),
        ("data=titanic", "unknown data 'titanic'"),
        ("data=upload-../../etc/passwd", "unknown data"),
        ("attention=quantum", "unknown attention"),
        ("sketch=x", "unknown sketch"),
        ("attention=vanilla&algorithm=cg", "has no algorithm 'cg'"),
        ("data=drawn&points=1;2", "x,y was expected"),
        ("data=drawn&points=1,99", "outside"),
        ("data=drawn&points=" + "0,0;" * (MOST_ROWS + 1), "201 drawn points"),
        ("data=<script>", "unknown data"),
    ],
)
def test_a_bad_address_is_refused_with_a_sentence(address, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        State.parse(address)


def test_what_is_looked_at_is_not_part_of_the_problem():
    assert State(sublayer=9, head=1, point=3, steps=5).problem == State(steps=5)
    assert State(data=DRAWN, points=((0.0, 1.0),)).problem.points == ((0.0, 1.0),)


def test_kept_settings_are_part_of_the_address():
    state = State(steps=9, against=State(ridge=0.01, data="wine").address)
    assert State.parse(state.address) == state
    assert state.kept == State(ridge=0.01, data="wine")
    assert state.problem == State(steps=9)
    assert State.parse("against=").kept == State()
    assert State().kept is None
    with pytest.raises(InputError, match="keep others in turn"):
        State(against="against=steps%3D3")
    with pytest.raises(InputError, match="colour"):
        State(against="colour=red")
