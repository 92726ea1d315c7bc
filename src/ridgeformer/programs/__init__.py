"""Programs that ship, one a file, each written in the public language; a new file here is found by itself.

Every module of this folder defines one program under `@algorithm`, of the module's own name. Kernels and algorithms are
parts of the library, listed where they are chosen from; programs are written in its language, as a user's are, and
nothing else in the package knows any of them. So they need no list: the folder is the list.
"""

from importlib import import_module
from pkgutil import iter_modules

from ridgeformer.algorithms.written import WrittenAlgorithm

PROGRAMS: dict[str, type[WrittenAlgorithm]] = {
    module.name: getattr(import_module(f"{__name__}.{module.name}"), module.name) for module in iter_modules(__path__)
}
"""Programs that ship, by name."""

globals().update(PROGRAMS)  # programs.NAME is the program, not its module

__all__ = ["PROGRAMS"]
