"""What every kernel must satisfy, with the dense matrix from a naive double loop as the oracle."""

from abc import ABC, abstractmethod

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel, base


class KernelCase(ABC):
    """Inherit, give the kernel and its formula for two rows in plain Python; the tests come along."""

    d = 5
    consistency = 1e-13
    float32_error = 3e-6

    @abstractmethod
    def kernel(self) -> Kernel: ...

    @abstractmethod
    def formula(self, x: np.ndarray, z: np.ndarray) -> float: ...

    def rows(self, n: int, purpose: str = "rows", dtype=torch.float64) -> torch.Tensor:
        generator = torch_generator(7, type(self).__name__, purpose)
        return torch.randn(n, self.d, generator=generator, dtype=torch.float64).to(dtype)

    def oracle(self, X, Z):
        values = [[self.formula(x, z) for z in Z.double().numpy()] for x in X.double().numpy()]
        return torch.tensor(values, dtype=torch.float64)

    def test_dense_is_the_formula(self):
        X, Z = self.rows(9), self.rows(6, "others")
        torch.testing.assert_close(self.kernel()(X, Z), self.oracle(X, Z), rtol=1e-12, atol=1e-12)

    def test_a_prepared_kernel_has_the_same_values(self):
        X = self.rows(9)
        X[:, 2] = 0.0
        kernel, rows = self.kernel().prepared(X)
        assert rows.shape[1] <= X.shape[1]
        torch.testing.assert_close(kernel.dense(rows, rows), self.oracle(X, X), rtol=1e-12, atol=1e-12)

    def test_an_unchecked_kernel_has_the_same_values(self):
        X = self.rows(9)
        torch.testing.assert_close(self.kernel().unchecked(X).dense(X, X), self.oracle(X, X), rtol=1e-12, atol=1e-12)

    def test_gram_matrix_is_the_formula_symmetric_and_semidefinite(self):
        X = self.rows(12)
        X[5] = X[2]  # duplicate rows must not disturb it
        K = self.kernel()(X)
        torch.testing.assert_close(K, self.oracle(X, X), rtol=1e-12, atol=3e-8 if self.name_is_relu() else 1e-12)
        torch.testing.assert_close(K, K.T, rtol=1e-14, atol=1e-14 * float(K.abs().max()))
        assert torch.linalg.eigvalsh(K)[0] > -1e-12 * float(K.trace())

    def name_is_relu(self) -> bool:
        return self.kernel().name == "relu_ntk"

    def test_diagonal(self):
        X = self.rows(200)
        torch.testing.assert_close(self.kernel().diag(X), self.kernel()(X).diagonal(), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("columns", [None, 1, 4])
    def test_matvec_by_blocks_is_the_dense_product(self, columns, monkeypatch):
        monkeypatch.setattr(base, "BLOCK_ENTRIES", 40)
        X, Z = self.rows(23), self.rows(17, "others")
        V = torch.randn(17, *([columns] if columns else []), generator=torch_generator(1, "V"), dtype=torch.float64)
        expected = self.kernel()(X, Z) @ V
        scale = float(expected.abs().max())
        torch.testing.assert_close(
            self.kernel().matvec(X, Z, V), expected, rtol=self.consistency, atol=self.consistency * scale
        )

    def test_matvec_never_holds_more_than_a_block(self, monkeypatch):
        monkeypatch.setattr(base, "BLOCK_ENTRIES", 60)
        kernel, seen = self.kernel(), []
        dense = type(kernel).dense

        def watched(self, X, Z):
            seen.append(X.shape[0] * Z.shape[0])
            return dense(self, X, Z)

        monkeypatch.setattr(type(kernel), "dense", watched)
        kernel.matvec(self.rows(40), self.rows(20, "others"), torch.ones(20, dtype=torch.float64))
        assert max(seen, default=0) <= 60
        assert isinstance(kernel, base.FeatureKernel) or sum(seen) == 800

    def test_gradients_are_exact(self):
        X, Z = self.rows(4).requires_grad_(), self.rows(3, "others").requires_grad_()
        kernel = self.kernel()
        assert gradcheck(lambda X, Z: kernel(X, Z), (X, Z))
        assert gradcheck(lambda X: kernel(X), (X,))
        assert gradcheck(kernel.diag, (X,))

    def test_gradients_of_the_blocked_product_are_exact(self, monkeypatch):
        monkeypatch.setattr(base, "BLOCK_ENTRIES", 6)
        X, Z = self.rows(4).requires_grad_(), self.rows(3, "others").requires_grad_()
        V = torch.randn(3, 2, generator=torch_generator(1, "V"), dtype=torch.float64).requires_grad_()
        kernel = self.kernel()
        assert gradcheck(lambda *inputs: kernel.matvec(*inputs), (X, Z, V))

    def test_float32_in_float32_out(self):
        X = self.rows(15, dtype=torch.float32)
        kernel = self.kernel()
        K32, K64 = kernel(X), kernel(X.double())
        assert K32.dtype == kernel.diag(X).dtype == kernel.matvec(X, X, X).dtype == torch.float32
        assert float((K32.double() - K64).norm() / K64.norm()) < self.float32_error

    def test_entry_error_covers_the_rounding_of_float32(self):
        X = self.rows(15, dtype=torch.float32)
        kernel = self.kernel()
        w = kernel.entry_error(X).double()
        error = (kernel(X).double() - kernel(X.double())).abs()
        assert bool((error <= w[:, None] * w[None, :]).all())
        assert bool(torch.isfinite(w).all())

    def test_integers_and_lists_become_floats(self):
        K = self.kernel()(np.eye(self.d, dtype=int).tolist())
        assert K.dtype == torch.float64

    def test_shapes_that_do_not_fit(self):
        kernel, X = self.kernel(), self.rows(4)
        with pytest.raises(errors.ShapeError, match="features"):
            kernel(X, X[:, :2])
        with pytest.raises(errors.ShapeError, match="one entry per row of Z"):
            kernel.matvec(X, X, torch.ones(3))
