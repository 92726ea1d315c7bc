"""The ledger: all claims, run and compared with the verdicts on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ridgeformer.claims.checks import NORMAL_CASES
from ridgeformer.claims.claim import Claim, Evidence, Trial, Verdict, outcome
from ridgeformer.claims.leave_one_out import i1, i2, i3
from ridgeformer.claims.linearised.attacks import l7, l8, l11, l19, l26
from ridgeformer.claims.linearised.costs import l14, l21, l22, l23
from ridgeformer.claims.linearised.functions import l13, l15, l16
from ridgeformer.claims.linearised.spectra import l1, l2, l3, l9
from ridgeformer.claims.linearised.tangent_kernels import l5, l6, l20, l24
from ridgeformer.claims.linearised.trained import l10, l12
from ridgeformer.claims.linearised.widths import l4, l17, l18, l25
from ridgeformer.claims.route_a.depth import a3, a5, a6
from ridgeformer.claims.route_a.heads import a1, a2, a4
from ridgeformer.claims.route_a.running import a7, a8, a9
from ridgeformer.claims.route_b.construction import b1, b5, b6
from ridgeformer.claims.route_b.rates import b2, b3, b4
from ridgeformer.claims.width_rank.effective_dimension import w4, w5, w9
from ridgeformer.claims.width_rank.networks import w6, w7, w8, w10
from ridgeformer.claims.width_rank.sketch_errors import w1, w2, w3

__all__ = ["CLAIMS", "Judgement", "as_dict", "judge", "run_claims"]

CLAIMS: tuple[Claim, ...] = (
    *(w1, w2, w3, w4, w5, w6, w7, w8, w9, w10),
    *(a1, a2, a3, a4, a5, a6, a7, a8, a9),
    *(b1, b2, b3, b4, b5, b6),
    *(l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11, l12, l13, l14, l15, l16, l17, l18, l19, l20),
    *(l21, l22, l23, l24, l25, l26),
    *(i1, i2, i3),
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
