"""Every theorem of the source documents as a check that runs, with the corrected statement where one is needed.

One package a source, one claim a file. A new claim is a file with a `Claim` and a line in its package's list.
"""

from ridgeformer.claims import leave_one_out, linearised, route_a, route_b, width_rank
from ridgeformer.claims.cases import DEEP_CASES, NORMAL_CASES, drawn
from ridgeformer.claims.claim import (
    Claim,
    Counterexample,
    Curve,
    Evidence,
    Figure,
    Origin,
    Plot,
    Trial,
    Verdict,
    concluding,
    outcome,
)
from ridgeformer.claims.ledger import Finding, judge, run_claims
from ridgeformer.claims.search import Found, Inequality, search, try_to_break

__all__ = [
    "CLAIMS",
    "DEEP_CASES",
    "NORMAL_CASES",
    "Claim",
    "Counterexample",
    "Curve",
    "Evidence",
    "Figure",
    "Finding",
    "Found",
    "Inequality",
    "Origin",
    "Plot",
    "Trial",
    "Verdict",
    "concluding",
    "drawn",
    "judge",
    "outcome",
    "run_claims",
    "search",
    "try_to_break",
]

CLAIMS: tuple[Claim, ...] = (
    *width_rank.CLAIMS,
    *route_a.CLAIMS,
    *route_b.CLAIMS,
    *linearised.CLAIMS,
    *leave_one_out.CLAIMS,
)
"""The ledger, in order."""
