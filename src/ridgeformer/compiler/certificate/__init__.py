"""Certificates of compiled transformers: one idea a file.

`evidence` runs the model and poses the `problem` that its specification asks for. `accuracy` proves how far the answers
are from exact ridge regression (`reference`), whatever the weights are, and `advice` says what to do if that is not
enough. Every other file looks at the network itself and returns findings: `weights` whether it is the compiled one,
`rates`, `vanilla` and `imitation` what theory expects at every step (`rounding` is the model of what rounding adds),
`sketching` what a small width may cost, `textbook` whether the steps are the method's, `leakage` whether queries stay
unseen. `certificate` puts findings together.
"""

from ridgeformer.compiler.certificate.certificate import Certificate, CertificateCurve, Check
from ridgeformer.compiler.certificate.certify import certify

__all__ = ["Certificate", "CertificateCurve", "Check", "certify"]
