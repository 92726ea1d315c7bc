"""Known circuits: exported models whose every part is known, for testing interpretability methods.

`recipes` has the family and makes its models, with `distractors` written into the programs; `truth` derives which
parts carry data to the prediction; `methods` has the baselines, `scoring` grades answers, `files` keeps all of it.
"""

from ridgeformer.circuits.files import load_answers, load_circuit, load_names, save_answers, save_family
from ridgeformer.circuits.methods import METHODS, CircuitAnswer, PatchedRuns, probe_directions
from ridgeformer.circuits.recipes import KnownCircuit, Recipe, family, make
from ridgeformer.circuits.scoring import Graded, Score, mean_score, score
from ridgeformer.circuits.truth import Question, Truth

__all__ = [
    "METHODS",
    "CircuitAnswer",
    "Graded",
    "KnownCircuit",
    "PatchedRuns",
    "Question",
    "Recipe",
    "Score",
    "Truth",
    "family",
    "load_answers",
    "load_circuit",
    "load_names",
    "make",
    "mean_score",
    "probe_directions",
    "save_answers",
    "save_family",
    "score",
]
