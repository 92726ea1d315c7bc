import pytest
import torch

from ridgeformer.compiler.layout import arrange, lives
from ridgeformer.language.program import Attend, Gate
from tests.compiler.tasks import MODELS, model, task


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_sharing_changes_the_width_and_nothing_else(name, outputs):
    X, y, Xq = task(outputs=outputs)
    shared, plain = (model(name, outputs=outputs, share_channels=share) for share in (True, False))
    assert torch.equal(shared(X, y, Xq), plain(X, y, Xq))
    assert shared.budget.width <= plain.budget.width


@pytest.mark.parametrize("name", MODELS)
def test_channels_that_share_columns_never_live_at_the_same_time(name):
    net = model(name)
    alive = lives(net.program)
    for first, left in net.layout.columns.items():
        for second, right in net.layout.columns.items():
            if first != second and set(left) & set(right):
                assert alive[first] is not None
                assert alive[second] is not None
                assert not alive[first].held & alive[second].held


@pytest.mark.parametrize(
    ("name", "most"), [("linear cg", 11), ("linear pcg", 11), ("softmax cg", 12), ("softmax cg, aggregator", 12)]
)
@pytest.mark.parametrize("features", [1, 5, 64])
@pytest.mark.parametrize("steps", [1, 40])
def test_overhead_does_not_depend_on_features_or_depth(name, most, features, steps):
    """Claim W7: width p + c, with c at most 11 (linear) and 12 (softmax)."""
    budget = model(name, features=features, steps=steps).budget
    assert budget.overhead == model(name, features=2, steps=3).budget.overhead <= most
    assert budget.width == features + budget.overhead


@pytest.mark.parametrize("name", MODELS)
def test_cleared_channels_hold_exact_zeros(name):
    """Rule 1 of the construction: storage that is used again must start from 0.0 on every token."""
    X, y, Xq = task(outputs=2)
    net = model(name, outputs=2)
    seen = []
    places = {f"{section}.{i.name}": i for section, i, _ in net.schedule if isinstance(i, Attend | Gate)}

    def look(place, sublayer, before, after):
        instruction = places[place]
        for channel in set(instruction.clear) - instruction.writes:
            seen.append(channel)
            assert bool((after[..., list(net.layout.columns[channel])] == 0).all()), (place, channel)

    net.run_with_hook(look, X, y, Xq)
    assert seen or not any(i.clear for i in places.values())


def test_the_order_of_positions_is_the_timeline():
    net = model("softmax cg")
    layout = arrange(net.program, 3, 1, share=True)
    assert layout.used == layout.width == 3 + layout.overhead
