"""Pages from finished results. No mathematics is done here: what is shown was measured elsewhere."""

from ridgeformer.report.page import render, write

__all__ = ["render", "write"]
