import pytest

from ridgeformer.core.errors import InputError
from ridgeformer.language.program import Program
from ridgeformer.language.roles import SUPPORT


def test_a_channel_that_was_not_declared_is_named():
    net = Program("test", "softmax", (SUPPORT,))
    net.constant("one", "1", on=(SUPPORT,))
    with pytest.raises(InputError, match="'lost', which is not declared"):
        net.gate("copy", one="lost")


def test_two_sublayers_of_a_section_have_two_names():
    net = Program("test", "softmax", (SUPPORT,))
    net.constant("one", "1", on=(SUPPORT,))
    net.gate("copy", one="one")
    with pytest.raises(InputError, match="'copy' already"):
        net.gate("copy", one="one")
    net.begin_step()
    net.gate("copy", one="one")
