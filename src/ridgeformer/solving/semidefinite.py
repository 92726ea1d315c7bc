"""Evidence that a kernel is, or is not, positive semidefinite on the rows at hand."""

from __future__ import annotations

import torch

from ridgeformer.core.errors import NotPositiveSemidefiniteError
from ridgeformer.solving.system import RidgeSystem

__all__ = ["refuse_negative", "require_semidefinite"]

TESTED_ROWS = 4000
"""Up to so many rows a kernel that theory does not vouch for is tested by a factorisation."""


def require_semidefinite(system: RidgeSystem) -> None:
    """Test a kernel that theory does not vouch for: symmetric, and with a Cholesky factor once round-off is added.

    Decisive up to `TESTED_ROWS` rows. Above, a negative eigenvalue is reported only if a solver meets it.

    Raises:
        NotPositiveSemidefiniteError: with the evidence.
    """
    if system.kernel.semidefinite or system.n > TESTED_ROWS:
        return
    K, slack = system.kernel.dense(system.X, system.X), system.kernel_roundoff
    if not bool(torch.isfinite(K).all()):
        raise NotPositiveSemidefiniteError(
            f"the kernel {system.kernel.name!r} has entries on X that are not finite: scale the rows, or mend it."
        )
    gap = float((K - K.T).abs().max())
    if not gap <= slack + 1e3 * torch.finfo(K.dtype).eps * float(K.abs().max()):
        raise NotPositiveSemidefiniteError(
            f"the kernel {system.kernel.name!r} is not symmetric: k(x, z) and k(z, x) differ by {gap:.3g}."
        )
    _, info = torch.linalg.cholesky_ex(K + 2 * slack * torch.eye(system.n, dtype=K.dtype, device=K.device))
    if int(info) != 0:
        refuse_negative(float(torch.linalg.eigvalsh(K)[0]), system)


def refuse_negative(rayleigh: float, system: RidgeSystem) -> None:
    """Raise if a Rayleigh quotient of K, computed from K + ridge I, is negative by more than round-off can explain.

    A kernel that is semidefinite by theory is never refused: only round-off can make it look otherwise.
    """
    if not system.kernel.semidefinite and rayleigh < -system.spectrum_roundoff:
        raise NotPositiveSemidefiniteError(
            f"the kernel {system.kernel.name!r} is not positive semidefinite: some v has v'Kv = {rayleigh:.3g} |v|^2, "
            f"and round-off explains only {system.spectrum_roundoff:.1g}. Use a positive semidefinite kernel; "
            "a larger ridge would hide the fault, not mend it."
        )
