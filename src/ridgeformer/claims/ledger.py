"""The ledger: all claims, run and compared with the verdicts on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ridgeformer.claims.checks import NORMAL_CASES
from ridgeformer.claims.claim import Claim, Evidence, Trial, Verdict, outcome
from ridgeformer.claims.leave_one_out import I1, I2, I3
from ridgeformer.claims.linearised.costs import L14, L21, L22, L23
from ridgeformer.claims.linearised.functions import L13, L15, L16
from ridgeformer.claims.linearised.malleability import L11, L19, L26
from ridgeformer.claims.linearised.sensitivity import L7, L8
from ridgeformer.claims.linearised.spectra import L1, L2, L3, L9
from ridgeformer.claims.linearised.tangent_kernels import L5, L6, L20, L24
from ridgeformer.claims.linearised.trained import L10, L12
from ridgeformer.claims.linearised.widths import L4, L17, L18, L25
from ridgeformer.claims.route_a.depth import A3, A5, A6
from ridgeformer.claims.route_a.heads import A1, A2, A4
from ridgeformer.claims.route_a.running import A7, A8, A9
from ridgeformer.claims.route_b.construction import B1, B5, B6
from ridgeformer.claims.route_b.preconditioning import B4
from ridgeformer.claims.route_b.rates import B2, B3
from ridgeformer.claims.width_rank.effective_dimension import W4, W5, W9
from ridgeformer.claims.width_rank.networks import W6, W7, W8, W10
from ridgeformer.claims.width_rank.sketch_errors import W1, W2, W3

__all__ = ["CLAIMS", "Judgement", "as_dict", "judge", "run_claims"]

CLAIMS: tuple[Claim, ...] = (
    *(W1, W2, W3, W4, W5, W6, W7, W8, W9, W10),
    *(A1, A2, A3, A4, A5, A6, A7, A8, A9),
    *(B1, B2, B3, B4, B5, B6),
    *(L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13, L14, L15, L16, L17, L18, L19, L20),
    *(L21, L22, L23, L24, L25, L26),
    *(I1, I2, I3),
)
"""All claims, in order."""


@dataclass(frozen=True)
class Judgement:
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


def judge(claim: Claim, evidence: Evidence | None, seconds: float = 0.0) -> Judgement:
    """Compare a record with the evidence for it."""
    if evidence is None:
        wrong = claim.verdict is not Verdict.PENDING or not claim.pending
        problems = [f"it has no evidence, and the record says {claim.verdict.value}"] if wrong else []
        return Judgement(claim, None, Verdict.PENDING, tuple(problems), seconds)
    found = outcome(evidence)
    problems = []
    if found is not claim.verdict:
        supported = "supports no verdict" if found is None else f"says {found.value}"
        problems.append(f"the record says {claim.verdict.value}, the evidence {supported}")
    problems += [f"the correction fails: {t.statement}" for t in evidence.corrected if not t.holds]
    problems += [f"{f.name} is {f.value:.6g}, on record {f.shown}" for f in evidence.figures if not f.agrees]
    return Judgement(claim, evidence, found, tuple(problems), seconds)


def run_claims(
    claims: Iterable[Claim], cases: int = NORMAL_CASES, watch: Callable[[Claim], None] | None = None
) -> Iterator[Judgement]:
    """Run the checks one after the other and judge each; `watch` is called with each claim before it runs."""
    for claim in claims:
        if watch is not None:
            watch(claim)
        begin = time.perf_counter()
        evidence = None if claim.pending else claim.examine(cases)
        yield judge(claim, evidence, time.perf_counter() - begin)


def as_dict(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values, for JSON."""
    claim, evidence = judgement.claim, judgement.evidence
    trials = {"stated": evidence.stated, "corrected": evidence.corrected} if evidence else {}
    figures = (*evidence.figures, *evidence.interpretations) if evidence else ()
    texts = ("id", "title", "source", "quote", "under", "pending", "computed", "stated", "formula", "corrected",
             "corrected_formula", "condition")  # fmt: skip
    return {name: getattr(claim, name) for name in texts} | {
        "origin": claim.origin.value,
        "verdict": claim.verdict.value,
        "outcome": judgement.outcome.value if judgement.outcome else None,
        "agrees": judgement.agrees,
        "problems": list(judgement.problems),
        "seconds": judgement.seconds,
        "figures": {figure.name: figure.value for figure in figures},
        "trials": {role: [_plain(trial) for trial in found] for role, found in trials.items()},
    }


def _plain(trial: Trial) -> dict[str, Any]:
    return {name: value for name, value in vars(trial).items() if name != "role"}
