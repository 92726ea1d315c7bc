"""Every theorem of the source documents as a check that runs, with the corrected statement where one is needed.

The ledger lists all claims with the module of each. A new claim is a check and a `Claim` in the module of its theme,
and its name in `ledger.CLAIMS`.
"""

from ridgeformer.claims.checks import (
    DEEP_CASES,
    NORMAL_CASES,
    Inequality,
    drawn,
    holds,
    inequality,
    search,
    try_to_break,
    within,
)
from ridgeformer.claims.claim import (
    Claim,
    Counterexample,
    Evidence,
    Figure,
    Origin,
    Plot,
    Trial,
    Verdict,
    corrected,
    interpretation,
    outcome,
)
from ridgeformer.claims.ledger import CLAIMS, Judgement, as_dict, judge, run_claims

__all__ = [
    "CLAIMS",
    "DEEP_CASES",
    "NORMAL_CASES",
    "Claim",
    "Counterexample",
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
    "holds",
    "inequality",
    "interpretation",
    "judge",
    "outcome",
    "run_claims",
    "search",
    "try_to_break",
    "within",
]
