import numpy as np

from ridgeformer.views.terminal_picture import LARGEST, SHADES, blocks, side_by_side


def test_large_images_are_averaged_down_and_colours_to_grey():
    image = np.zeros((28, 28, 3))
    image[14:] = 1.0
    lines = blocks(image)
    assert len(lines) == LARGEST
    assert lines[0] == SHADES[0] * 2 * LARGEST
    assert lines[-1] == SHADES[-1] * 2 * LARGEST


def test_a_constant_image_is_drawn():
    assert blocks(np.ones((1, 2))) == [SHADES[0] * 4]


def test_only_as_many_as_fit():
    assert side_by_side(["one", "two"], [["##"], ["%%"]], 8) == "one\n##"
