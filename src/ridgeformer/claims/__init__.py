"""Every theorem of the source documents as a check that runs, with the corrected statement where one is needed.

The ledger lists all claims with the module of each. A new claim is a check decorated with its record, a `Claim`, in
the module of its theme, and its name in `ledger.CLAIMS`.
"""

from ridgeformer.claims.checks import DEEP_CASES, NORMAL_CASES, Inequality, corrected, drawn, inequality, search, stated
from ridgeformer.claims.claim import (
    Claim,
    Evidence,
    Figure,
    Origin,
    Plot,
    Trial,
    Verdict,
    interpretation,
    outcome,
    plot,
)
from ridgeformer.claims.ledger import CLAIMS, Judgement, as_dict, judge, run_claims

__all__ = [
    "CLAIMS",
    "DEEP_CASES",
    "NORMAL_CASES",
    "Claim",
    "Evidence",
    "Figure",
    "Inequality",
    "Judgement",
    "Origin",
    "Plot",
    "Trial",
    "Verdict",
    "as_dict",
    "corrected",
    "drawn",
    "inequality",
    "interpretation",
    "judge",
    "outcome",
    "plot",
    "run_claims",
    "search",
    "stated",
]
