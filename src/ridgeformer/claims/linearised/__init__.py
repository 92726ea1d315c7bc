"""Claims about linearised attention and its tangent kernel (the linearized-attention study)."""

from ridgeformer.claims.linearised.l1_cube import L1
from ridgeformer.claims.linearised.l2_truncation import L2
from ridgeformer.claims.linearised.l3_row_normalisation import L3
from ridgeformer.claims.linearised.l4_width import L4
from ridgeformer.claims.linearised.l5_identity import L5
from ridgeformer.claims.linearised.l6_random_heads import L6
from ridgeformer.claims.linearised.l7_sensitivity import L7
from ridgeformer.claims.linearised.l8_sensitivity_rates import L8
from ridgeformer.claims.linearised.l9_depth import L9
from ridgeformer.claims.linearised.l10_truncation_cure import L10
from ridgeformer.claims.linearised.l11_malleability import L11
from ridgeformer.claims.linearised.l12_distance_with_width import L12
from ridgeformer.claims.linearised.l13_alignment import L13
from ridgeformer.claims.linearised.l14_numerical_checks import L14
from ridgeformer.claims.linearised.l15_function_space import L15
from ridgeformer.claims.linearised.l16_taylor import L16
from ridgeformer.claims.linearised.l17_infeasible_widths import L17
from ridgeformer.claims.linearised.l18_orders_beyond import L18
from ridgeformer.claims.linearised.l19_gap_and_condition import L19
from ridgeformer.claims.linearised.l20_softmax_ntk import L20
from ridgeformer.claims.linearised.l21_cg_cost import L21
from ridgeformer.claims.linearised.l22_nystrom_cost import L22
from ridgeformer.claims.linearised.l23_memory import L23
from ridgeformer.claims.linearised.l24_perturbation import L24
from ridgeformer.claims.linearised.l25_sixth_power import L25
from ridgeformer.claims.linearised.l26_malleability_in_training import L26

__all__ = ["CLAIMS"]

CLAIMS = (
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L7,
    L8,
    L9,
    L10,
    L11,
    L12,
    L13,
    L14,
    L15,
    L16,
    L17,
    L18,
    L19,
    L20,
    L21,
    L22,
    L23,
    L24,
    L25,
    L26,
)
