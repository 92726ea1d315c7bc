"""Preconditioners: cheap approximations of A^-1, built once for a system.

A new one is a file with a builder class, and one line in `PRECONDITIONERS`.
"""

from __future__ import annotations

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.solving.preconditioners.builders import Builder, Identity, Jacobi, Nystrom
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedCholesky

__all__ = [
    "PRECONDITIONERS",
    "Builder",
    "Identity",
    "Jacobi",
    "Nystrom",
    "PivotedCholesky",
    "builder",
]

PRECONDITIONERS: dict[str, Builder] = {
    "identity": Identity(),
    "jacobi": Jacobi(),
    "nystrom": Nystrom(),
    "pivoted": PivotedCholesky(),
}


def builder(choice: object) -> Builder:
    """Return the builder of a preconditioner given by name or as itself; None is the identity.

    Example:
        >>> builder("jacobi").name
        'jacobi'
    """
    if choice is None:
        return Identity()
    if isinstance(choice, str):
        if choice not in PRECONDITIONERS:
            raise unknown_name("preconditioner", choice, PRECONDITIONERS)
        return PRECONDITIONERS[choice]
    if not isinstance(choice, Builder):
        raise InputError(f"preconditioner is {choice!r}; a name or a builder such as Nystrom(rank=200) was expected.")
    return choice
