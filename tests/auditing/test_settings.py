import pytest

from ridgeformer.auditing import PRESETS, preset
from ridgeformer.core.errors import UnknownNameError


@pytest.mark.parametrize("name", ["max_rows", "steps", "compiled_rows", "regime_rows", "attack_rows", "repeats"])
def test_presets_grow(name):
    quick, default, full = (getattr(PRESETS[key], name) for key in ("quick", "default", "full"))
    assert quick < default < full


def test_an_unknown_preset_is_named():
    with pytest.raises(UnknownNameError, match="did you mean 'quick'"):
        preset("quikc")
