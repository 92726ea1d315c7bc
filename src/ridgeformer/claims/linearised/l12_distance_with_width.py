"""L12: the distance to the tangent kernel rises with width under attention."""

from __future__ import annotations

from ridgeformer.claims.claim import Claim, Evidence, Verdict


def check(cases: int) -> Evidence:
    """Refuse: what the claim needs is not there yet."""
    raise NotImplementedError(L12.pending)


L12 = Claim(
    id="L12",
    source="linearized-attention study, tables of the NTK distance",
    title="The distance to the tangent kernel rises with width under attention",
    stated="The outputs of a trained network and of its kernel predictor draw nearer with width for ReLU and part "
    "for linearised attention.",
    formula=r"\|f_m - f_{NTK}\| \;\text{rises with } m",
    verdict=Verdict.PENDING,
    check=check,
    pending="It needs networks trained at widths up to 1e6 and kernels at initialisation up to 1e9.",
)
