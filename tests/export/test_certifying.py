import pytest
import torch

from ridgeformer import certify
from ridgeformer.compiler import certificate
from ridgeformer.export import to_hf
from tests.export.exported_models import compiled, exported, task


@pytest.mark.parametrize(
    ("target", "route", "steps", "dtype"), [("t5", "cg", 8, "float64"), ("llama", "cg", 2, "float32")]
)
def test_the_proof_is_about_the_stock_class(target, route, steps, dtype):
    export, given = exported(target, route, steps, dtype), task(dtype=getattr(torch, dtype))
    found, ours = export.certify(*given), certify(compiled(route, steps, dtype), *given)
    assert found.within == pytest.approx(ours.within, rel=0.05, abs=1e-7)
    assert found.accurate == ours.accurate == (steps == 8)
    X, y, Xq = (part.double() for part in given)
    K, k = (torch.exp(rows @ X.T / 0.5) for rows in (X, Xq))
    exact = k @ torch.linalg.solve(K + 0.1 * torch.eye(len(X), dtype=X.dtype), y)
    distance = (torch.stack(export(*given))[0, :, 0].double() - exact).abs()
    assert bool((distance <= torch.from_numpy(found.proved[0, :, 0]) * (1 + 1e-9)).all())  # the solve above rounds too
    assert found["leakage"].holds
    assert found["weights"].holds
    assert isinstance(found, certificate.Certificate)


def test_an_edited_class_is_found_out_and_its_own_distance_is_proved():
    export = to_hf(compiled("vanilla", 50), "albert")
    sound = export.certify(*task(), tolerance=10.0)
    layer = export.model.encoder.albert_layer_groups[0].albert_layers[0]
    layer.attention.dense.weight.mul_(1.25)
    edited = export.certify(*task(), tolerance=10.0)
    assert sound["weights"].holds
    assert not edited["weights"].holds
    assert edited.within != sound.within
    [answer] = export(*task())
    assert torch.equal(torch.from_numpy(edited.predictions[0]), answer)
