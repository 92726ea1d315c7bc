"""L26: how malleability develops during training."""

from __future__ import annotations

from ridgeformer import datasets
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.datasets import Split
from ridgeformer.influence import AttentionFeatures, Network, influence_over_time, network_malleability
from ridgeformer.influence.attacks import FGSM
from ridgeformer.regime import Training

ROWS, QUERIES, WIDTH, EPS = 100, 40, 256, 0.1
TRAINED = Network(WIDTH, Training("descent", rate=1.0, epochs=60, l2=0.0))
FRESH = Network(WIDTH)


def _attacked(network: Network, problem: Split, seed: int) -> float:
    found = network_malleability(
        network, problem.X, problem.y, problem.Xt, problem.yt, FGSM(EPS), adaptive=False, seed=seed,
        features=AttentionFeatures(),
    )  # fmt: skip
    return 100 * found.attacked.flips_top


def _by_training(problem: Split, seed: int) -> float:
    """Return which share of the top influences changes sign from the start of training to its end, nobody attacking."""
    moments = influence_over_time(
        TRAINED, problem.X, problem.y, problem.Xt, problem.yt, [], features=AttentionFeatures(), seed=seed
    )
    return 100 * moments[-1].since_start.flips_top


def check(cases: int) -> Evidence:
    """Measure three things that the sentence could mean."""
    seeds = range(drawn(cases, 8))
    problems = [
        Split.for_networks(datasets.load("digits"), rows=ROWS, test_rows=QUERIES, seed=s, classes=("3", "8"))
        for s in seeds
    ]
    before, after = (
        [_attacked(network, p, s) for s, p in zip(seeds, problems, strict=True)] for network in (FRESH, TRAINED)
    )
    alone = [_by_training(p, s) for s, p in zip(seeds, problems, strict=True)]
    count = len(problems)
    return Evidence(
        readings=(
            Figure("flips by the attack, kernel at initialisation, %", sum(before) / count),
            Figure("flips by the attack, kernel after training, %", sum(after) / count),
            Figure("flips between start and end of training, no attack, %", sum(alone) / count),
        ),
        corrected=(
            Trial("training alone flips fewer of them than the attack after it", count, int(sum(alone) >= sum(after))),
        ),
        figures=(Figure("largest share of top influences that training alone flips, %", max(alone)),),
    )


L26 = Claim(
    id="L26",
    source="linearized-attention study, appendix E",
    origin=Origin.QUOTED,
    quote="Table 6 presents a comprehensive analysis of attention learning dynamics throughout training, revealing how"
    " influence malleability develops",
    title="Malleability develops during training",
    stated="The malleability of attention's influences changes as the network is trained. The page breaks off before "
    "it says how.",
    formula=r"\mathrm{flips}_{att}(t)",
    verdict=Verdict.UNDEFINED,
    corrected="The sentence is cut off, and three quantities fit it: flips by an attack with the kernel at the start, "
    "the same after training, and flips that training causes on its own. They differ: here the attack flips "
    "about half of the top influences before and after training, and training alone about a tenth.",
    condition="Digits 3 and 8, 100 rows, attention features, width 256, published start, 60 steps of gradient descent.",
    check=check,
)
