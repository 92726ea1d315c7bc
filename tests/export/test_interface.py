"""What the interface says of an export is so: directions, lives, layers, records and the circuit."""

import pytest
import torch

from ridgeformer.export import to_hf
from tests.export.exported_models import compiled, exported, task

CASES = [("t5", "cg", 2, None), ("t5", "vanilla", 5, None), ("bert", "vanilla", 5, 1), ("lens", "vanilla", 5, 2)]


@pytest.mark.parametrize(("target", "route", "steps", "rotate"), CASES)
def test_the_trace_of_the_stock_class_is_ours(target, route, steps, rotate):
    export = exported(target, route, steps, rotate=rotate)
    theirs, ours = export.io.trace(export.hidden_states(*task())), compiled(route, steps).trace(*task())
    assert theirs.values.keys() == ours.values.keys()
    for name, value in ours.values.items():
        torch.testing.assert_close(theirs.values[name][:, 0], value, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("target", "route", "steps", "rotate"), CASES)
def test_directions_read_what_they_write(target, route, steps, rotate):
    directions = exported(target, route, steps, rotate=rotate).io.directions
    names = list(directions)
    read, write = torch.cat([directions[n].read for n in names], 1), torch.cat([directions[n].write for n in names])
    torch.testing.assert_close(write @ read, torch.eye(len(write), dtype=torch.float64), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("target", "route", "steps", "rotate"), CASES[:2])
def test_a_channel_is_zero_outside_its_life(target, route, steps, rotate):
    export = exported(target, route, steps, rotate=rotate)
    states = export.hidden_states(*task())
    for name, direction in export.io.directions.items():
        held = {state for life in direction.life for state in life}
        filled = {n for n, state in enumerate(states) if export.io.channel(name, state).any()}
        assert filled <= held, name
    assert sum(len(life) for life in export.io.directions["alpha"].life) < len(states)


def test_patching_a_channel_moves_the_prediction_as_the_algorithm_says():
    """Coefficients doubled after the last step of vanilla Richardson leave the prediction, before it they move it."""
    export = exported("lens", "vanilla", 5)
    io, model = export.io, export.model
    embeds = io.inputs(*task())["inputs_embeds"]
    alpha = io.directions["alpha"]

    def double(value, hook):
        return value + value @ alpha.read @ alpha.write

    before = io.predictions(model(embeds))[0]
    at_the_end = model.run_with_hooks(embeds, fwd_hooks=[("blocks.4.hook_resid_post", double)])
    assert torch.equal(io.predictions(at_the_end)[0], before)
    earlier = io.predictions(model.run_with_hooks(embeds, fwd_hooks=[("blocks.3.hook_resid_post", double)]))[0]
    states = compiled("vanilla", 5)
    X, y, Xq = task()
    K, k = (torch.exp(rows @ X.T / 0.5) for rows in (X, Xq))
    trace = states.trace(X, y, Xq)
    moved = (
        0.1 * (k @ trace.alpha[3]) / (k.sum(1, keepdim=True) + 0.1)
    )  # e^c = ridge: f moves by e^c k'alpha / (Z + e^c)
    assert K.shape == (12, 12)
    torch.testing.assert_close(earlier - before, moved, rtol=1e-9, atol=1e-12)


def test_ablating_a_head_in_transformer_lens_equals_ablated():
    export, model = exported("lens", "cg", 2), compiled("cg", 2)
    io, (X, y, Xq) = export.io, task()
    with model.ablated("mean"):
        expected = model(X, y, Xq)
    hooks = []
    for node in io.circuit.nodes:
        if node.role.endswith(": mean"):
            head = int(node.name.partition(".H")[2])

            def silence(value, hook, head=head):
                value = value.clone()
                value[:, :, head] = 0.0
                return value

            hooks.append((f"blocks.{node.layer}.attn.hook_z", silence))
    found = export.model.run_with_hooks(io.inputs(X, y, Xq)["inputs_embeds"], fwd_hooks=hooks)
    assert len(hooks) == 5  # one before the first step, two a step
    torch.testing.assert_close(io.predictions(found)[0][:, 0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("route", "steps"), [("cg", 2), ("vanilla", 3)])
def test_the_circuit_has_every_head_and_unit_and_only_edges_along_channels(route, steps):
    export, model = exported("t5", route, steps), compiled(route, steps)
    circuit = export.io.circuit
    heads = sum(len(sublayer.heads) for _, _, sublayer in model.sublayers if hasattr(sublayer, "heads"))
    assert sum(".H" in node.name for node in circuit.nodes) == heads
    units = sum(len(node.units) for node in circuit.nodes)
    assert units == sum(len(sublayer.gates) for _, _, sublayer in model.sublayers if hasattr(sublayer, "gates"))
    assert len({node.name for node in circuit.nodes}) == len(circuit.nodes)
    order = {node.name: place for place, node in enumerate(circuit.nodes)}
    for edge in circuit.edges:
        source, target = circuit.node(edge.source), circuit.node(edge.target)
        assert edge.channel in source.writes
        assert edge.channel in target.reads
        assert order[edge.source] < order[edge.target]
    reached = {"input"}
    for edge in circuit.edges:
        if edge.source in reached:
            reached.add(edge.target)
    assert "output" in reached


def test_silencing_a_head_moves_the_answer_if_the_circuit_leads_from_it_to_the_output():
    """Towards the end the heads of memories and anchors write what nobody reads any more; before, they matter."""
    export = to_hf(compiled("vanilla", 3), "bert")
    circuit = export.io.circuit
    useful = {"output"}
    for edge in reversed(circuit.edges):
        if edge.target in useful:
            useful.add(edge.source)
    [before] = export(*task())
    size = export.model.config.hidden_size // export.model.config.num_attention_heads
    heads = [node for node in circuit.nodes if ".H" in node.name]
    assert {node.name for node in heads} - useful == {"L1.H1", "L2.H0", "L2.H1"}
    for node in heads:
        if node.name == "L0.H2":
            continue  # it leads there, but answers with coefficients that are still zero
        head = int(node.name.partition(".H")[2])
        dense = export.model.encoder.layer[node.layer].attention.output.dense.weight
        kept = dense.clone()
        dense[:, head * size : (head + 1) * size] = 0.0
        moved = float((export(*task())[0] - before).abs().max())
        assert (moved > 1e-6) == (node.name in useful), node
        dense.copy_(kept)
