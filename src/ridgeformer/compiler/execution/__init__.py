"""Two ways to run the same weights: literally, matrix by matrix, or on the rows that matter, which is fast."""

from ridgeformer.compiler.execution.fast import run_fast
from ridgeformer.compiler.execution.literal import Hook, Reading, run_literally

__all__ = ["Hook", "Reading", "run_fast", "run_literally"]
