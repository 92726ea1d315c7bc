"""A2: can an aggregator token undo the normalisation of softmax attention?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.claims.tasks import unit_task
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.language.roles import QUERY

SUPPORTS, FEATURES = 24, 16
LOGITS = (1.0, 10.0, 30.0, 100.0, 300.0)
OFFSET = 1.0


def _product(X: Tensor, v: Tensor, logit: float, dtype: str) -> Tensor:
    """Return e^-c (Kt v) as a compiled network forms it on queries, c the sink logit, equal to the largest logit."""
    kernel = Exponential(1 / logit)
    model = compile(kernel, ConjugateGradients(steps=1), features=X.shape[1], ridge=1.0, sink=logit, dtype=dtype)
    _, cache = model.run_with_cache(X, v, X)
    stream = cache["step 1.undo normalisation.out"]
    return model.channel("u", stream, QUERY, model.tokens(len(X), len(X)))[:, 0].double()


def _error(X: Tensor, v: Tensor, logit: float, dtype: str) -> float:
    exact = Exponential(1 / logit, log_scale=logit)(X) @ v
    return float(((_product(X, v, logit, dtype) - exact) / exact).abs().max())


def _task(number: int) -> tuple[Tensor, Tensor]:
    """Return rows of unit length with entries +-1/4, whose logits float32 holds exactly, and positive targets."""
    generator = torch_generator(0, "A2", number)
    signs = torch.randint(0, 2, (SUPPORTS, FEATURES), generator=generator).double() * 2 - 1
    v = 0.1 + torch.rand(SUPPORTS, generator=generator, dtype=torch.float64)
    return signs / FEATURES**0.5, v.float().double()


def _seen_by_softmax() -> tuple[float, float]:
    """Return how a head's answer, and the product's, change if every logit is raised by OFFSET^2."""
    X, y, _ = unit_task(SUPPORTS, 3, 1, "A2", "offset")
    raised = torch.cat([X, torch.full((len(X), 1), OFFSET, dtype=torch.float64)], dim=1)
    plain = torch.cat([X, torch.zeros(len(X), 1, dtype=torch.float64)], dim=1)
    head = compile(Exponential(1.0), "nadaraya_watson", features=4, ridge=1.0)
    change = float((head(raised, y, raised) - head(plain, y, plain)).abs().max())
    v = y.abs()
    return change, float((_product(raised, v, 1.0, "float64") / _product(plain, v, 1.0, "float64")).mean())


def check(cases: int) -> Evidence:
    """Compare a network's product with the kernel's, in both precisions, up to logits of 300."""
    tasks = [_task(number) for number in range(drawn(cases, 5))]
    single = [_error(X, v, logit, "float32") for X, v in tasks for logit in LOGITS]
    double = [_error(X, v, logit, "float64") for X, v in tasks for logit in LOGITS]
    X, y, _ = unit_task(SUPPORTS, 3, 1, "A2", "rounded logits")
    change, raised = _seen_by_softmax()
    count = len(single)
    figures = (
        Figure("largest relative error in float32, logits up to 300", max(single)),
        Figure("the same in float64", max(double)),
        Figure("float32, logit 300, logits that are rounded themselves", _error(X, y.abs(), LOGITS[-1], "float32")),
        Figure("change of a head's answer when every logit rises by 1", change),
        Figure("factor on the recovered product, which is e", raised, shown="2.718"),
    )
    return Evidence(
        stated=(Trial("the network's product is Kt v, to 1e-12 in float64", count, sum(e > 1e-12 for e in double)),),
        corrected=(
            Trial(
                "to 1e-6 in float32, where logits are exact", count, sum(e > 1e-6 for e in single), max(single) / 1e-6
            ),
            Trial("softmax alone does not see a common shift of the logits", 1, int(change > 1e-12)),
            Trial("the recovered product does", 1, int(abs(raised - float(torch.e)) > 1e-9)),
        ),
        figures=figures,
    )


A2 = Claim(
    id="A2",
    source="theoretical analysis, proof of theorem 1, step 2; softmax-route note, strategy 2",
    origin=Origin.QUOTED,
    quote="The aggregator token computes Z_i by summing exp(S) values (via a specific head configuration) and "
    "broadcasting them, allowing the model to recover the unnormalized K~ = diag(Z) A.",
    title="An aggregator token undoes the normalisation of softmax",
    stated="Softmax returns the kernel divided by its row sums; with the row sums from an aggregator token the network "
    "recovers the kernel.",
    formula=r"\tilde K = \mathrm{diag}(Z)\,A, \quad A_{ij} = e^{S_{ij}}/Z_i",
    verdict=Verdict.TRUE,
    corrected="It takes a sink: the aggregator has a constant logit c, and one division gives the product without the "
    "row sum ever being formed. Softmax alone sees only ratios, so without it the scale is lost.",
    corrected_formula=r"(\tilde K v)_i = e^c\,\frac{o_i}{a_i}, \quad o_i = \frac{\sum_j e^{S_{ij}}v_j}{e^c+Z_i}, \quad "
    r"a_i = \frac{e^c}{e^c+Z_i}",
    condition="The sink logit is near the largest logit of every row, within 80 in float32. A logit S that is itself "
    "rounded costs another S eps.",
    check=check,
)
