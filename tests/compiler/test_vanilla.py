"""The vanilla attention is a stock transformer: its weights run in torch's own attention, with nothing in between."""

import math

import pytest
import torch

import ridgeformer as rf
from ridgeformer.kernels import Exponential
from ridgeformer.language.roles import QUERY
from tests.compiler.tasks import model, relative, task


def stock_attention(net, heads=3):
    """Our weights in torch.nn.MultiheadAttention: zero columns pad the stream to a width it can split."""
    layer = net.steps[0][0]
    size = max(weight.shape[1] for weight in (*layer.W_Q, *layer.W_V))
    size = max(size, math.ceil(net.layout.width / heads))
    wide = heads * size
    attention = torch.nn.MultiheadAttention(wide, heads, bias=False, batch_first=True, dtype=torch.float64)

    def rows(weights, scale=1.0):
        stacked = torch.zeros(wide, wide, dtype=torch.float64)
        for h, W in enumerate(weights):
            stacked[h * size : h * size + W.shape[1], : W.shape[0]] = scale * W.T
        return stacked

    out = torch.zeros(wide, wide, dtype=torch.float64)
    for h, W in enumerate(layer.W_O):
        out[: W.shape[1], h * size : h * size + W.shape[0]] = W.T
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([rows(layer.W_Q, math.sqrt(size)), rows(layer.W_K), rows(layer.W_V)]))
        attention.out_proj.weight.copy_(out)
    return attention, wide


@pytest.mark.parametrize("outputs", [1, 2])
def test_its_weights_in_torchs_own_attention_give_the_same_result(outputs):
    X, y, Xq = task(k=9, q=3, outputs=outputs)
    net = model("vanilla", steps=40, outputs=outputs)
    attention, wide = stock_attention(net)
    tokens = net.tokens(9, 3)
    blocked = ~torch.stack([mask.matrix(tokens) for mask in net.steps[0][0].masks])
    stream = torch.zeros(1, tokens.total, wide, dtype=torch.float64)
    stream[0, :, : net.layout.width] = net.stream(X, y, Xq)
    with torch.no_grad():
        for _ in range(40):
            stream = stream + attention(stream, stream, stream, attn_mask=blocked, need_weights=False)[0]
    prediction = stream[0, tokens.rows(QUERY)][:, list(net.layout.columns["f"])]
    torch.testing.assert_close(prediction, net(X, y, Xq), rtol=1e-11, atol=1e-12)


def test_it_is_the_ridge_solution_in_the_end():
    X, y, Xq = task(k=9, q=3)
    expected = rf.solve(Exponential(0.5), X, y, 0.3).predict(Xq)
    assert relative(model("vanilla", steps=5000)(X, y, Xq), expected) < 1e-9


def test_the_rate_of_claim_a6_holds_at_every_step():
    """The D-norm of the error contracts by at most 1 - ridge / (e^c + Z_max), D = diag(Z + e^c)."""
    X, y, Xq = task(k=12)
    for sink in (math.log(0.3), 0.0, 2.0):
        net = model("vanilla", steps=60, sink=sink)
        K = Exponential(0.5)(X)
        exact = torch.linalg.solve(K + 0.3 * torch.eye(12, dtype=torch.float64), y)
        D = K.sum(1) + math.exp(sink)
        errors = [((a - exact).square() * D[:, None]).sum().sqrt() for a in net.trace(X, y, Xq).alpha]
        first = (exact.square() * D[:, None]).sum().sqrt()
        rate = 1 - 0.3 / float(D.max())
        for step, error in enumerate(errors, start=1):
            assert float(error) <= rate**step * float(first) * (1 + 1e-9)


def test_a_sink_below_log_ridge_is_refused():
    with pytest.raises(rf.errors.InputError, match="e\\^sink >= ridge"):
        model("vanilla", sink=-5.0)
