from math import inf, isinf, nan

from ridgeformer.claims.trials import within


def test_counts_what_lies_outside():
    trial = within("small", [0.5, 1.0, 2.0], tolerance=1.0)
    assert (trial.cases, trial.violations, trial.worst) == (3, 1, 2.0)


def test_what_cannot_be_evaluated_is_a_violation():
    trial = within("small", [0.0, nan, inf], tolerance=1.0)
    assert trial.violations == 2
    assert isinf(trial.worst)


def test_no_errors_is_no_evidence():
    assert not within("small", [], tolerance=1.0).holds
