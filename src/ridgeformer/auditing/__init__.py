"""The audit of a dataset: what attention as kernel regression makes of it, measured and certified.

A new section is one file with a frozen record and a function that makes it, one stage in `audit`, and one
section in `views/audit_page`.
"""

from ridgeformer.auditing.run import Audit, audit
from ridgeformer.auditing.settings import PRESETS, Settings, preset

__all__ = ["PRESETS", "Audit", "Settings", "audit", "preset"]
