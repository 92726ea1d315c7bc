"""Claims about width and rank (document 000, and section 2 of 001)."""

from ridgeformer.claims.width_rank.w1_tail import W1
from ridgeformer.claims.width_rank.w2_resolvent import W2

__all__ = ["CLAIMS"]

CLAIMS = (W1, W2)
