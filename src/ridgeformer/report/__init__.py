"""Pages from finished results. No mathematics is done here: what is shown was measured elsewhere."""

from ridgeformer.report.figures import PALETTE, styled
from ridgeformer.report.page import Page, render, render_page, write, write_page
from ridgeformer.report.sections import Picture, Section, Table

__all__ = ["PALETTE", "Page", "Picture", "Section", "Table", "render", "render_page", "styled", "write", "write_page"]
