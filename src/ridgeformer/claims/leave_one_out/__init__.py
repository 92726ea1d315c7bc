"""Claims about the influence of one training row on a kernel ridge regression."""

from ridgeformer.claims.leave_one_out.i1_closed_form import I1
from ridgeformer.claims.leave_one_out.i2_infinitesimal import I2
from ridgeformer.claims.leave_one_out.i3_sign_flips import I3

__all__ = ["CLAIMS"]

CLAIMS = (I1, I2, I3)
