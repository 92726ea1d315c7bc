"""The trace viewer: watch a transformer solve a regression, sublayer by sublayer, down to one number."""

from ridgeformer.views.viewer.page import render_viewer, view_data, write_viewer
from ridgeformer.views.viewer.view import TraceView, curve_task, few_rows, trace_view

__all__ = ["TraceView", "curve_task", "few_rows", "render_viewer", "trace_view", "view_data", "write_viewer"]
