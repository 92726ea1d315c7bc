"""Everything a person sees: pages, terminal pictures, the trace viewer, the explorer. No mathematics is done here.

`parts` is the vocabulary of every page (Section, Table, Picture, Strip, Facts, Fragment), `figures` draws curves, bars
and heat maps, `page` renders and writes, `ridgeformer.core.words` writes numbers and counts.
"""

from ridgeformer.views.page import render_page, write_page
from ridgeformer.views.parts import Facts, Fragment, Page, Picture, Section, Strip, Table

__all__ = ["Facts", "Fragment", "Page", "Picture", "Section", "Strip", "Table", "render_page", "write_page"]
