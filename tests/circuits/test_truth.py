"""The ground truth is what interventions find: everything it says of nodes and edges is tried on the model itself."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from ridgeformer.circuits import CircuitAnswer, PatchedRuns, family, make, score
from ridgeformer.circuits.truth import OUTPUT

BY_NAME = {recipe.name: recipe for recipe in family()}
SMALL = ["exponential-vanilla-4", "gaussian-vanilla-4-sketched-hidden", "gaussian-richardson-1-sketched-padded"]
HIDDEN = ["gaussian-richardson-1-sketched-padded-hidden"]
LARGE = ["exponential-cg-1", "gaussian-cg-2-hidden", "exponential-nesterov-3-hidden", "gaussian-chebyshev-3"]


@cache
def made(name):
    return make(BY_NAME[name])


def moved(known, tasks=((0, 1), (2, 3))):
    """Return how far predictions move when each node says what it says on other data, and when it says nothing."""
    nodes, silenced, edges = (
        dict.fromkeys(part, 0.0) for part in (known.truth.nodes, known.truth.nodes, known.truth.edges)
    )
    for pair in tasks:
        shown = PatchedRuns(known, *pair)
        for node, found in shown.replaced().items():
            nodes[node] = max(nodes[node], shown.moved(found))
        for node, found in shown.replaced(by_zero=True).items():
            silenced[node] = max(silenced[node], shown.moved(found))
        for target in (*known.truth.nodes, OUTPUT):
            for source, found in shown.rerouted(target).items():
                edges[source, target] = max(edges[source, target], shown.moved(found))
    return nodes, silenced, edges


def holds(name):
    known = made(name)
    nodes, silenced, edges = moved(known, ((0, 1),))
    still = 1e-11 if known.recipe.hidden else 1e-12  # a rotated stream rounds
    for node, verdict in known.truth.nodes.items():
        if verdict is not None:
            assert (nodes[node] > 1e-7) == verdict, node
            assert (silenced[node] > 1e-7) == verdict, node
            assert verdict or max(nodes[node], silenced[node]) <= still, node
    for edge, verdict in known.truth.edges.items():
        if verdict is not None:
            assert (edges[edge] > 1e-7) == verdict, edge
            assert verdict or edges[edge] <= still, edge
    kinds = set(known.truth.edges.values())
    assert {True, False} <= kinds


@pytest.mark.parametrize("name", SMALL + HIDDEN)
def test_what_the_truth_says_is_what_interventions_find(name):
    holds(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_what_the_truth_says_of_deep_circuits_is_what_interventions_find(name):
    holds(name)


def test_a_run_that_starts_late_or_skips_silent_attention_is_the_run_of_the_library():
    known = made(HIDDEN[0])
    shown, question = PatchedRuns(known, 0, 1), known.truth.question
    assert shown._silent
    hook = (f"blocks.{question.state - 1}.hook_resid_post", lambda value, hook: 1.5 * value)
    for hooks in ([], [hook]):
        with torch.no_grad():
            whole = shown.lens.run_with_hooks(shown.embeds, fwd_hooks=hooks)[:, shown.queries, 0]
        for start in (0, question.state - 1):
            torch.testing.assert_close(shown.run(hooks, 2, start), whole.expand(2, -1), rtol=1e-11, atol=1e-11)
    exact = tuple(known.export.io.directions[question.channel].write[0].tolist())
    assert score(known, CircuitAnswer(patch=exact)).patch == pytest.approx(1.0)


def test_distractors_carry_data_and_leave_predictions_alone():
    hidden = made("gaussian-vanilla-4-sketched-hidden")
    bare = make(replace(hidden.recipe, decoys=0, rotate=None))
    for seed in (0, 1):
        [found], [expected] = hidden.export(*hidden.task(seed)), bare.export(*hidden.task(seed))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    shown = PatchedRuns(hidden, 0, 1)
    decoys = [node.name for node in hidden.export.io.circuit.nodes if "decoy" in node.role]
    real = [node for node, verdict in hidden.truth.nodes.items() if verdict]
    assert len(decoys) >= 4
    assert not any(hidden.truth.nodes[node] for node in decoys)
    activity = {node: float(shown.differences[node].norm()) for node in (*decoys, *real)}
    moving = [node for node in decoys if activity[node] > 1e-2]
    assert len(moving) >= 0.75 * len(decoys)  # the others read coefficients that are still zero, as a real head does
    assert max(activity[node] for node in decoys) > min(activity[node] for node in real)


def test_conjugate_gradients_do_not_need_alpha_to_predict():
    """The truth knows that coefficients are written and never read, and that sweeps repair themselves."""
    known = made("exponential-cg-1")
    assert known.truth.question.channel == "gamma"
    sweeps = [node.name for node in known.export.io.circuit.nodes if "sweep" in node.role]
    assert {known.truth.nodes[node] for node in sweeps} == {None}
    heads = {node.name: node.role for node in known.export.io.circuit.nodes if "mean" in node.role}
    last = max(heads, key=lambda name: int(name[1:].split(".")[0]))
    assert known.truth.nodes[last] is False


def test_every_head_has_a_verdict():
    known = made("gaussian-vanilla-4-sketched-hidden")
    names = [node.name for node in known.export.io.circuit.nodes[1:-1]]
    assert list(known.truth.nodes) == names
