"""An audit that takes seconds, shared by the tests of the audit and of its page."""

from functools import cache

from ridgeformer import datasets
from ridgeformer.auditing import Audit, Settings, audit

SMALL = Settings(
    max_rows=120, all_rows=120, few_rows=0, trees=3, tries=4, steps=60,
    temperatures=(1.0, 0.5), ridges=(1.0, 0.01),
    compiled_rows=20, compiled_queries=5, regime_rows=30, regime_widths=(32, 64),
    regime_widest=1000, regime_epochs=20, attack_rows=30, attack_queries=2, attack_sizes=(0.3,), attack_width=32,
    attack_steps=4, repeats=2, points=2,
)  # fmt: skip


@cache
def small_audit(name: str) -> Audit:
    """Return the audit of an embedded dataset, made once."""
    return audit(datasets.load(name), SMALL)
