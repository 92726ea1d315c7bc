"""The audit of a dataset: what attention as kernel regression makes of it, measured and certified.

A new section is one file with a frozen record and a function that makes it, one stage in `audit`, and one
section of the same name in `report`.
"""

from ridgeformer.audit.audit import Audit, audit
from ridgeformer.audit.settings import Settings

__all__ = ["Audit", "Settings", "audit"]
