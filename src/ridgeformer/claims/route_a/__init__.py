"""Claims about softmax attention, route A (section 1 of the theoretical analysis, and the softmax-route note)."""

from ridgeformer.claims.route_a.a1_one_head import A1
from ridgeformer.claims.route_a.a2_aggregator import A2
from ridgeformer.claims.route_a.a3_neumann import A3
from ridgeformer.claims.route_a.a4_nadaraya_watson import A4
from ridgeformer.claims.route_a.a5_depth import A5
from ridgeformer.claims.route_a.a6_vanilla import A6
from ridgeformer.claims.route_a.a7_leakage import A7
from ridgeformer.claims.route_a.a8_float32 import A8
from ridgeformer.claims.route_a.a9_causal_mask import A9

__all__ = ["CLAIMS"]

CLAIMS = (A1, A2, A3, A4, A5, A6, A7, A8, A9)
