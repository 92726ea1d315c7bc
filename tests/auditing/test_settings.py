import pytest

from ridgeformer.auditing import PRESETS, preset
from ridgeformer.auditing.settings import Skipped, attempt
from ridgeformer.core.errors import InputError, UnknownNameError


@pytest.mark.parametrize("name", ["max_rows", "steps", "compiled_rows", "regime_rows", "attack_rows", "repeats"])
def test_presets_grow(name):
    quick, default, full = (getattr(PRESETS[key], name) for key in ("quick", "default", "full"))
    assert quick < default < full


def test_an_unknown_preset_is_named():
    with pytest.raises(UnknownNameError, match="did you mean 'quick'"):
        preset("quikc")


def test_what_the_data_do_not_allow_is_kept_as_a_reason():
    def refuse():
        raise InputError("too\n  few rows.")

    assert attempt(refuse) == Skipped("too few rows.")
    assert Skipped("why").as_dict() == {"skipped": "why"}
    assert attempt(lambda: 3) == 3


def test_errors_of_the_program_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0)
