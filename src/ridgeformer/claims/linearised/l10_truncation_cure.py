"""L10: truncated attention restores convergence."""

from __future__ import annotations

from ridgeformer.claims.claim import Claim, Evidence, Verdict


def check(cases: int) -> Evidence:
    """Refuse: what the claim needs is not there yet."""
    raise NotImplementedError(L10.pending)


L10 = Claim(
    id="L10",
    source="linearized-attention study, extensions",
    title="Truncated attention restores convergence",
    stated="Keeping only the top r directions of the attention matrix lowers the condition number and brings the "
    "kernel regime back.",
    formula=r"m = \Omega(\kappa_r(G)^6\, n \log n), \quad r \ll d",
    verdict=Verdict.PENDING,
    check=check,
    pending="It needs trained networks of many widths on truncated attention features, which the kernel-regime study "
    "measures.",
)
