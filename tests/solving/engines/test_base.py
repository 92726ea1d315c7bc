import torch

from ridgeformer.kernels import Exponential
from ridgeformer.solving.engines import Engine
from tests.solving.engines.engine_case import close, columns, rows


class Plain(Engine):
    """The least an engine must bring."""

    name = "plain"

    def __init__(self, kernel, X):
        self.kernel, self.K = kernel, kernel(X)
        self.n, self.dtype, self.device = len(X), torch.float64, X.device

    def matmat(self, V):
        return self.K @ V

    def matmat64(self, V):
        return self.K @ V.double()

    def columns(self, index):
        return self.K[:, index]

    def diagonal(self):
        return self.K.diagonal()


def test_what_is_not_brought_follows_from_what_is():
    X, V = rows(), columns()
    engine = Plain(Exponential(1.0), X)
    rows_, some = torch.tensor([1, 2]), torch.tensor([0, 5, 9])
    assert torch.equal(engine.block(rows_, some), engine.K[rows_][:, some])
    assert close(engine.accurate(V), engine.K @ V, torch.float64)
