import torch

from ridgeformer.circuits import family, make


def test_a_family_has_sixty_circuits_half_of_them_hidden():
    recipes = family(7)
    assert len({recipe.name for recipe in recipes}) == len(recipes) == 64
    assert sum(recipe.hidden for recipe in recipes) == 32
    for field, least in (("kernel", 2), ("algorithm", 5), ("steps", 5), ("features", 3), ("carried", 2), ("idle", 3)):
        assert len({getattr(recipe, field) for recipe in recipes}) >= least
    assert len({recipe.seed for recipe in recipes}) == 64
    assert family(7) == recipes != family(8)


def test_a_recipe_always_makes_the_same_model():
    recipe = next(recipe for recipe in family() if recipe.name == "exponential-vanilla-2-sketched-hidden")
    first, second = (make(recipe) for _ in range(2))
    weights = second.export.model.state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in first.export.model.state_dict().items())
    assert first.facts() == second.facts()
    assert torch.equal(first.embeds(3, 4), second.embeds(3, 4))
    assert first.tokens["support"].sum() == 8
