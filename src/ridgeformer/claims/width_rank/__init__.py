"""Claims about width and rank: the width-rank note, and section 2 of the theoretical analysis."""

from ridgeformer.claims.width_rank.w1_tail import W1
from ridgeformer.claims.width_rank.w2_resolvent import W2
from ridgeformer.claims.width_rank.w3_prediction import W3
from ridgeformer.claims.width_rank.w4_effective_dimension import W4
from ridgeformer.claims.width_rank.w5_tail_mass import W5
from ridgeformer.claims.width_rank.w6_softmax import W6
from ridgeformer.claims.width_rank.w7_overhead import W7
from ridgeformer.claims.width_rank.w8_scope import W8
from ridgeformer.claims.width_rank.w9_relative_error import W9
from ridgeformer.claims.width_rank.w10_sketch_bias import W10

__all__ = ["CLAIMS"]

CLAIMS = (W1, W2, W3, W4, W5, W6, W7, W8, W9, W10)
