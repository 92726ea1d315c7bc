"""Claims W6, W7, W8, W10: width in networks: logits, overhead, tokens, and the rate of conjugate gradients."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.batched import (
    apply,
    conjugate_gradients,
    norm,
    orthonormal,
    prescribed,
    resolvent,
    spectrum_of,
    textbook,
)
from ridgeformer.claims.checks import Numbers, Sides, corrected, drawn, inequalities, inequality, normal, stated
from ridgeformer.claims.claim import Claim, Figure, Pieces, Verdict, plot
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Kernel

W6_ROWS = [[2.0, 0.5], [-1.0, 1.0]]
W6_SIZE, W6_FEATURES, KEPT = 4, 3, 1


@Claim(
    source="width-rank note, width-rank theorem (softmax)",
    quote="Softmax Route A: identical statements hold with K replaced by K~ and sigma_i replaced by the spectrum of "
    "K~.",
    stated="Replace K by the exponential kernel and its eigenvalues, and the width-rank theorem stays as it is.",
    formula=r"\|\tilde K - \hat{\tilde K}\|_2 \le \sum_{i>m}\sigma_i(\tilde K)",
    verdict=Verdict.FALSE,
    corrected="Width carries logits, not the kernel: width 1 can carry a kernel of full rank, and what a projection "
    "costs depends on the logits E it drops.",
    corrected_formula=r"\|\tilde K-\hat{\tilde K}\|_2 \le \min\Big("
    r"\max_i \hat{\tilde K}_{ii}\,\|e^{[E]} - 11^\top\|_2,\; "
    r"\|\hat{\tilde K}\|_2\,(\max_i e^{E_{ii}}-1)\Big), \quad E = L - \hat L \succeq 0",
    condition="The rows are projected orthogonally; then W2 takes it from the kernel to the resolvent.",
    arrays={"X": W6_ROWS, "kept": "the first coordinate"},
    arithmetic="L = [[4.25, -1.5], [-1.5, 2]] and the width-1 logits are [[4, -2], [-2, 1]]: e^4.25 - e^4 = 15.507 "
    "already exceeds sigma_2 = 7.388.",
)
def w6(cases: int) -> Pieces:
    """The same statements hold for softmax attention, with its kernel's spectrum."""

    def logits(scale: float) -> tuple[Tensor, Tensor]:
        X = scale * torch.tensor(W6_ROWS, dtype=torch.float64)
        return X @ X.T, X[:, :1] @ X[:, :1].T

    def error(scale: float) -> float:
        L, Lh = logits(scale)
        return float(norm(L.exp() - Lh.exp()))

    def second(scale: float) -> float:
        return float(spectrum_of(logits(scale)[0].exp())[1])

    rank = int(torch.linalg.matrix_rank(logits(1.0)[1].exp()))
    name = "norm(K - Kh) <= sigma_2 + ... of the exponential kernel"
    yield stated.within(name, [error(1.0)], second(1.0), "the kernel's error is at most the tail")
    yield corrected.holds("width 1 can carry a kernel of full rank", rank == 2)
    yield corrected.search(_w6["W6 semidefinite"], cases)
    yield corrected.search(_w6["W6 bound"], cases)
    yield Figure("error of width 1", error(1.0), shown="15.508")
    yield Figure("sigma_2, which it should not exceed", second(1.0), shown="7.388")
    yield Figure("bound of the correction", bounds.logit_sketch_bound(*logits(1.0)))
    yield Figure("rank of the kernel that width 1 carries", float(rank), shown="2")
    yield plot(
        "length of the rows", "norm(K - Kh)", torch.linspace(0.1, 1.0, 40).tolist(), log="y",
        solid={"error of width 1": error},
        dashed={
            "sigma_2 of the kernel, as stated": second,
            "bound of the correction": lambda scale: bounds.logit_sketch_bound(*logits(scale)),
        },
        caption="The error crosses the stated bound; the corrected one stays above.",
    )  # fmt: skip


W7_STEPS, RIDGE = 6, 0.5


ALLOWED: dict[str, tuple[Kernel, int]] = {"linear": (DotProduct(), 11), "softmax": (Exponential(1.0), 12)}
"""Kernel of each route, and the channels that it may take beside the features."""


@Claim(
    source="width-rank note, width-rank theorem",
    quote="If m >= p + c (channels for CG state), then there exists a parameterization realizing t CG steps on KRR "
    "exactly (up to numeric precision)",
    stated="With c further channels for the state of the iteration, a transformer runs t steps of conjugate gradients "
    "exactly, whatever t.",
    formula=r"m \ge p + c \;\Rightarrow\; t \text{ exact CG steps}",
    verdict=Verdict.TRUE,
    condition="A reciprocal unit, and for softmax attention a product unit; c at most 11 (linear) and 12 (softmax), "
    "independent of p, k, q and t.",
)
def w7(cases: int) -> Pieces:
    """Width p + c is enough for any number of exact CG steps."""
    figures = []
    for route, (kernel, allowed) in ALLOWED.items():
        gaps, overheads = [], []
        for features in (2, 5, 9):
            model = compile(kernel, ConjugateGradients(steps=W7_STEPS), features=features, ridge=RIDGE)
            overheads.append(model.budget.overhead)
            gaps += [_largest_gap(model, kernel, route, features, task) for task in range(drawn(cases, 1))]
        yield stated.holds(f"{route} attention: every iterate equals CG's to 1e-10", [g <= 1e-10 for g in gaps])
        yield stated.holds(f"{route} attention: c <= {allowed}, whatever p", [c <= allowed for c in overheads])
        figures.append(Figure(f"overhead c, {route} attention", float(max(overheads))))
        figures.append(Figure(f"largest difference from textbook CG, {route} attention", max(gaps)))
    yield from figures


def _largest_gap(model: CompiledTransformer, kernel: Kernel, route: str, features: int, task: int) -> float:
    generator = torch_generator(task, "W7", route, features)
    X = torch.randn(8, features, generator=generator, dtype=torch.float64) / features**0.5
    y = torch.randn(8, generator=generator, dtype=torch.float64)
    K = kernel(X)
    steps = min(W7_STEPS, int(torch.linalg.matrix_rank(K)))  # beyond its rank CG has converged
    found = model.trace(X, y, X[:1]).alpha[:steps].reshape(steps, -1)
    expected = torch.stack([state.alpha for state in islice(textbook(lambda p: K @ p + RIDGE * p, y), steps)])
    return float(((found - expected).norm(dim=1) / expected.norm(dim=1)).max())


W8_ROWS, W8_FEATURES, TOKENS = 8, 6, 3
WIDTH = W8_FEATURES // TOKENS


@Claim(
    source="width-rank note, width-rank theorem (scope)",
    quote="any linear preservation of features induces a low-rank sketch K^ of rank at most m",
    stated="A computation of width m < p can carry no more than a rank-m sketch of the kernel.",
    formula=r"m < p \;\Rightarrow\; \mathrm{rank}\,\hat K \le m",
    verdict=Verdict.AMENDED,
    corrected="That holds for one token and one linear read. Features split over several tokens of smaller width give "
    "the kernel exactly, because scores add up.",
    corrected_formula=r"K = \sum_{b=1}^{B} \Phi_b \Phi_b^\top, \quad \mathrm{rank}\,\Phi_b\Phi_b^\top \le p/B",
    condition="One token an example, read linearly.",
    arrays={"row 1": [1.0, 2.0], "row 2": [3.0, 4.0]},
    arithmetic="Two tokens of width 1 each: 1*3 from the first plus 2*4 from the second is 11 = <(1, 2), (3, 4)>.",
)
def w8(cases: int) -> Pieces:
    """Width limits rank."""
    whole, ranks, gaps = [], [], []
    for seed in range(drawn(cases, 5)):
        X = normal((W8_ROWS, W8_FEATURES), seed, "W8")
        tokens = X.reshape(W8_ROWS, TOKENS, WIDTH)  # token b of a row holds features b*width .. (b + 1)*width
        reads = torch.stack([tokens[:, b] @ tokens[:, b].T for b in range(TOKENS)])  # one head's scores at each place
        whole.append(int(torch.linalg.matrix_rank(reads.sum(0))))
        ranks += torch.linalg.matrix_rank(reads).tolist()
        gaps.append(float((reads.sum(0) - X @ X.T).norm() / (X @ X.T).norm()))
    narrow = f"the rank is at most the width, {WIDTH}"
    stream, read = (f"{what} carries rank {WIDTH} at most" for what in ("a stream", "each linear read of one token"))
    yield stated.holds(stream, [r <= WIDTH for r in whole], narrow)
    yield corrected.holds(read, [r <= WIDTH for r in ranks], narrow)
    yield corrected.holds("the reads of all tokens add up to K, to 1e-14", [gap <= 1e-14 for gap in gaps])
    yield Figure(f"rank carried by {TOKENS} tokens of width {WIDTH}", float(min(whole)), shown=str(W8_FEATURES))
    yield Figure("largest rank of one read", float(max(ranks)), shown=str(WIDTH))
    yield Figure("largest relative difference from K", max(gaps))


W10_SIZE, W10_STEPS = 4, 2


def _case(take: Numbers) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return K, the spectrum of its sketch (in whose eigenbasis all is written), the ridge and the targets."""
    K = prescribed(take.matrix(W10_SIZE, W10_SIZE), take.spectrum(W10_SIZE))
    return K, take.spectrum(W10_SIZE), take.positive(), take.vector(W10_SIZE)


@inequality("W10", "error <= 2 sqrt(k) rate^t norm(Rh y) + s/(l(l + s)) norm(y), t = 2")
def _w10_total(take: Numbers) -> Sides:
    K, h, ridge, y = _case(take)
    A = h + ridge[:, None]
    kappa = A[:, 0] / A[:, -1]
    rate = (kappa.sqrt() - 1) / (kappa.sqrt() + 1)
    error = (conjugate_gradients(A, y, W10_STEPS).alpha - apply(resolvent(K, ridge), y)).norm(dim=-1)
    s = norm(K - torch.diag_embed(h))
    bias = s / (ridge * (ridge + s)) * y.norm(dim=-1)
    return error, 2 * kappa.sqrt() * rate**W10_STEPS * (y / A).norm(dim=-1) + bias


@Claim(
    source="width-rank note, implications",
    quote="Depth-accuracy: unchanged from CG rate provided the mat-vec uses K (or K~); with sketch K^, an additional "
    "bias arises from K -> K^ perturbation.",
    stated="Depth and accuracy follow the rate of conjugate gradients; a sketched kernel adds a bias that depth does "
    "not remove.",
    formula=r"\|\alpha_t - \alpha^*\| \le \text{(rate of CG)} + \|(R - \hat R)\,y\|",
    verdict=Verdict.TRUE,
    corrected="The rate is that of the sketch's own condition number, and the bias is at most s/(l(l + s)) norm(y) "
    "(W2).",
    corrected_formula=r"\|\alpha_t-\alpha^*\| \le 2\sqrt{\hat\kappa}"
    r"\Big(\frac{\sqrt{\hat\kappa}-1}{\sqrt{\hat\kappa}+1}\Big)^t\|\hat\alpha^*\| + \frac{s}{\lambda(\lambda+s)}\|y\|",
    condition="K and its sketch positive semidefinite, s the norm of their difference; a start at zero.",
)
def w10(cases: int) -> Pieces:
    """A sketch adds a bias to the rate of conjugate gradients."""
    K, h, ridge, y = _case(Numbers(normal((drawn(cases, 200), _w10_total.size), 0, "W10") / 2))
    exact, A = apply(resolvent(K, ridge), y), h + ridge[:, None]
    end = conjugate_gradients(A, y, W10_SIZE).alpha
    error, bias = ((alpha - exact).norm(dim=-1) / exact.norm(dim=-1) for alpha in (end, y / A))
    gaps = (error - bias).abs()
    yield stated.search(_w10_total, cases)
    yield stated.within("after convergence the error is the bias, norm((R - Rh)y), and no less", gaps, 1e-6)
    yield corrected.holds("the bias is there: above 1e-3 in half of the draws or more", bias.median() > 1e-3)
    yield Figure("median relative bias of a random sketch", float(bias.median()))
    yield Figure("largest difference of the final error from the bias", float(gaps.max()))


@inequalities("W6 bound", "W6 semidefinite")
def _w6(take: Numbers) -> dict[str, Sides]:
    """For L = X X' and the logits of X projected to KEPT directions; entries of X between -1.5 and 1.5."""
    X, V = 1.5 * torch.tanh(take.matrix(W6_SIZE, W6_FEATURES)), orthonormal(take.matrix(W6_FEATURES, KEPT))
    L, Lh = X @ X.mT, (X @ V) @ (X @ V).mT
    K, Kh, growth = L.exp(), Lh.exp(), (L - Lh).expm1()
    by_kernel = Kh.diagonal(dim1=-2, dim2=-1).amax(-1) * norm(growth)
    by_growth = norm(Kh) * growth.diagonal(dim1=-2, dim2=-1).amax(-1)
    bound, smallest = torch.minimum(by_kernel, by_growth), spectrum_of(K - Kh)[:, -1]
    return {
        "norm(K - Kh) <= min(max Kh_ii norm(e^E - 11'), norm(Kh) max(e^E_ii - 1))": (norm(K - Kh), bound),
        "K - Kh = Kh o (e^E - 11') is semidefinite": (1 - smallest / norm(K), torch.ones_like(smallest)),
    }
