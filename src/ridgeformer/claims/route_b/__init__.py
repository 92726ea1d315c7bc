"""Claims about linear attention and conjugate gradients, route B (section 3 of the theoretical analysis)."""

from ridgeformer.claims.route_b.b1_block import B1
from ridgeformer.claims.route_b.b2_rate import B2
from ridgeformer.claims.route_b.b3_inexact import B3
from ridgeformer.claims.route_b.b4_preconditioning import B4
from ridgeformer.claims.route_b.b5_aggregator_scalars import B5
from ridgeformer.claims.route_b.b6_subspaces import B6

__all__ = ["CLAIMS"]

CLAIMS = (B1, B2, B3, B4, B5, B6)
