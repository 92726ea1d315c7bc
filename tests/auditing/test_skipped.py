import pytest

from ridgeformer.auditing.settings import Skipped, attempt
from ridgeformer.core.errors import InputError


def test_what_the_data_do_not_allow_is_kept_as_a_reason():
    def refuse():
        raise InputError("too\n  few rows.")

    assert attempt(refuse) == Skipped("too few rows.")
    assert Skipped("why").as_dict() == {"skipped": "why"}
    assert attempt(lambda: 3) == 3


def test_errors_of_the_program_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0)
