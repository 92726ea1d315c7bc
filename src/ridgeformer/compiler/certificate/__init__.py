"""Certificates of compiled transformers.

`evidence` runs the model and poses the `problem` that its specification asks for. `accuracy` proves how far the answers
are from exact ridge regression, whatever the weights are, and `advice` says what to do if that is not enough. The other
files examine the network and return checks: `network` whether it is the compiled one and whether queries stay unseen,
`expected` and `inexact` the bounds that theory gives for every step and for a sketch, `textbook` whether the steps are
the algorithm's. `certificate` collects the checks and the model of rounding. `written` is for programs of one's own.
"""

from ridgeformer.compiler.certificate.certificate import Certificate, CertificateCurve, Check
from ridgeformer.compiler.certificate.certification import certify
from ridgeformer.compiler.certificate.written import ProgramCertificate

__all__ = ["Certificate", "CertificateCurve", "Check", "ProgramCertificate", "certify"]
