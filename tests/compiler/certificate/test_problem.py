import torch

from ridgeformer.compiler.certificate.evidence import gather
from tests.compiler.certificate.certified_tasks import build, draw


def test_the_scaled_system_has_the_textbook_predictions():
    X, y, Xq = draw()
    for sink in (0.0, 2.0):
        (evidence,) = gather(build("softmax", "cg", X, sink=sink, steps=40), X, y, Xq)
        K, k = (X @ X.T).exp(), (Xq @ X.T).exp()
        exact = k @ torch.linalg.solve(K + 0.5 * torch.eye(len(X), dtype=torch.float64), y)
        torch.testing.assert_close(evidence.problem.f, exact)
        torch.testing.assert_close(evidence.alpha[-1], evidence.problem.alpha, rtol=1e-7, atol=1e-9)


def test_float32_models_are_judged_on_the_data_as_given():
    X, y, Xq = draw()
    (evidence,) = gather(build("linear", "cg", X, dtype="float32"), X, y, Xq)
    assert torch.equal(evidence.rows, X)
    assert evidence.problem.f.dtype == torch.float64
    assert evidence.eps > 1e-8
