"""The shape of the sources: one name for one idea, small files and functions, typed signatures, one way of imports."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ridgeformer"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
MOST_LINES, MOST_FUNCTION_LINES = 450, 70

UNTYPED = 1
"""Public functions that take or return a bare `Any`: an engine on Dask takes its client, a class of a package that may
not be installed."""

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def where(path, node):
    return f"{path.relative_to(PACKAGE)}:{node.lineno} {getattr(node, 'name', '')}"


def every(kind):
    return [(path, node) for path, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, kind)]


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for path, node in every(ast.ClassDef):
        homes[node.name].append(where(path, node))
    shared = {name: places for name, places in homes.items() if len(places) > 1}
    assert shared == {}


def exported(tree):
    """Names in a module's `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


def test_no_package_exports_a_name_equal_to_a_submodule():
    """`from package import name` would give the function or the module, depending on the imports before it."""
    clashes = {}
    for path, tree in TREES.items():
        if path.name == "__init__.py" and path.parent != PACKAGE:
            submodules = {one.stem for one in path.parent.glob("*.py")} | {one.name for one in path.parent.iterdir()}
            imported = {alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom)
                        and node.module == f"ridgeformer.{'.'.join(path.parent.relative_to(PACKAGE).parts)}"
                        for alias in node.names}  # fmt: skip
            if found := (exported(tree) & submodules) - imported:
                clashes[str(path.relative_to(PACKAGE))] = sorted(found)
    assert clashes == {}


def test_no_file_is_long():
    lengths = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in FILES}
    long = {path: lines for path, lines in lengths.items() if lines > MOST_LINES}
    assert long == {}


def test_no_function_is_long():
    """Docstrings do not count."""
    long = {}
    for path, node in every(FUNCTION):
        first = node.body[0]
        docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
        if (lines := node.end_lineno - node.lineno + 1 - docstring) > MOST_FUNCTION_LINES:
            long[where(path, node)] = lines
    assert long == {}


def public_functions():
    """Functions and methods that a user can call: exported by their module, and not private."""
    for path, tree in TREES.items():
        names = exported(tree)
        for node in tree.body:
            if isinstance(node, FUNCTION) and node.name in names:
                yield path, node
            if isinstance(node, ast.ClassDef) and node.name in names:
                for method in node.body:
                    if isinstance(method, FUNCTION) and (method.name == "__init__" or method.name[0] != "_"):
                        yield path, method


def test_public_signatures_have_real_types():
    untyped = []
    for path, node in public_functions():
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        annotations = [argument.annotation for argument in arguments] + [node.returns]
        if any(isinstance(annotation, ast.Name) and annotation.id == "Any" for annotation in annotations):
            untyped.append(where(path, node))
    assert len(untyped) <= UNTYPED, untyped


def test_imports_go_one_way():
    """Imports inside functions and under TYPE_CHECKING count too."""
    from importlinter import cli

    assert cli.lint_imports(config_filename=str(PACKAGE.parents[1] / "pyproject.toml"), no_cache=True) == 0
