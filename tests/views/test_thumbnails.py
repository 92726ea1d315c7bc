import base64
import io

import numpy as np
from PIL import Image

from ridgeformer.datasets import Dataset
from ridgeformer.views.thumbnails import as_bytes, png, thumbnail


def images(shape):
    X = np.linspace(-1, 3, 2 * int(np.prod(shape))).reshape(2, -1)
    return Dataset("images", X, np.zeros(2), image_shape=shape)


def test_brightness_is_relative_to_the_whole_dataset():
    data = images((2, 2))
    assert thumbnail(data, 0, "t").pixels.min() == 0
    assert thumbnail(data, 1, "t").pixels.max() == 1
    assert thumbnail(data, 0, "t").pixels.max() < 0.5


def test_a_constant_image_is_drawn():
    data = Dataset("flat", np.ones((2, 4)), np.zeros(2), image_shape=(2, 2))
    assert thumbnail(data, 0, "t").pixels.tolist() == [[0, 0], [0, 0]]


def test_the_png_holds_the_pixels_in_grey_and_in_colour():
    for shape in ((2, 3), (2, 3, 1), (2, 3, 3)):
        image = thumbnail(images(shape), 1, "t")
        head, data = png(image).split(",")
        assert head == "data:image/png;base64"
        found = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        np.testing.assert_array_equal(found, as_bytes(image.pixels))
