"""The compiler: kernel ridge regression as the weights of a transformer, in the manner of [Lindner2023].

`compile` writes an algorithm as a program in named channels, arranges the channels in columns and lowers instructions
to weight matrices; `transformer` runs them. `language.interpreter` runs the same program without any weight.
"""

from ridgeformer.compiler.certificate import Certificate, Check, certify
from ridgeformer.compiler.reports import Budget, Trace
from ridgeformer.compiler.saving import load_model, save
from ridgeformer.compiler.specification import ATTENTIONS, Specification
from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = [
    "ATTENTIONS",
    "Budget",
    "Certificate",
    "Check",
    "CompiledTransformer",
    "Specification",
    "Trace",
    "certify",
    "load_model",
    "save",
]
