"""Every Python block and every `ridgeformer` command line of the README and the docs is run."""

import re
import shlex
import sys

import pytest
from typer.main import get_command

from ridgeformer.auditing import PRESETS
from ridgeformer.cli import main
from ridgeformer.cli.commands import app
from tests.auditing.small_audits import SMALL
from tests.documented_commands import DOCUMENTS, FENCE, ROOT, documented, make_yours


def blocks(language):
    return [
        pytest.param(text, id=f"{document.name}-{number}")
        for document in DOCUMENTS
        for number, (found, text) in enumerate(FENCE.findall(document.read_text()))
        if found == language
    ]


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(block, capsys):
    exec(compile(block, "document", "exec"), {"__name__": "document"})


def commands(block):
    return [line for line in block.splitlines() if line.startswith("ridgeformer ")]


@pytest.mark.parametrize("block", [block for block in blocks("") if commands(block.values[0])])
def test_commands_run_one_after_the_other(block, monkeypatch, tmp_path, capsys):
    """Audits are small ones: what is tried is the command, and the audit has tests of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "default", SMALL)
    for line in commands(block):
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0, line


def parsed(words):
    """Parse a command line as Typer does, up to the command's own work; what is wrong with it is raised."""
    command, context = get_command(app), None
    while True:
        context = command.make_context("ridgeformer", list(words), parent=context)
        if not hasattr(command, "commands"):
            return
        _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])


@pytest.mark.parametrize(
    "document", [document for document in DOCUMENTS if documented(document)], ids=lambda one: one.name
)
def test_every_command_line_is_one_that_exists(document, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    make_yours(tmp_path)
    for _, *words in documented(document):
        if "--help" not in words and "--install-completion" not in words:
            parsed(words)


def test_commands_in_running_text_name_options_that_exist():
    known = {}
    for document in DOCUMENTS:
        for text in re.findall(r"`ridgeformer ([a-z][^`]*)`", FENCE.sub("", document.read_text())):
            words = text.split()
            command = get_command(app)
            while words and hasattr(command, "commands"):
                assert words[0] in command.commands or words[0].isupper(), f"{document.name}: {text}"
                command = command.commands[words.pop(0)]
            names = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
            for word in words:
                if word.startswith("--"):
                    assert word.partition("=")[0] in names, f"{document.name}: {text}"
            known[text] = command
    assert len(known) > 20


def test_make_targets_named_in_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\bmake ([a-z-]+)\b(?=[`\s]| {2})", document.read_text()):
            if f"`make {target}`" in document.read_text() or f"\nmake {target}" in document.read_text():
                assert re.search(rf"^{target}:", makefile, re.M), f"{document.name} names make {target}"


def test_links_between_documents_lead_somewhere():
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#:]+)\)", FENCE.sub("", document.read_text())):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_the_files_and_lists_that_contributors_are_sent_to_exist():
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        for name in re.findall(r"`([\w./]+(?:\.py|/))`", line) if line.startswith("|") else ():
            folder = name.rpartition("NAME")[0] or name if "NAME" in name else name
            assert any((root / folder).exists() for root in (ROOT, ROOT / "src" / "ridgeformer")), name
        for listed, file in re.findall(r"`([A-Z]+)` of `([\w./]+\.py)`", line):
            path = next(root / file for root in (ROOT / "src" / "ridgeformer", ROOT) if (root / file).exists())
            assert re.search(rf"^{listed}\b", path.read_text(), re.M), f"{listed} of {file}"


def test_the_figures_of_the_corrections_are_the_ledgers():
    sections = re.split(r"^## ", (ROOT / "docs" / "ledger.md").read_text(), flags=re.M)
    records = {section.split(":")[0]: section for section in sections}
    rows = re.findall(
        r"^\| \[?([WABL]\d+)[^|]*\| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs" / "corrections.md").read_text(), re.M
    )
    assert len(rows) >= 15
    for claim, what, value in rows:
        assert f"| {what} | {value} |" in records[claim], (claim, what)
        assert not re.search(r"^Verdict: \*\*true\*\*", records[claim], re.M), f"{claim} is true by now"


@pytest.mark.slow
def test_the_audit_that_the_readme_shows_is_the_one_it_gives(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["ridgeformer", "audit", "digits", "--out", "audit"])
    with pytest.raises(SystemExit):
        main()
    printed = " ".join(capsys.readouterr().out.split())
    (block,) = [text for _, text in FENCE.findall((ROOT / "README.md").read_text()) if text.startswith("• Who wins")]
    for part in re.split(r"\n\n|\n\.\.\.\n", block):
        assert " ".join(part.split()) in printed, part
