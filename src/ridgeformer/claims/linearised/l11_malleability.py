"""L11: attention is two to nine times more malleable than ReLU."""

from __future__ import annotations

from ridgeformer.claims.claim import Claim, Evidence, Verdict


def check(cases: int) -> Evidence:
    """Refuse: what the claim needs is not there yet."""
    raise NotImplementedError(L11.pending)


L11 = Claim(
    id="L11",
    source="linearized-attention study, abstract and tables of flip rates",
    title="Attention is two to nine times more malleable than ReLU",
    stated="Attacked training points change the sign of their influence two to nine times as often under linearised "
    "attention as in a ReLU network.",
    formula=r"2 \le \mathrm{flips}_{att}/\mathrm{flips}_{relu} \le 9",
    verdict=Verdict.PENDING,
    check=check,
    pending="It needs attacks on training points and influences of trained networks, with controls and intervals over "
    "seeds.",
)
