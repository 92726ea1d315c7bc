"""What every test of the command line uses."""

import sys

import pytest

from ridgeformer.cli import main


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in this process: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ridgeformer", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return call
