"""Models of every route on one small curve, for the tests of the trace viewer."""

import functools

import ridgeformer as rf
from ridgeformer.views.viewer import curve_task, trace_view

TASK = curve_task(supports=9, queries=11)

MODELS = {
    "softmax cg": {"route": "softmax"},
    "softmax cg, aggregator": {"route": "softmax", "through_aggregator": True},
    "softmax richardson": {"route": "softmax", "solver": "richardson"},
    "softmax neumann": {"route": "softmax", "solver": "neumann", "ridge": 3e3},
    "softmax chebyshev": {"route": "softmax", "solver": "chebyshev", "spectrum": (5.0, 300.0)},
    "softmax nadaraya-watson": {"route": "softmax", "solver": "nadaraya-watson", "steps": 1},
    "softmax float32": {"route": "softmax", "dtype": "float32"},
    "linear cg": {"route": "linear"},
    "linear pcg": {"route": "linear", "solver": "pcg"},
    "linear richardson": {"route": "linear", "solver": "richardson"},
    "vanilla": {"route": "vanilla", "steps": 12},
    "imitation": {"route": "imitation"},
    "softmax relu": {"route": "softmax", "solver": "richardson", "primitives": "relu", "relu_knots": 16},
    "linear swiglu": {"route": "linear", "primitives": "swiglu", "steps": 2},
}


@functools.cache
def model_of(name):
    return rf.compile(**{"features": 2, "ridge": 5.0, "steps": 3, "temperature": 0.25, **MODELS[name]})


@functools.cache
def view_of(name):
    return trace_view(model_of(name), TASK.X, TASK.y, TASK.Xq, at=TASK.at)


@functools.cache
def cache_of(name):
    return model_of(name).run_with_cache(TASK.X, TASK.y, TASK.Xq)
