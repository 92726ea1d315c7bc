"""Which training points made a prediction, how far that answer can be trusted, and how easily it is changed.

Everything follows from one `Fit`, R = (K + ridge I)^-1: what a point adds to a prediction is exact
(`leave_one_out`, `leave_group_out`, `label_change`) and needs no refit. `attacks` move training rows, `malleability`
says what that does to the influences, beside its controls, and `smallest_flipping_eps` how little is enough.
`ask` answers for one row of a dataset, in words; `ask_network` does for a network of one's own.
`estimators` do without the n x n matrix, and say how far they can be off.
"""

from ridgeformer.influence import attacks
from ridgeformer.influence.adapters import captum_scores, dattri_scores
from ridgeformer.influence.answer import Answer, ask, ask_network
from ridgeformer.influence.attribution import AttributionReport, judge_scores, score_malleability
from ridgeformer.influence.baseline import Comparison, compare
from ridgeformer.influence.estimators import nystrom_influence, pcg_influence, stochastic_influence
from ridgeformer.influence.exact import (
    Influence,
    cross_entropy,
    feature_change,
    influence,
    label_change,
    leave_group_out,
    leave_one_out,
    squared_loss,
)
from ridgeformer.influence.features import AttentionFeatures, RawFeatures, UnitRows
from ridgeformer.influence.flipping import FlippingEps, smallest_flipping_eps
from ridgeformer.influence.malleable import (
    Intervention,
    Interventions,
    Malleability,
    Moment,
    Network,
    adversarial_rows,
    influence_over_time,
    intervene,
    malleability,
    network_malleability,
)
from ridgeformer.influence.oracle import (
    draw_subsets,
    largest_group,
    linear_datamodeling_score,
    nearest_neighbour_shapley,
    removal_effects,
    shapley_values,
    subset_predictions,
)

__all__ = [
    "Answer",
    "AttentionFeatures",
    "AttributionReport",
    "Comparison",
    "FlippingEps",
    "Influence",
    "Intervention",
    "Interventions",
    "Malleability",
    "Moment",
    "Network",
    "RawFeatures",
    "UnitRows",
    "adversarial_rows",
    "ask",
    "ask_network",
    "attacks",
    "captum_scores",
    "compare",
    "cross_entropy",
    "dattri_scores",
    "draw_subsets",
    "feature_change",
    "influence",
    "influence_over_time",
    "intervene",
    "judge_scores",
    "label_change",
    "largest_group",
    "leave_group_out",
    "leave_one_out",
    "linear_datamodeling_score",
    "malleability",
    "nearest_neighbour_shapley",
    "network_malleability",
    "nystrom_influence",
    "pcg_influence",
    "removal_effects",
    "score_malleability",
    "shapley_values",
    "smallest_flipping_eps",
    "squared_loss",
    "stochastic_influence",
    "subset_predictions",
]
