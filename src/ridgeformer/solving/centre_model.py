"""What is left of a fit on centres when its rows are gone, or were never here."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_query
from ridgeformer.core.errors import InputError
from ridgeformer.kernels import Kernel
from ridgeformer.solving.fit import Fit
from ridgeformer.solving.run import Status

__all__ = ["CentreModel"]


@dataclass(frozen=True, eq=False)
class CentreModel:
    """f(x) = k(x, Z) b, coefficients b on centres Z.

    Attributes:
        kernel, ridge: what was solved.
        Z: the centres, (m, d) in float64.
        b: their coefficients, (m, outputs) in float64.
        rows: how many rows were fitted.
        status, advice, steps: how the fit ended, as of a `Fit`.
        left_out: per output, the root mean square leave-one-out error at sampled rows.
        vector: whether the targets were a vector.
    """

    kernel: Kernel
    Z: Float[Tensor, "m d"] = field(repr=False)
    b: Float[Tensor, "m r"] = field(repr=False)
    ridge: float
    rows: int
    status: Status
    advice: str
    steps: int
    left_out: Tensor
    vector: bool = True

    @classmethod
    def of(cls, fit: Fit) -> CentreModel:
        """Return the model of a fit on centres.

        Raises:
            InputError: the fit is none.

        Example:
            >>> import torch
            >>> from ridgeformer import Centres, Gaussian, solve
            >>> X = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
            >>> fit = solve(Gaussian(0.1), X, X[:, 0].sin(), 0.01, algorithm=Centres(count=10))
            >>> torch.allclose(CentreModel.of(fit).predict(X), fit.predict(X))
            True
        """
        if fit.centres is None:
            raise InputError(f"this fit by {fit.algorithm.name!r} has no centres: solve with algorithm='nystrom'.")
        b = fit.alpha.reshape(len(fit.X), -1)[fit.centres]
        left_out = (
            fit.doublings[-1].left_out if fit.left_out_sample is None else fit.left_out_sample.square().mean(0).sqrt()
        )
        return cls(
            fit.kernel, fit.X[fit.centres].double(), b.double(), fit.ridge, len(fit.X), fit.status, fit.advice,
            fit.steps, left_out, fit.alpha.ndim == 1,
        )  # fmt: skip

    def predict(self, Xq: ArrayLike) -> Tensor:
        """Return f(x) for every query row, (q,) or (q, outputs) like the targets, in float64."""
        Xq = as_query(Xq, self.Z)
        found = self.kernel.product(Xq, self.Z, self.b)
        return found[:, 0] if self.vector else found
