from __future__ import annotations

import pytest

from ridgeformer.core.errors import FetchError
from ridgeformer.datasets import tools


def test_a_program_on_path_is_found_and_run(stub, nowhere, tmp_path) -> None:
    stub("client", 'echo "$1" > said')
    tools.run_tool([tools.find_tool("client", "never")], tmp_path)
    assert (tmp_path / "said").exists()


def test_a_missing_program_gives_the_advice() -> None:
    with pytest.raises(FetchError, match=r"client was not found on PATH: install it"):
        tools.find_tool("client", "install it")


def test_a_failure_quotes_the_program_in_one_line(stub, nowhere, tmp_path) -> None:
    stub("client", "echo one >&2; echo two >&2; exit 3")
    with pytest.raises(FetchError, match=r"`client pack x` ended with code 3 \(one two\)"):
        tools.run_tool([str(nowhere / "client"), "pack", "x"], tmp_path)
    stub("client", "exit 1")
    with pytest.raises(FetchError, match=r"said nothing"):
        tools.run_tool([str(nowhere / "client")], tmp_path)


def test_arguments_never_reach_a_shell(stub, nowhere, tmp_path) -> None:
    stub("client", "exit 0")
    tools.run_tool([str(nowhere / "client"), "; echo > owned"], tmp_path)
    assert not (tmp_path / "owned").exists()


def test_a_program_that_hangs_is_stopped(stub, nowhere, tmp_path, monkeypatch) -> None:
    stub("client", "exec /bin/sleep 30")
    monkeypatch.setattr(tools, "TIMEOUT_SECONDS", 0.1)
    with pytest.raises(FetchError, match=r"did not finish"):
        tools.run_tool([str(nowhere / "client")], tmp_path)


def test_a_program_that_cannot_start_is_an_error(tmp_path, nowhere) -> None:
    (nowhere / "client").write_text("no script")
    with pytest.raises(FetchError, match=r"could not be started"):
        tools.run_tool([str(nowhere / "client")], tmp_path)
