"""Everything a person sees: pages, terminal pictures, the trace viewer, the explorer. No mathematics is done here.

`parts` is the vocabulary of every page (Section, Table, Picture, Strip, Facts, Fragment), `figures` draws curves, bars
and heat maps, `page` renders and writes, `ridgeformer.core.words` writes numbers and counts.
"""

from ridgeformer.views.figures import GREY, PALETTE, Figure, bars, broken, curve, draw, heat_map, log_axis
from ridgeformer.views.page import render_page, write_page
from ridgeformer.views.parts import Facts, Fragment, Page, Part, Picture, Section, Strip, Table, Thumbnail, thumbnail

__all__ = [
    "GREY",
    "PALETTE",
    "Facts",
    "Figure",
    "Fragment",
    "Page",
    "Part",
    "Picture",
    "Section",
    "Strip",
    "Table",
    "Thumbnail",
    "bars",
    "broken",
    "curve",
    "draw",
    "heat_map",
    "log_axis",
    "render_page",
    "thumbnail",
    "write_page",
]
