"""What every room of claims is held to; a test class inherits it and says which claims are its own."""

from dataclasses import replace

import pytest

from ridgeformer.claims import NORMAL_CASES, Verdict, judge, run_claims
from ridgeformer.claims.search import ROUND_OFF


class LedgerCase:
    """Inherit, set `claims`, and list in `loose` the searches of bounds that are not attained."""

    claims = ()
    loose = ()

    @pytest.fixture(scope="class")
    @classmethod
    def findings(cls):
        return {finding.claim.id: finding for finding in run_claims(cls.claims, NORMAL_CASES)}

    def test_every_record_is_what_the_evidence_says(self, findings):
        assert {name: finding.problems for name, finding in findings.items() if not finding.agrees} == {}

    def test_any_other_verdict_is_a_mismatch(self, findings):
        for finding in findings.values():
            for verdict in set(Verdict) - {finding.claim.verdict}:
                assert not judge(replace(finding.claim, verdict=verdict), finding.evidence).agrees

    def test_no_bound_that_holds_was_exceeded_and_tight_ones_were_approached(self, findings):
        for finding in findings.values():
            held = finding.evidence.corrected
            if finding.claim.verdict is Verdict.TRUE:
                held += finding.evidence.stated
            for trial in (trial for trial in held if trial.seed is not None):
                assert trial.cases >= NORMAL_CASES, trial
                assert trial.worst <= 1 + ROUND_OFF, trial
                assert trial.worst > 0.9 or trial.statement in self.loose, trial

    def test_what_is_not_true_as_stated_is_seen_to_fail_in_every_way_it_was_tried(self, findings):
        for finding in findings.values():
            if finding.claim.verdict in (Verdict.AMENDED, Verdict.FALSE):
                assert all(trial.violations > 0 for trial in finding.evidence.stated), finding.claim.id

    def test_there_is_enough_time(self, findings):
        assert max(finding.seconds for finding in findings.values()) < 60

    def test_records_can_be_read(self):
        for claim in self.claims:
            assert claim.title
            assert claim.stated
            assert claim.formula
            assert claim.condition
            assert claim.corrected
            assert claim.corrected_formula

    def test_plots_have_something_to_see(self, findings):
        for finding in findings.values():
            for curve in finding.evidence.plot.curves if finding.evidence.plot else ():
                assert len(curve.x) == len(curve.y) > 1
                if finding.evidence.plot.log_y:
                    assert min(curve.y) > 0
