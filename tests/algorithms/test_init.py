import math

import pytest

from ridgeformer import errors
from ridgeformer.algorithms import ALGORITHMS, SHORTHANDS, Chebyshev, ConjugateGradients, resolve


@pytest.mark.parametrize("name", [name for name in SHORTHANDS if name != "nadaraya_watson"])
def test_a_shorthand_gives_a_value_of_its_type_with_its_steps(name):
    algorithm = resolve(name, steps=7)
    assert type(algorithm) is ALGORITHMS.get(name, ConjugateGradients)
    assert algorithm.steps == 7


def test_a_nadaraya_watson_average_takes_one_step():
    assert resolve("nadaraya_watson").steps == 1
    with pytest.raises(errors.InputError, match="takes one"):
        resolve("nadaraya_watson", steps=7)


def test_pcg_is_conjugate_gradients_with_a_nystrom_preconditioner():
    assert resolve("pcg") == ConjugateGradients(preconditioner="nystrom")
    assert resolve("pcg", preconditioner="jacobi") == ConjugateGradients(preconditioner="jacobi")
    assert resolve("pcg").title == "preconditioned conjugate gradients"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: resolve("gc"), "did you mean 'cg'"),
        (lambda: resolve("direct", preconditioner="jacobi"), "algorithm 'direct' has no option 'preconditioner'"),
        (lambda: resolve("cg", steps=0), "steps is 0"),
        (lambda: resolve("richardson", step_size=-1.0), "step_size is -1"),
        (lambda: Chebyshev(spectrum=(2.0, 1.0)), "low <= high"),
        (lambda: Chebyshev(spectrum=(0.0, math.inf)), r"\(low, high\)"),
    ],
)
def test_options_that_do_not_exist_are_refused(call, words):
    with pytest.raises(errors.InputError, match=words):
        call()
