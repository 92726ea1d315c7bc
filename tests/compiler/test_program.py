import pytest

from ridgeformer.compiler.program import Program
from ridgeformer.compiler.roles import SUPPORT
from ridgeformer.errors import InputError


def test_a_channel_that_was_not_declared_is_named():
    net = Program("test", "softmax", (SUPPORT,))
    net.constant("one", "1", on=(SUPPORT,))
    with pytest.raises(InputError, match="'lost', which is not declared"):
        net.gate("copy", one="lost")
