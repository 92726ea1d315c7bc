"""The ledger: all claims, run and compared with what is on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ridgeformer.claims.cases import NORMAL_CASES
from ridgeformer.claims.claim import Claim, Evidence, Verdict, outcome

__all__ = ["Finding", "judge", "run_claims"]


@dataclass(frozen=True)
class Finding:
    """A claim, its evidence, and whether the two agree.

    Attributes:
        claim: The record.
        evidence: None while the claim is pending.
        outcome: The verdict that the evidence amounts to; None if it supports none.
        problems: Why the record and the evidence disagree, in words; empty if they agree.
        seconds: How long the check took.
    """

    claim: Claim
    evidence: Evidence | None
    outcome: Verdict | None
    problems: tuple[str, ...]
    seconds: float

    @property
    def agrees(self) -> bool:
        """Whether the record is what the evidence says."""
        return not self.problems


def judge(claim: Claim, evidence: Evidence | None, seconds: float = 0.0) -> Finding:
    """Compare a record with the evidence for it."""
    if evidence is None:
        wrong = claim.verdict is not Verdict.PENDING or not claim.pending
        problems = [f"it has no evidence, and the record says {claim.verdict.value}"] if wrong else []
        return Finding(claim, None, Verdict.PENDING, tuple(problems), seconds)
    found = outcome(evidence)
    problems = []
    if found is not claim.verdict:
        said = "supports no verdict" if found is None else f"says {found.value}"
        problems.append(f"the record says {claim.verdict.value}, the evidence {said}")
    problems += [f"the correction fails: {t.statement}" for t in evidence.corrected if not t.holds]
    problems += [f"{f.name} is {f.value:.6g}, on record {f.shown}" for f in evidence.figures if not f.agrees]
    return Finding(claim, evidence, found, tuple(problems), seconds)


def run_claims(
    claims: Iterable[Claim], cases: int = NORMAL_CASES, watch: Callable[[Claim], None] | None = None
) -> Iterator[Finding]:
    """Run the checks one after the other and judge each; `watch` is told of each before it runs."""
    for claim in claims:
        if watch is not None:
            watch(claim)
        begin = time.perf_counter()
        evidence = None if claim.pending else claim.check(cases)
        yield judge(claim, evidence, time.perf_counter() - begin)
