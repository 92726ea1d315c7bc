"""Programs: one algorithm a file, written in named channels."""

from ridgeformer.compiler.programs.linear_cg import linear_cg
from ridgeformer.compiler.programs.nadaraya_watson import nadaraya_watson
from ridgeformer.compiler.programs.softmax_cg import imitation_cg, softmax_cg
from ridgeformer.compiler.programs.stationary import Kernel, chebyshev, neumann, richardson
from ridgeformer.compiler.programs.vanilla import vanilla

__all__ = [
    "Kernel",
    "chebyshev",
    "imitation_cg",
    "linear_cg",
    "nadaraya_watson",
    "neumann",
    "richardson",
    "softmax_cg",
    "vanilla",
]
