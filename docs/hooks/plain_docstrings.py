"""Lets the reference show docstrings as they were meant: plain text with mathematics, and doctests as code.

Markdown would take `alpha*` for the start of emphasis and <x, z> for a tag, and griffe knows a section "Examples:"
where ours say "Example:". A function that has the name of its module, such as `compile`, is hidden behind the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

CODE = re.compile(r"(`[^`]*`)")
MARKUP = re.compile(r"(?<=[\w)|])\*|(?<=[)|\]])_")


class PlainDocstrings(griffe.Extension):
    """Rewrite docstrings while the sources are read; the sources stay as they are."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one."""
        if obj.docstring:
            text, example, doctest = obj.docstring.value.partition("\nExample:\n")
            obj.docstring.value = escape(text) + (f"\nExamples:\n{doctest}" if example else "")

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


def escape(text: str) -> str:
    """Escape what Markdown would take as markup, outside backticks."""
    pieces = CODE.split(text)
    pieces[::2] = [MARKUP.sub(r"\\\g<0>", piece).replace("<", "&lt;") for piece in pieces[::2]]
    return "".join(pieces)
