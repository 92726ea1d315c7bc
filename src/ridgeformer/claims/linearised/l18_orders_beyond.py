"""L18: beyond the largest architectures, by width or by number of parameters?"""

from __future__ import annotations

from math import log10

from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Verdict
from ridgeformer.claims.trials import within

WIDTHS = (1e24, 1e29)
PARAMETERS, LARGEST_WIDTH, FEATURES = 1e12, 49_152, (784, 3072)
"""Parameters of the largest models, of order 10^12; the hidden layer of GPT-3, 4 x 12,288; pixels of an image."""


def check(cases: int) -> Evidence:
    """Divide the published widths by what they could have been compared with."""
    width, pixels = WIDTHS[0], FEATURES[0]
    published = [log10(w / PARAMETERS) for w in WIDTHS]
    return Evidence(
        readings=(
            Figure("orders of magnitude, MNIST: width over the number of parameters", log10(width / PARAMETERS)),
            Figure("width over the largest width", log10(width / LARGEST_WIDTH)),
            Figure("parameters over parameters", log10(width * pixels / PARAMETERS)),
        ),
        corrected=(
            within("12 and 17 are 10^24 and 10^29 over 10^12", [abs(published[0] - 12), abs(published[1] - 17)], 1e-9),
        ),
        figures=(
            Figure("CIFAR-10: width over the largest width", log10(WIDTHS[1] / LARGEST_WIDTH)),
            Figure("CIFAR-10: parameters over parameters", log10(WIDTHS[1] * FEATURES[1] / PARAMETERS)),
        ),
    )


L18 = Claim(
    id="L18",
    source="linearized-attention study, abstract",
    origin=Origin.QUOTED,
    quote="12--17 orders of magnitude beyond the largest known architectures",
    title="The width is 12 to 17 orders of magnitude beyond the largest architectures",
    stated="No known architecture is within 12 to 17 orders of magnitude of the width that is asked for.",
    formula=r"\log_{10}(m / m_{\text{largest}}) = 12 \dots 17",
    verdict=Verdict.UNDEFINED,
    corrected="12 and 17 divide a width by a number of parameters, about 10^12. Width by width it is 19 to 24 orders, "
    "parameters by parameters 15 to 20. The point that it is out of reach does not depend on it; whether the width is "
    "needed is claim L4.",
    condition="The largest width is that of GPT-3's hidden layers, 49,152.",
    check=check,
    computed="arithmetic; nothing is drawn",
)
