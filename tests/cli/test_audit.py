"""`ridgeformer audit` as a person meets it: good data, bad data, what is said and what is written."""

import json
import re
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from ridgeformer.auditing import PRESETS
from tests.auditing.small_audits import SMALL

QUICK = ("--preset", "quick", "--max-rows", "60")


@pytest.fixture
def smaller(monkeypatch):
    """Let the quick preset do as little as it can: these tests are about what is said, not about the numbers."""
    few = {"repeats": 1, "regime_epochs": 5, "steps": 20, "all_rows": 60}
    small = replace(SMALL, **few, methods=("attention", "constant", "linear"))
    monkeypatch.setitem(PRESETS, "quick", small)


@pytest.mark.usefixtures("smaller")
def test_the_page_is_written_and_the_last_line_is_its_path(run, tmp_path):
    code, out, err = run("audit", "wine", "--out", "here", *QUICK)
    assert (code, err) == (0, "")
    assert out.strip().endswith("here/report.html")
    assert (tmp_path / "here" / "report.html").stat().st_size > 1e6
    assert [file.name for file in (tmp_path / "here").iterdir()] == ["report.html"]
    plain = " ".join(out.split())
    for lead in ("Who wins:", "How exact:", "As a transformer:", "How large:", "Explanations:", "What to do:"):
        assert f"• {lead}" in plain
    assert "Only 60 of 178 rows were used" in plain


@pytest.mark.usefixtures("smaller")
def test_as_json_it_is_one_object_with_everything(run, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = run("audit", "diabetes", "--json", "--figures", *QUICK)
    record = json.loads(out)
    assert code == 0
    assert record["page"] == "audit/report.html"
    assert record["convergence"]["bound_holds"]
    assert record["settings"]["repeats"] == 1
    assert "audit/figures/spectrum.svg" in record["figures"]
    assert (tmp_path / "audit" / "figures" / "spectrum.pdf").exists()


def test_an_unknown_preset_is_one_line(run):
    code, _, err = run("audit", "wine", "--preset", "fast")
    assert code == 2
    assert "Known: default, full, quick" in err


def write_lines(path, *lines):
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.usefixtures("smaller")
def test_text_dates_and_missing_values_are_used_and_each_is_said(run, tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        f"{i},{'' if i % 9 == 0 else i % 30},{('Bern', 'Oslo')[i % 2]},2021-01-{i % 28 + 1:02d},{i % 2 + x:.3f}"
        for i, x in enumerate(generator.standard_normal(60) / 5)
    ]
    write_lines(tmp_path / "mine.csv", "id,age,town,day,price", *rows)
    code, out, _ = run("audit", "mine.csv", "--target", "price", "--drop", "day", *QUICK)
    plain = " ".join(out.split())
    assert code == 0
    assert "- Left out: 'id' (it numbers the rows)." in plain
    assert "- Text taken as categories, one column a value: 'town' (2 values)." in plain
    assert "- Missing values: 'age' (7 rows)" in plain
    assert "rf.datasets.load('mine.csv', target='price', drop=('day',))" in plain


def test_what_cannot_be_used_is_named_with_count_and_first_row(run, tmp_path):
    write_lines(tmp_path / "mine.csv", "age,income,y", "31,12,1.5", "42,a lot,2.5", "50,13,3.5", "51,14,4.5")
    code, out, err = run("audit", "mine.csv", "--target", "y")
    assert (code, out) == (2, "")
    assert err == (
        "error: mine.csv: column 'income' holds numbers except in 1 rows, the first in row 1 ('a lot'): correct them, "
        "leave them empty, or leave the column out.\n"
    )


def test_a_model_is_fitted_saved_and_used(run, tmp_path):
    generator = np.random.default_rng(0)
    write_lines(tmp_path / "mine.csv", "x,price", *(f"{x:.3f},{3 * x:.3f}" for x in generator.uniform(0, 1, 50)))
    code, out, err = run("fit", "mine.csv", "--target", "price", "--out", "model.safetensors")
    assert (code, err) == (0, "")
    assert "Use it: ridgeformer predict model.safetensors NEW.csv" in " ".join(out.split())
    write_lines(tmp_path / "new.csv", "x", "0.5", "7")
    code, out, err = run("predict", "model.safetensors", "new.csv")
    head, near, far = out.splitlines()
    assert code == 0
    assert head == "row,price,low,high,outside"
    assert float(near.split(",")[1]) == pytest.approx(1.5, abs=0.1)
    assert near.endswith(",")
    assert "outside its training range" in far
    assert err == "1 of 2 rows lie outside the training range; do not rely on them.\n"
    code, _, err = run("predict", "new.csv", "new.csv")
    assert code == 2
    assert "no model that `ridgeformer fit` wrote" in err


def test_three_rows_are_too_few(run, tmp_path):
    write_lines(tmp_path / "mine.csv", "a,b,y", "1,2,3.5", "4,5,6.5", "7,8,9.5")
    code, _, err = run("audit", "mine.csv")
    assert code == 2
    assert err == "error: mine has 3 rows; holding some out needs at least 10.\n"


def test_one_class_is_no_task(run, tmp_path):
    write_lines(tmp_path / "mine.csv", "a,b,y", *(f"{i},{i * i},yes" for i in range(20)))
    code, _, err = run("audit", "mine.csv")
    assert code == 2
    assert err == "error: column 'y' of mine.csv has one class only ('yes'): at least two are needed.\n"


@pytest.mark.usefixtures("smaller")
def test_many_rows_are_sampled_and_that_is_said_aloud(run, tmp_path):
    X = np.random.default_rng(0).standard_normal((50_000, 3)).round(4)
    np.savez(tmp_path / "many.npz", X=X, y=X[:, 0] * X[:, 1])
    code, out, _ = run("audit", "many.npz", *QUICK)
    assert code == 0
    assert "Only 60 of 50,000 rows were used, drawn at random" in " ".join(out.split())
    assert "Only 60 of 50,000 rows were used" in (tmp_path / "audit" / "report.html").read_text()


@pytest.mark.usefixtures("smaller")
def test_a_constant_column_and_repeated_rows_are_said(run, tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 2))
    rows = [f"{a},7,{b},{'up' if a > 0 else 'down'}" for a, b in np.vstack([X, X])]
    write_lines(tmp_path / "mine.csv", "a,same,b,y", *rows)
    code, out, _ = run("audit", "mine.csv", *QUICK)
    plain = " ".join(out.split())
    assert code == 0
    assert "1 of the 3 features is the same in every training row and says nothing: same." in plain
    assert "30 of the 60 rows repeat an earlier row" in plain
    assert "held-out rows are also training rows, which flatters scores" in plain


def write_table(path, X, y):
    names = [f"x{j}" for j in range(X.shape[1])]
    rows = [",".join(map(repr, map(float, [*row, target]))) for row, target in zip(X, y, strict=True)]
    path.write_text("\n".join([",".join([*names, "y"]), *rows]) + "\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, y * 1e200), "the targets of mine reach"),
        (lambda X, y: (X * 1e200, y), "choose another unit"),
        (lambda X, y: (X * 1e-200, y), "choose another unit"),
        (lambda X, y: (np.ones_like(X), y), "every feature of mine is constant"),
    ],
)
def test_data_no_fit_exists_for_is_one_line(run, tmp_path, change, words):
    generator = np.random.default_rng(0)
    write_table(tmp_path / "mine.csv", *change(generator.standard_normal((40, 2)), generator.standard_normal(40)))
    code, _, err = run("audit", "mine.csv", "--target", "y")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("smaller")
def test_names_with_markup_are_shown_as_they_are(run, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40, 2))
    write_table(tmp_path / "[red]x.csv", X, X[:, 0] + 0.1 * generator.standard_normal(40))
    code, out, _ = run("audit", "[red]x.csv", "--target", "y", "--out", "a[/b]", *QUICK)
    assert code == 0
    assert "Audit of [red]x" in out
    assert "a[/b]" in out


@pytest.mark.usefixtures("smaller")
def test_constant_targets_are_audited_without_infinities(run, tmp_path):
    X = np.random.default_rng(0).standard_normal((40, 2))
    write_table(tmp_path / "mine.csv", X, np.full(40, 0.5))
    code, out, _ = run("audit", "mine.csv", "--target", "y", *QUICK)
    assert code == 0
    assert not re.search(r"\b(inf|nan)\b", out)


@pytest.mark.parametrize(
    ("command", "work"),
    [
        (("audit", "wine", "--out", "here"), "auditing.audit"),
        (("regime", "wine", "--html", "here/report.html"), "regime.answer_regime"),
        (("influence", "wine", "--query", "3", "--html", "here/report.html"), "influence.answer.ask"),
        (("claims", "--html", "here/report.html"), "claims.run_claims"),
    ],
)
@pytest.mark.parametrize("in_the_way", ["here", "here/report.html/"])
def test_a_place_no_page_can_be_written_to_is_said_before_the_work_begins(
    run, tmp_path, monkeypatch, command, work, in_the_way
):
    module, _, name = work.rpartition(".")
    home = import_module(f"ridgeformer.{module}")
    monkeypatch.setattr(home, name, lambda *given, **named: pytest.fail("it began"))
    path = tmp_path / in_the_way
    if in_the_way.endswith("/"):
        path.mkdir(parents=True)
    else:
        path.write_text("")
    code, _, err = run(*command)
    assert code == 2
    assert "choose another place" in err
