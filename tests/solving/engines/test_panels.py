import numpy as np
import pytest

from ridgeformer.core.compiled import compile_it, compiled
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.solving.engines.panels import ROWS, multiply_panels, pack, registers, teach_blocks

pytestmark = pytest.mark.skipif(not compiled(), reason="Numba is not there")


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 16, 3), (7, 33, 5), (40, 64, 0), (65, 31, 100)])
def test_products_of_packed_rows_are_those_of_the_rows(kind, shape):
    rows, others, features = shape
    draw = numpy_generator(0, "panels")
    left, right = (draw.standard_normal((count, features)).astype(kind) for count in (rows, others))
    out = np.full((rows, others), np.nan, kind)
    teach_blocks()
    compile_it(multiply_panels)(pack(left), pack(right), out)
    exact = left.astype("longdouble") @ right.T.astype("longdouble")
    allowed = (features + 1) * np.finfo(kind).eps * (abs(left) @ abs(right).T)
    assert bool((abs(out - exact) <= allowed).all())


def test_what_is_not_a_number_stays_in_its_row():
    left, right = np.ones((20, 3)), np.ones((40, 3))
    left[9, 1], right[30, 2] = np.nan, np.inf
    out = np.empty((20, 40))
    teach_blocks()
    compile_it(multiply_panels)(pack(left), pack(right), out)
    assert bool(np.isnan(out[9]).all())
    assert bool(np.isinf(np.delete(out[:, 30], 9)).all())
    assert bool((np.delete(np.delete(out, 9, 0), 30, 1) == 3).all())


def test_panels_hold_every_row_once_and_zeros():
    rows = np.arange(1.0, 39.0).reshape(-1, 2)
    panels = pack(rows)
    assert panels.shape[2] == int(np.prod(registers(rows.dtype)))
    assert panels.shape[0] * panels.shape[2] % ROWS == 0
    found = panels.transpose(0, 2, 1).reshape(-1, 2)
    assert np.array_equal(found[:19], rows)
    assert not found[19:].any()
