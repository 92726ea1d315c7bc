"""The score of the certified fit as a few lines of scikit-learn that anyone can paste and run."""

from __future__ import annotations

from typing import Any

from ridgeformer.auditing.field import OWN, Field
from ridgeformer.auditing.settings import Settings
from ridgeformer.datasets import Split
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge
from ridgeformer.kernels import Exponential

__all__ = ["write_snippet"]

DIGITS = 6
"""Digits of the score that the snippet prints and the page shows beside it."""

IMPORTS = {
    "ColumnTransformer": "sklearn.compose",
    "VarianceThreshold": "sklearn.feature_selection",
    "SimpleImputer": "sklearn.impute",
    "Normalizer": "sklearn.preprocessing",
    "OneHotEncoder": "sklearn.preprocessing",
    "StandardScaler": "sklearn.preprocessing",
}


def write_snippet(splits: tuple[Split, ...], field: Field, settings: Settings, load: str, *, wide: bool = False) -> str:
    """Return Python that loads the data, holds out the same rows, fits the same pipelines and prints the score.

    Args:
        splits: The splits of the audit.
        field: The field; its certified fit is reproduced.
        settings: Of the audit.
        load: The expression that loads the dataset.
        wide: Whether the certified fit has a sample of the training rows only.
    """
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    own, classes = field.of(OWN), field.task == "classification"
    models = []
    for split, choice in zip(splits, own.choices, strict=True):
        kernel = Exponential(choice["temperature"])
        kernel = Exponential(kernel.temperature, log_scale=kernel.largest_logit(split.X))
        options: dict[str, Any] = {"ridge": choice["ridge"], "algorithm": "direct"}
        if classes and field.balanced:
            options["priors"] = "uniform"
        estimator = (AttentionKernelClassifier if classes else AttentionKernelRidge)(kernel, **options)
        model = Pipeline([*clone(split.encoder).steps, ("fit", estimator)])
        text = model.__repr__(N_CHAR_MAX=10**6)
        models.append(" ".join(text.split()).replace("Exponential(", "rf.Exponential("))
    kind = "AttentionKernelClassifier" if classes else "AttentionKernelRidge"
    used = {name: home for name, home in IMPORTS.items() if any(f"{name}(" in model for model in models)}
    metric = ("balanced_accuracy_score" if field.balanced else "accuracy_score") if classes else "r2_score"
    most = settings.max_rows if len(splits) > 1 else max(settings.max_rows, settings.all_rows)
    given = f"max_rows={most}, preprocessing={settings.preprocessing!r}, seed={settings.seed}"
    if len(splits) == 1:
        given += f", test_fraction={settings.fraction_held_out(splits[0].dataset.n)}"
    folds = f", fold=(k, {len(splits)})" if len(splits) > 1 else ""
    fewer = f".with_training_rows({settings.direct_rows}, seed={settings.seed})" if wide else ""
    lines = [
        "import numpy as np",
        "import ridgeformer as rf",
        f"from ridgeformer import {kind}",
        *(f"from {home} import {name}" for name, home in used.items()),
        f"from sklearn.metrics import {metric}",
        "from sklearn.pipeline import Pipeline",
        "",
        f"data = {load}",
        "models = [",
        *(f"    {model}," for model in models),
        "]",
        "rows, predicted = [], []",
        "for k, model in enumerate(models):  # every split has its own choice of temperature and ridge",
        f"    split = rf.datasets.Split.of(data, {given}{folds}){fewer}",
        "    model.fit(data.X[split.rows], data.y[split.rows])",
        "    rows.append(split.rows_t)",
        "    predicted.append(model.predict(data.X[split.rows_t]))",
        f"score = {metric}(data.y[np.concatenate(rows)], np.concatenate(predicted))",
        f'print(f"{{score:.{DIGITS}f}}")  # {own.test_score:.{DIGITS}f} in this audit',
    ]
    return "\n".join(lines)
