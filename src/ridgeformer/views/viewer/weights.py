"""The weights of a sublayer as the entries that are not zero: what the page computes its arithmetic with."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP

__all__ = ["sparse_sublayer"]

Entries = list[list[float | int]]


def sparse_sublayer(sublayer: AttentionSublayer | GatedMLP) -> dict[str, Any]:
    """Return a sublayer as plain values, every weight read from its matrices.

    A head is its score pairs [reader column, source column, weight], from W_Q W_K', and its moves [source column,
    target column, weight], from W_V W_O. A unit is its two sides and its outputs, each [column, weight].
    """
    if isinstance(sublayer, AttentionSublayer):
        return {"heads": [_head(sublayer, number) for number in range(len(sublayer.heads))]}
    W_a, W_b, W_d = sublayer.W_a.T, sublayer.W_b.T, sublayer.W_d
    units = [
        {"gate": gate, "a": _row(W_a[unit]), "b": _row(W_b[unit]), "d": _row(W_d[unit])}
        for unit, gate in enumerate(sublayer.gates)
    ]
    return {"units": units}


def _head(sublayer: AttentionSublayer, number: int) -> dict[str, Any]:
    scores = sublayer.W_Q[number].double() @ sublayer.W_K[number].double().T
    moves = sublayer.W_V[number].double() @ sublayer.W_O[number].double()
    rules = [[rule.reader.value, rule.source.value, rule.relation] for rule in sublayer.masks[number].rules]
    return {
        "name": sublayer.heads[number],
        "kind": sublayer.kinds[number],
        "mask": rules,
        "scores": _entries(scores),
        "moves": _entries(moves),
    }


def _entries(matrix: Tensor) -> Entries:
    return [[int(i), int(j), float(matrix[i, j])] for i, j in matrix.nonzero().tolist()]


def _row(row: Tensor) -> Entries:
    return [[int(column), float(row[column])] for (column,) in row.nonzero().tolist()]
