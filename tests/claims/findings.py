"""Findings for the tests: every check runs once a process."""

from functools import cache

from ridgeformer.claims import CLAIMS, NORMAL_CASES, run_claims

BY_ID = {claim.id: claim for claim in CLAIMS}


@cache
def finding(name):
    (found,) = run_claims([BY_ID[name]], NORMAL_CASES)
    return found
