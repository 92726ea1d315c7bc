"""Sketches: fewer feature columns than features, chosen before any data is seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.seeds import torch_generator

__all__ = ["SKETCHES", "sketch_matrix"]

SKETCHES = ("pca", "gaussian", "orthogonal")


def sketch_matrix(kind: str | Any, U: Tensor, rank: int, reference: Any, seed: int) -> Tensor:
    """Return S U, (rank, features): the projected features sketched to `rank` columns.

    Args:
        kind: "pca" keeps the leading directions of the reference rows; "gaussian" has entries N(0, 1/rank);
            "orthogonal" has orthonormal rows; a matrix (rank, projected) is taken as it is.
        U: The projection, (projected, features).
        rank: Columns the stream carries.
        reference: Rows for "pca".
        seed: Of the random ones.
    """
    if not isinstance(kind, str):
        S = as_matrix(kind, "sketch").to(U)
        if S.shape != (rank, U.shape[0]):
            raise ShapeError(f"sketch has shape {tuple(S.shape)}; ({rank}, {U.shape[0]}) was expected at this width.")
        return S @ U
    if kind not in SKETCHES:
        raise unknown_name("sketch", kind, SKETCHES)
    if kind == "pca":
        if reference is None:
            raise InputError(
                "sketch='pca' needs reference=, rows whose leading directions are kept; or use 'orthogonal'."
            )
        rows = as_query(reference, U.T.new_zeros(1, U.shape[1]), "reference") @ U.T
        directions = torch.linalg.svd(rows, full_matrices=True).Vh[:rank]
        return directions @ U
    draw = torch.randn(U.shape[0], rank, generator=torch_generator(seed, "sketch", kind), dtype=U.dtype)
    if kind == "gaussian":
        return draw.T @ U / rank**0.5
    Q, R = torch.linalg.qr(draw)
    return (Q * R.diagonal().sign()).T @ U
