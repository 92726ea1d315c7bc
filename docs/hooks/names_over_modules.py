"""Lets the reference show what has the name of its module: griffe hides `compiler.compile` behind its file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe


class NamesOverModules(griffe.Extension):
    """Show a package's functions and classes as `import` finds them."""

    def on_module(self, *, mod: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Put what packages export in front of modules of the same name, once all other extensions have seen these."""
        if not mod.is_package:
            return
        loader.resolve_aliases(implicit=True, external=False)
        for package in packages(mod):
            for name in map(str, package.exports or ()):
                if is_module(package.members.get(name)) and name in package.imports:
                    target = loader.modules_collection[package.imports[name]]
                    package.members[name] = griffe.Alias(name, target, parent=package)


def is_module(member: griffe.Object | griffe.Alias | None) -> bool:
    """Whether a name stands for a module that is no package; not if griffe cannot tell what it stands for."""
    try:
        found = member.final_target if isinstance(member, griffe.Alias) else member
    except griffe.AliasResolutionError:
        return False
    return isinstance(found, griffe.Module) and not found.is_init_module


def packages(package: griffe.Module) -> Iterator[griffe.Module]:
    """Yield a package and those in it, the innermost first."""
    for module in list(package.modules.values()):
        if module.is_init_module:
            yield from packages(module)
    yield package
