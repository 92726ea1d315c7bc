"""Models of every attention on one small curve, for the tests of the trace viewer."""

import functools

from ridgeformer.views.viewer import curve_task, trace_view
from tests.compiler.tasks import compiled

TASK = curve_task(supports=9, queries=11)

MODELS = {
    "softmax cg": {"attention": "softmax"},
    "softmax cg, aggregator": {"attention": "softmax", "through_aggregator": True},
    "softmax richardson": {"attention": "softmax", "algorithm": "richardson"},
    "softmax neumann": {"attention": "softmax", "algorithm": "neumann", "ridge": 3e3},
    "softmax chebyshev": {"attention": "softmax", "algorithm": "chebyshev", "spectrum": (5.0, 300.0)},
    "softmax nadaraya-watson": {"attention": "softmax", "algorithm": "nadaraya_watson", "steps": 1},
    "softmax float32": {"attention": "softmax", "dtype": "float32"},
    "softmax gaussian": {"attention": "softmax", "kernel": "gaussian"},
    "softmax nesterov": {"attention": "softmax", "algorithm": "nesterov", "spectrum": (5.0, 300.0)},
    "linear cg": {"attention": "linear"},
    "linear heavy ball": {"attention": "linear", "algorithm": "heavy_ball", "spectrum": (5.0, 300.0)},
    "linear pcg": {"attention": "linear", "algorithm": "pcg"},
    "linear richardson": {"attention": "linear", "algorithm": "richardson"},
    "vanilla": {"attention": "vanilla", "steps": 12},
    "vanilla gaussian": {"attention": "vanilla", "kernel": "gaussian", "steps": 12},
    "imitation": {"attention": "imitation"},
    "softmax relu": {"attention": "softmax", "algorithm": "richardson", "primitives": "relu", "relu_knots": 16},
    "linear swiglu": {"attention": "linear", "primitives": "swiglu", "steps": 2},
}


@functools.cache
def model_of(name):
    return compiled(**{"features": 2, "ridge": 5.0, "steps": 3, "temperature": 0.25, **MODELS[name]})


@functools.cache
def view_of(name):
    return trace_view(model_of(name), TASK.X, TASK.y, TASK.Xq, at=TASK.at)


@functools.cache
def cache_of(name):
    return model_of(name).run_with_cache(TASK.X, TASK.y, TASK.Xq)
