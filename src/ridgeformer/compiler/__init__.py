"""The compiler: kernel ridge regression as the weights of a transformer, in the manner of [Lindner2023].

A program (in `programs/`) says what to do in named channels; `layout` gives channels columns; `lowering` turns
instructions into weight matrices; `transformer` runs them. `interpreter` runs the same program without any weight.
"""

from ridgeformer.compiler.budget import Budget
from ridgeformer.compiler.certificate import Certificate, Check, certify
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.saving import load, save
from ridgeformer.compiler.specification import SOLVERS, Specification
from ridgeformer.compiler.trace import Trace
from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = [
    "SOLVERS",
    "Budget",
    "Certificate",
    "Check",
    "CompiledTransformer",
    "Specification",
    "Trace",
    "certify",
    "compile",
    "load",
    "save",
]
