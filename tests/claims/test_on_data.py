"""The claims on data: against the definitions, by plain linear algebra."""

import numpy as np
import pytest
import torch

from ridgeformer import audit, datasets
from ridgeformer.auditing import preset
from ridgeformer.claims.on_data import apply_claims, examine_claims, float32_ridge


@pytest.fixture(scope="module")
def wine():
    return audit(datasets.load("wine"), preset("quick"))


@pytest.fixture(scope="module")
def applied(wine):
    return examine_claims(wine.data, wine.certified.fit, wine.spectra)


def row(applied, claim, words=""):
    (found,) = [row for row in applied.rows if row.claim == claim and words in row.what]
    return found


def test_the_audit_and_the_command_apply_the_same_claims(applied):
    """Their fits differ: the audit tunes on folds like every method of its field, the command by leave-one-out."""
    assert {row.claim for row in apply_claims(datasets.load("wine")).rows} == {row.claim for row in applied.rows}


def test_widths(applied, wine):
    K, ridge = wine.certified.fit.K.numpy(), wine.certified.fit.ridge
    shrink = np.sort(np.linalg.eigvalsh(K))[::-1]
    shrink = shrink / (shrink + ridge)
    assert row(applied, "W4", "best").value == int((shrink > 0.1).sum())
    assert row(applied, "W4", "guarantees").value == min(len(K), np.ceil(shrink.sum() / 0.1) - 1)
    assert list(applied.errors) == sorted(applied.errors, reverse=True)
    assert all(error <= bound + 1e-12 for error, bound in zip(applied.errors, applied.guarantee, strict=True))


def test_a_ridge_for_float32(applied, wine):
    spectrum = np.linalg.eigvalsh(wine.certified.fit.K.numpy())
    ridge = row(applied, "A8").value
    assert (spectrum[-1] + ridge) / (spectrum[0] + ridge) == pytest.approx(1e3, rel=1e-6)
    assert float32_ridge(10.0, 1.0) == 0.0  # well conditioned without any


def test_dropped_part_of_a_query(applied, wine):
    """W3's bound holds for the predictions of the PCA model it speaks of."""
    values, U = np.linalg.eigh(wine.certified.fit.K.numpy())
    m, ridge = int(row(applied, "W4", "best").value), wine.certified.fit.ridge
    k = wine.certified.fit.kernel(wine.data.Xt, wine.data.X).numpy()
    y = wine.data.y.numpy()
    kept = slice(len(values) - m, None)
    full = k @ np.linalg.solve(wine.certified.fit.K.numpy() + ridge * np.eye(len(y)), y)
    narrow = (k @ U[:, kept]) @ ((U[:, kept].T @ y) / (values[kept] + ridge)[:, None])
    bound = row(applied, "W3").value * wine.certified.typical_output
    assert np.abs(full - narrow).max() <= bound


def test_leverage(applied, wine):
    K, ridge = wine.certified.fit.K, wine.certified.fit.ridge
    hat = torch.linalg.solve(K + ridge * torch.eye(len(K), dtype=K.dtype), K)
    assert row(applied, "I2").value == pytest.approx(float(hat.diagonal().max()))


def test_the_answer_is_in_words(applied):
    assert [sentence.split(":")[0] for sentence in applied.sentences[:2]] == ["How wide", "How deep"]
    assert all(np.isfinite(row.value) for row in applied.rows)
