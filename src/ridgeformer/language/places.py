"""Lines of a program, so that a statement that is refused can say where it stands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from ridgeformer.core.errors import ProgramError

__all__ = ["Place", "here", "refused"]

INSIDE = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "algorithms"))
WRAPPERS = ("contextlib.py", "beartype", "jaxtyping")
"""Files that are no program: the line of a statement is the nearest one outside of them."""


class Place(NamedTuple):
    """A line of a program."""

    file: str
    line: int


def here() -> Place:
    """Return the nearest line outside the language."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(INSIDE) or any(wrapper in file for wrapper in WRAPPERS)):
            break
        frame = frame.f_back
    return Place(Path(frame.f_code.co_filename).name, frame.f_lineno)


def refused(reason: object, place: Place) -> ProgramError:
    """Return the error of a statement that stands there."""
    return ProgramError(str(reason), place.file, place.line)
