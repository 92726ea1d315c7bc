"""Pages from finished results. No mathematics is done here: what is shown was measured elsewhere."""

from ridgeformer.views.audit_page import audit_page, render, write
from ridgeformer.views.figures import PALETTE, styled
from ridgeformer.views.page import Page, render_page, write_page
from ridgeformer.views.sections import Fragment, Picture, Section, Strip, Table, Thumbnail

__all__ = [
    "PALETTE",
    "Fragment",
    "Page",
    "Picture",
    "Section",
    "Strip",
    "Table",
    "Thumbnail",
    "audit_page",
    "render",
    "render_page",
    "styled",
    "write",
    "write_page",
]
