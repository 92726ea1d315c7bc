"""Certificates of compiled transformers: one idea a file.

`evidence` runs the model and poses the `problem` it should have solved; every other file looks at that and
returns findings: `rates`, `vanilla` and `imitation` what theory promises at every step, `textbook` whether the
steps are the method's, `posterior` what the residual proves, `sketching` what a small width costs, `leakage`
whether queries stay unseen. `certificate` puts findings together.
"""

from ridgeformer.compiler.certificate.certificate import Certificate, Check, Curve
from ridgeformer.compiler.certificate.certify import certify

__all__ = ["Certificate", "Check", "Curve", "certify"]
