"""Images of rows: the right ones, in the right order, pixel by pixel."""

import base64
import io

import numpy as np
from PIL import Image

from ridgeformer.views.explorer.compute import influenced
from ridgeformer.views.explorer.pictures import EACH, pictures, thumbnail
from ridgeformer.views.explorer.state import State

DIGITS = State(data="digits", rows=60, ridge=1.0)


def pixels(source):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))))


def test_a_row_becomes_its_pixels():
    row = np.array([0.0, 0.1, 0.2, 0.4])
    assert pixels(thumbnail(row, (2, 2))).tolist() == [[0, 64], [128, 255]]
    assert pixels(thumbnail(np.zeros(12), (2, 2, 3))).shape == (2, 2, 3)


def test_the_strongest_points_stand_beside_the_one_asked_about():
    found = influenced(DIGITS)
    shown = pictures(found, 4)
    change = found.change[:, 4]
    assert len(shown) == 1 + 2 * EACH
    assert shown[0].source == thumbnail(found.task.Xq[4].numpy(), (8, 8))
    assert shown[1].source == thumbnail(found.task.X[int(change.argmax())].numpy(), (8, 8))
    assert shown[-1].source == thumbnail(found.task.X[int(change.argmin())].numpy(), (8, 8))
    assert shown[1].caption == f"{change.max():+.2g}"
    assert shown[1].words == found.task.labels[int(change.argmax())]


def test_other_rows_have_no_pictures():
    assert pictures(influenced(State()), 3) == ()
    assert pictures(influenced(DIGITS), None) == ()
