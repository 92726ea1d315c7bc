"""Claims A1, A2, A4: one softmax head, its normaliser, and kernel ridge regression."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.checks import corrected, drawn, normal, stated, unit_task
from ridgeformer.claims.claim import Claim, Figure, Pieces, Verdict, plot
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.estimators import NadarayaWatsonRegressor
from ridgeformer.kernels import Exponential
from ridgeformer.language.roles import QUERY
from ridgeformer.solving import solve

NEAR, THIRD, PLACE, RIDGE = [[0.0], [1.0]], [1.1], [[0.6]], 0.1
KERNEL = Exponential(temperature=1.0)


def _a1_ridge(supports: list[list[float]]) -> Tensor:
    """Return the weights of ridge regression."""
    targets = torch.eye(len(supports), dtype=torch.float64)
    return solve(KERNEL, supports, targets, RIDGE).predict(PLACE)[0]


Array = NDArray[np.float64]


def _head(supports: list[list[float]], outputs: int | None = None) -> CompiledTransformer:
    """Return a compiled one-head network; its answer to unit targets is the weights it puts on the supports."""
    return compile(KERNEL, "nadaraya_watson", features=1, ridge=RIDGE, outputs=outputs or len(supports))


def _ratio(weights: Tensor) -> float:
    return float(weights[0] / weights[1])


def token_wise(answer: Array, k: int) -> float:
    """Return the ridge prediction from one head's answer, the moments sum_j w_j x_j^i and sum_j w_j x_j^i y_j.

    Prony's method finds the k supports from 2k moments: they are the roots of a polynomial whose coefficients solve a
    Hankel system. Two Vandermonde systems give w_j and w_j y_j.
    """
    moments, mixed = answer[: 2 * k], answer[2 * k :]
    hankel = np.array([moments[i : i + k] for i in range(k)])
    nodes = np.roots([1.0, *np.linalg.solve(hankel, -moments[k:])[::-1]]).real
    powers = np.vander(nodes, k, increasing=True).T
    targets = np.linalg.solve(powers, mixed) / np.linalg.solve(powers, moments[:k])
    return float(solve(KERNEL, nodes[:, None], targets, RIDGE).predict(PLACE)[0])


def _prony_errors(supports: list[list[float]], draws: int) -> list[float]:
    """Return how far a head whose values carry powers is from ridge regression, for random targets."""
    k, x = len(supports), torch.tensor(supports, dtype=torch.float64)[:, 0]
    model, weights, errors = _head(supports, 3 * k), _a1_ridge(supports), []
    for y in normal((draws, k), 0, "A1", "targets"):
        values = torch.stack([*(x**i for i in range(2 * k)), *(x**i * y for i in range(k))], dim=1)
        answer = model(supports, values, PLACE)[0].numpy()
        errors.append(abs(token_wise(answer, k) - float(weights @ y)))
    return errors


@Claim(
    source="theoretical analysis, theorem 1",
    quote="A Transformer block with a single softmax attention head (queries Q=U Phi, keys K=U Phi) and an aggregator "
    "token can implement the prediction function f(x) = k~(x)^T (K~ + lambda I)^-1 y",
    stated="A transformer block with a single softmax head and an aggregator token computes the ridge prediction with "
    "the exponential kernel.",
    formula=r"f(x) = \tilde k(x)^\top(\tilde K+\lambda I)^{-1}y, \quad "
    r"\tilde K_{ij}=\exp(\tfrac1\tau\langle U\phi_i,U\phi_j\rangle)",
    verdict=Verdict.AMENDED,
    corrected="Not if the head's values carry the targets alone, or if what follows it is linear: the ratio of its "
    "weights on two supports depends on these two alone, and in ridge regression a third support changes it. If the "
    "values also carry powers x^i and x^i y, 3k numbers, and the token-wise map that follows may be any function, one "
    "head does it: Prony's method recovers supports and targets from the moments, exactly for two supports of this "
    "example and to 1e-11 for three. That map is badly conditioned for more. What is practical is depth, one step of "
    "an iteration a block.",
    corrected_formula=r"\frac{w_1}{w_2}\Big|_{\text{head}} = e^{S_1-S_2} \quad\text{whatever else is read};\qquad "
    r"w_{\text{ridge}} = (\tilde K+\lambda I)^{-1}\tilde k(x)",
    condition="Restriction: values carry the targets alone, or the readout is linear, and there are more than two "
    "supports. Prony's method was run on scalar features. Depth one step of conjugate gradients a support is always "
    "enough.",
    arrays={"supports": [0.0, 1.0, 1.1], "query": 0.6, "ridge": 0.1, "temperature": 1.0},
    arithmetic="k(x) = (e^0, e^0.6, e^0.66), so a head has w_1/w_2 = e^-0.6 = 0.5488 with or without the third. Ridge "
    "regression with the first two: (1.1, 1; 1, e + 0.1) w = (1, e^0.6) gives w_1/w_2 = (e + 0.1 - e^0.6)/(1.1 "
    "e^0.6 - 1) = 0.9919; with all three, 1.2986.",
)
def a1(cases: int) -> Pieces:
    """One block with one softmax head does kernel ridge regression."""
    both = (NEAR, [*NEAR, THIRD])
    eyes = [torch.eye(len(supports), dtype=torch.float64) for supports in both]
    ridge = [_a1_ridge(supports) for supports in both]
    head = [_head(supports)(supports, eye, PLACE)[0] for supports, eye in zip(both, eyes, strict=True)]
    deep = []  # largest weight error of a deep network, one step of conjugate gradients a support and some more
    for supports, eye, weights in zip(both, eyes, ridge, strict=True):
        algorithm = ConjugateGradients(steps=len(eye) + 3)
        model = compile(KERNEL, algorithm, features=1, ridge=RIDGE, outputs=len(eye))
        deep.append(float((model(supports, eye, PLACE)[0] - weights).abs().max()))
    same = abs(_ratio(head[1]) / _ratio(head[0]) - 1)
    prony = [_prony_errors(supports, drawn(cases, 20)) for supports in both]
    generator = torch_generator(0, "A1", "third")
    places = 2 * torch.rand(drawn(cases, 200), generator=generator, dtype=torch.float64) - 0.5
    alone = _ratio(ridge[0])
    unmoved = [abs(_ratio(_a1_ridge([*NEAR, [float(x)]])) - alone) <= 1e-6 * abs(alone) for x in places]
    weights_of_ridge = "one block with one head has the weights of ridge regression"
    name = "a head whose values are the targets has ridge regression's weights, to 1e-6"
    equal = [float((a - b).abs().max()) <= 1e-6 for a, b in zip(head, ridge, strict=True)]
    yield stated.holds(name, equal, weights_of_ridge)
    name = "a third support does not move the ratio of the first two ridge weights"
    yield stated.holds(name, unmoved, weights_of_ridge)
    name = "a head whose values carry powers of x predicts the same, two supports"
    yield corrected.within(name, prony[0], 1e-14, weights_of_ridge)
    yield corrected.within("the same, three supports", prony[1], 1e-11, weights_of_ridge)
    yield corrected.holds("a head's ratio is the same whatever else it reads, to 1e-12", same <= 1e-12)
    yield corrected.holds("the deep network has the weights of ridge regression, to 1e-9", [g <= 1e-9 for g in deep])
    yield Figure("ridge: ratio of the first two weights, three supports", _ratio(ridge[1]), shown="1.2986")
    yield Figure("ridge: the same with two supports", alone, shown="0.9919")
    yield Figure("one head: the ratio with three supports", _ratio(head[1]), shown="0.5488")
    yield Figure("one head: the same with two supports", _ratio(head[0]), shown="0.5488")
    yield Figure("largest weight error of the deep network", max(deep))
    for k, errors in zip((2, 3), prony, strict=True):
        yield Figure(f"one head that carries powers of x: largest error, {k} supports", max(errors))
    yield plot(
        "place of the third support", "first weight / second weight", torch.linspace(-0.5, 2.0, 26).tolist(),
        solid={
            "ridge regression": lambda x: _ratio(_a1_ridge([*NEAR, [x]])),
            "one softmax head": lambda x: _ratio(_head([*NEAR, [x]])([*NEAR, [x]], eyes[1], PLACE)[0]),
        },
        caption="The head does not notice the third support; ridge regression shares the second one's weight with it.",
    )  # fmt: skip


SUPPORTS, FEATURES = 24, 16
LOGITS = (1.0, 10.0, 30.0, 100.0, 300.0)


def _product(X: Tensor, v: Tensor, logit: float, dtype: str) -> Tensor:
    """Return e^-c (Kt v) as a compiled network forms it on queries, c the sink logit, equal to the largest logit."""
    kernel = Exponential(1 / logit)
    model = compile(kernel, ConjugateGradients(steps=1), features=X.shape[1], ridge=1.0, sink=logit, dtype=dtype)
    _, cache = model.run_with_cache(X, v, X)
    stream = cache["step 1.undo normalisation.out"]
    return model.channel("u", stream, QUERY, model.tokens(len(X), len(X)))[:, 0].double()


@Claim(
    source="theoretical analysis, proof of theorem 1, step 2; softmax-route note, strategy 2",
    quote="The aggregator token computes Z_i by summing exp(S) values (via a specific head configuration) and "
    "broadcasting them, allowing the model to recover the unnormalized K~ = diag(Z) A.",
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
)
def a2(cases: int) -> Pieces:
    """An aggregator token undoes the normalisation of softmax."""

    def error(X: Tensor, v: Tensor, logit: float, dtype: str) -> float:
        exact = Exponential(1 / logit, log_scale=logit)(X) @ v
        return float(((_product(X, v, logit, dtype) - exact) / exact).abs().max())

    tasks = []  # rows of unit length with entries +-1/4, whose logits float32 holds exactly, and positive targets
    for number in range(drawn(cases, 5)):
        generator = torch_generator(0, "A2", number)
        signs = torch.randint(0, 2, (SUPPORTS, FEATURES), generator=generator).double() * 2 - 1
        v = 0.1 + torch.rand(SUPPORTS, generator=generator, dtype=torch.float64)
        tasks.append((signs / FEATURES**0.5, v.float().double()))
    single, double = (
        [error(X, v, logit, dtype) for X, v in tasks for logit in LOGITS] for dtype in ("float32", "float64")
    )
    X, y, _ = unit_task(SUPPORTS, 3, 1, "A2", "offset")
    raised, plain = (torch.cat([X, torch.full((len(X), 1), c, dtype=torch.float64)], dim=1) for c in (1.0, 0.0))
    head = compile(Exponential(1.0), "nadaraya_watson", features=4, ridge=1.0)
    change = float((head(raised, y, raised) - head(plain, y, plain)).abs().max())
    quotient = _product(raised, y.abs(), 1.0, "float64") / _product(plain, y.abs(), 1.0, "float64")
    factor = float(quotient.mean())
    yield stated.holds("the network's product is Kt v, to 1e-12 in float64", [e <= 1e-12 for e in double])
    yield corrected.within("to 1e-6 in float32, where logits are exact", single, 1e-6)
    yield corrected.holds("softmax alone does not see a common shift of the logits", change <= 1e-12)
    yield corrected.holds("the recovered product does", abs(factor - float(torch.e)) <= 1e-9)
    yield Figure("largest relative error in float32, logits up to 300", max(single))
    yield Figure("the same in float64", max(double))
    X, y, _ = unit_task(SUPPORTS, 3, 1, "A2", "rounded logits")
    rounded = error(X, y.abs(), LOGITS[-1], "float32")
    yield Figure("float32, logit 300, logits that are rounded themselves", rounded)
    yield Figure("change of a head's answer when every logit rises by 1", change)
    yield Figure("factor on the recovered product, which is e", factor, shown="2.718")


TRAIN = 300
SHARPNESS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""1/temperature."""
RIDGES = (0.01, 0.1, 1.0)


@Claim(
    source="softmax-route note, theorem",
    quote="A single softmax attention head, however, implements the normalized Nadaraya-Watson estimator ... which "
    "shares the kernel geometry but differs in prediction.",
    stated="One softmax head implements the normalised kernel average, which shares the kernel with ridge regression "
    "but differs in prediction.",
    formula=r"f_{NW}(x) = \frac{\sum_j \tilde k_j(x)\,y_j}{\sum_j \tilde k_j(x)}",
    verdict=Verdict.TRUE,
    corrected="It is ridge regression's limit of a large ridge, up to scale. To differ is not to be worse: on diabetes "
    "the head errs less where the kernel is sharp.",
    corrected_formula=r"\frac{\lambda f_\lambda(x)}{Z_x} \to f_{NW}(x) \quad (\lambda\to\infty)",
    condition="Any supports; the comparison of errors is of one dataset in the order of its file, with unit rows.",
    computed="one dataset in the order of its file; nothing is drawn",
)
def a4(cases: int) -> Pieces:
    """A single softmax head is the Nadaraya-Watson average, not ridge regression."""
    data = datasets.load("diabetes")  # in the order of its file
    X, Xq = (datasets.unit_rows(rows) for rows in datasets.standardise(data.X[:TRAIN], data.X[TRAIN:]))
    y, yq = (part[:, 0] for part in datasets.standardise(data.y[:TRAIN, None], data.y[TRAIN:, None]))

    def regression(sharpness: float, ridge: float) -> Array:
        return np.asarray(solve(Exponential(1 / sharpness), X, y, ridge).predict(Xq))

    def error(prediction: Array) -> float:
        return float(np.sqrt(np.mean((prediction - yq) ** 2)))

    def gap(a: Array, b: Array) -> float:
        return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    heads, same = {}, []
    for s in SHARPNESS:
        model = compile(Exponential(1 / s), "nadaraya_watson", features=X.shape[1], ridge=1.0)
        heads[s] = np.asarray(model(X, y, Xq))
        same.append(gap(heads[s], NadarayaWatsonRegressor(temperature=1 / s).fit(X, y).predict(Xq)) <= 1e-10)
    ridges = {(s, lam): regression(s, lam) for s in SHARPNESS for lam in RIDGES}
    gaps = [gap(heads[s], f) for (s, _), f in ridges.items()]
    Z = np.asarray(Exponential(1.0)(Xq, X).sum(1))
    limits = {lam: gap(lam * regression(1.0, lam) / Z, heads[1.0]) for lam in (1e4, 1e6, 1e8)}
    better = [error(heads[s]) < error(f) for (s, _), f in ridges.items() if s >= 10]
    worse = [error(heads[s]) > error(ridges[s, 1.0]) for s in (1.0, 2.0)]
    yield stated.holds("one head is the kernel average", same)
    yield stated.holds("its predictions differ from ridge regression's by over 1 %", [each > 0.01 for each in gaps])
    yield corrected.holds("l f_l/Z is within 1e3/l of it", [away <= 1e3 / lam for lam, away in limits.items()])
    yield corrected.holds("on diabetes it errs less for 1/tau >= 10", better)
    yield corrected.holds("and more at 1/tau = 1 and 2, l = 1: neither is always better", worse)
    yield Figure("test error of the head at 1/tau = 10, in standard deviations", error(heads[10.0]))
    yield Figure("test error of ridge regression there, l = 0.1", error(ridges[10.0, 0.1]))
    yield Figure("test error of the head at 1/tau = 1", error(heads[1.0]))
    yield Figure("test error of ridge regression there, l = 1", error(ridges[1.0, 1.0]))
    yield Figure("least relative distance of the two predictions", min(gaps))
    yield Figure("distance of l f_l/Z from the head at l = 1e8", limits[1e8])
    yield plot(
        "1/temperature", "test error, in standard deviations", SHARPNESS, log="x",
        solid={"one softmax head": [error(f) for f in heads.values()]}
        | {f"ridge, l = {ridge:g}": [error(ridges[s, ridge]) for s in SHARPNESS] for ridge in RIDGES},
        caption="Diabetes, 300 rows to learn from and 142 to predict: which is better depends on the temperature.",
    )  # fmt: skip
