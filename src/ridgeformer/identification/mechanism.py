"""Mechanism: are the states of an algorithm in the stream, and do the predictions follow when they are changed?

A state that can be decoded need not be used. So every hypothesised state is probed, beside the same probe on the input
alone, and then patched: moved along its direction in the stream, with the change of the predictions held against that
of the algorithm continued from the changed state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import isfinite
from typing import TypeAlias

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.words import listed, number
from ridgeformer.identification.candidates import Candidate
from ridgeformer.identification.controls import untrained
from ridgeformer.identification.reading import Readable, readable
from ridgeformer.identification.tasks import TaskGroup, Tasks

__all__ = ["Hypothesis", "Mechanism", "StateTest", "examine", "hypotheses"]

DECODED, CONCORDANT, INERT = 0.95, 0.9, 0.02
INPUT = 0.99  # a state that the input alone explains this well has no direction of its own in the stream
ORDERED = ", sizes "  # in the name of a hypothesis, before its step sizes in order
MOST_ORDERED = 4  # steps up to which every order of unequal sizes is a hypothesis
CONVERGED = 1e-6  # residuals below this fraction of the targets leave nothing to decode


@dataclass(frozen=True)
class StateTest:
    """One hypothesised state at one step.

    Attributes:
        step: After which step.
        state: r, p or alpha.
        site: Where in the stream it is read best.
        probe: Held-out R^2 of the state from the stream.
        baseline: The same from x, y and 1.
        twin: The same from the stream of an untrained twin; None where there is none.
        concordance: Agreement of the changed predictions with the algorithm's; None where no effect is predicted.
        effect: Size of the change of the predictions, relative to the predictions.
        control: The same for a random direction orthogonal to the state's.
        driving: Whether the algorithm, continued from the changed state, predicts otherwise by 2 % or more.
    """

    step: int
    state: str
    site: str
    probe: float
    baseline: float
    concordance: float | None
    effect: float
    control: float
    driving: bool
    twin: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the state is decoded, and its change has the predicted effect or, as predicted, none."""
        if self.probe < DECODED:
            return False
        return self.concordance is not None and self.concordance >= CONCORDANT if self.driving else self.effect < INERT

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.probe < DECODED:
            return "not decodable"
        if not self.driving:
            return "decodable and inert, as predicted" if self.passed else "decodable, and not inert as predicted"
        return "decodable and used" if self.passed else "decodable, but not used this way"


@dataclass(frozen=True)
class Mechanism:
    """What the layers say, hypothesis by hypothesis."""

    tests: dict[str, tuple[StateTest, ...]]

    @property
    def confirmed(self) -> tuple[str, ...]:
        """Hypotheses all of whose states pass, and at least one of which drives the predictions."""
        return tuple(
            name for name, tests in self.tests.items()
            if tests and all(one.passed for one in tests) and any(one.driving for one in tests)
        )  # fmt: skip

    @property
    def sentence(self) -> str:
        """The verdict of its own."""
        if not any(self.tests.values()):
            return "Inside: nothing could be tested, as every hypothesis has converged or has one step only."
        if self.confirmed:
            others = [name for name in self.tests if name not in self.confirmed]
            failed = f"; {listed(_without_orders(others))} not" if others else ""
            return f"Inside: {listed(self.confirmed)} confirmed by probe and patch{failed}."
        return f"Inside: {listed(_without_orders(self.tests), 'or')} not confirmed: a probe or a patch fails."


def _without_orders(names: Iterable[str]) -> list[str]:
    """Return the names of hypotheses, those that differ in the order of their steps only once."""
    return list(dict.fromkeys(name.replace(name[name.find(ORDERED) :], " in another order") if ORDERED in name else name
                              for name in names))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """An algorithm as a recursion on states of the supports, for one group of tasks.

    Attributes:
        name: In words.
        steps: Its depth.
        matrices: A group to (A, K of queries and supports): (T, k, k) and (T, q, k).
        advance: (state, A, Kq, y, steps done) to the next state; a state holds (T, k) tensors, scalars (T, 1) and f,
            (T, q).
        first: y to the state before the first step, without f.
        states: Those that are tested.
    """

    name: str
    steps: int
    matrices: Callable[[TaskGroup], tuple[Tensor, Tensor]]
    advance: Callable[[dict[str, Tensor], Tensor, Tensor, Tensor, int], dict[str, Tensor]]
    first: Callable[[Tensor], dict[str, Tensor]]
    states: tuple[str, ...]

    def run(self, group: TaskGroup) -> list[dict[str, Tensor]]:
        """Return the states after step 1, 2, ..."""
        A, Kq = self.matrices(group)
        state = {**self.first(group.y), "f": torch.zeros(Kq.shape[:2], dtype=torch.float64)}
        found = []
        for done in range(self.steps):
            state = self.advance(state, A, Kq, group.y, done)
            found.append(state)
        return found

    def finish(self, state: dict[str, Tensor], done: int, group: TaskGroup) -> Tensor:
        """Return the predictions of the algorithm continued from a state after `done` steps."""
        A, Kq = self.matrices(group)
        for place in range(done, self.steps):
            state = self.advance(state, A, Kq, group.y, place)
        return state["f"]


def _times(A: Tensor, v: Tensor) -> Tensor:
    return (A @ v[..., None])[..., 0]


def _cg(state: dict[str, Tensor], A: Tensor, Kq: Tensor, y: Tensor, done: int) -> dict[str, Tensor]:
    p, rho = state["p"], state["rho"]
    u = _times(A, p)
    curvature = (p * u).sum(-1, keepdim=True)
    gamma = torch.where(curvature > 1e-250, rho / curvature.clamp_min(1e-250), 0.0)
    r = state["r"] - gamma * u
    new = r.square().sum(-1, keepdim=True)
    beta = torch.where(rho > 1e-250, new / rho.clamp_min(1e-250), 0.0)
    return {
        "alpha": state["alpha"] + gamma * p,
        "r": r,
        "p": r + beta * p,
        "rho": new,
        "f": state["f"] + gamma * _times(Kq, p),
    }


def _descent_by_residuals(sizes: Sequence[float]) -> Callable[..., dict[str, Tensor]]:
    def advance(state: dict[str, Tensor], A: Tensor, Kq: Tensor, y: Tensor, done: int) -> dict[str, Tensor]:
        r, eta = state["r"], sizes[done]
        return {"alpha": state["alpha"] + eta * r, "r": r - eta * _times(A, r), "f": state["f"] + eta * _times(Kq, r)}

    return advance


def _descent_by_coefficients(sizes: Sequence[float]) -> Callable[..., dict[str, Tensor]]:
    def advance(state: dict[str, Tensor], A: Tensor, Kq: Tensor, y: Tensor, done: int) -> dict[str, Tensor]:
        alpha = state["alpha"] + sizes[done] * (y - _times(A, state["alpha"]))
        return {"alpha": alpha, "f": _times(Kq, alpha)}

    return advance


def hypotheses(
    candidates: Sequence[Candidate], mean_square: float, depth: int | None, covariance: Tensor | None = None
) -> list[Hypothesis]:
    """Return conjugate gradients and forms of gradient descent, each with the parameters fitted to the outputs.

    `depth` is the number of steps where it is known; else that of each family's best member is used. Unequal steps give
    one hypothesis for every order: the predictions are the same in all of them, and only the states tell.
    """
    found = []
    for names, make in ((("cg", "kernel_cg_exponential", "kernel_cg_gaussian"), _cg_hypotheses),
                        (("gd", "kernel_gd_exponential", "kernel_gd_gaussian"), _gd_hypotheses),
                        (("gd_unequal", "gd_covariance"), _ordered_hypotheses)):  # fmt: skip
        chosen = [one for one in candidates if one.family.name in names and not one.member.adaptive
                  and depth in (None, one.member.steps) and (one.member.steps or 0) > 1]  # fmt: skip
        if chosen:
            found += make(min(chosen, key=lambda one: one.loss), mean_square, covariance)
    return found


def _matrices(
    one: Candidate, mean_square: float, covariance: Tensor | None
) -> Callable[[TaskGroup], tuple[Tensor, Tensor]]:
    name, ridge = one.family.name, one.values.get("ridge", 0.0)

    def matrices(group: TaskGroup) -> tuple[Tensor, Tensor]:
        k = group.X.shape[1]
        right = group.X.mT if covariance is None or name != "gd_covariance" else covariance.inverse() @ group.X.mT
        K, Kq = group.X @ right, group.Xq @ right
        if name.startswith("kernel"):
            temperature = one.values["temperature over mean squared length"] * mean_square
            if name.endswith("gaussian"):
                half, half_q = group.X.square().sum(-1) / 2, group.Xq.square().sum(-1) / 2
                K, Kq = K - half[:, :, None] - half[:, None], Kq - half_q[:, :, None] - half[:, None]
            K, Kq = (K / temperature).exp(), (Kq / temperature).exp()
        elif one.member.mean:
            K, Kq = K / k, Kq / k
        return K + ridge * torch.eye(k, dtype=torch.float64), Kq

    return matrices


def _cg_hypotheses(one: Candidate, mean_square: float, covariance: Tensor | None) -> list[Hypothesis]:
    def first(y: Tensor) -> dict[str, Tensor]:
        return {"alpha": torch.zeros_like(y), "r": y, "p": y, "rho": y.square().sum(-1, keepdim=True)}

    states, matrices = ("r", "p", "alpha"), _matrices(one, mean_square, covariance)
    return [Hypothesis(one.title, one.member.steps or 1, matrices, _cg, first, states)]


def _both(y: Tensor) -> dict[str, Tensor]:
    return {"alpha": torch.zeros_like(y), "r": y}


def _alone(y: Tensor) -> dict[str, Tensor]:
    return {"alpha": torch.zeros_like(y)}


def _gd_hypotheses(one: Candidate, mean_square: float, covariance: Tensor | None) -> list[Hypothesis]:
    matrices, steps = _matrices(one, mean_square, covariance), one.member.steps or 1
    sizes = [one.values["step"]] * steps
    return [
        Hypothesis(f"{one.title} by residuals", steps, matrices, _descent_by_residuals(sizes), _both, ("r",)),
        Hypothesis(
            f"{one.title} by coefficients", steps, matrices, _descent_by_coefficients(sizes), _alone, ("alpha",)
        ),
    ]


def _ordered_hypotheses(one: Candidate, mean_square: float, covariance: Tensor | None) -> list[Hypothesis]:
    """Return descent by residuals with unequal steps in every order; all orders make the same predictions."""
    matrices, steps = _matrices(one, mean_square, covariance), one.member.steps or 1
    if steps > MOST_ORDERED:
        return []
    return [
        Hypothesis(f"{one.title}{ORDERED}{', '.join(number(size) for size in sizes)} in this order", steps, matrices,
                   _descent_by_residuals(sizes), _both, ("r",))
        for sizes in permutations(one.values.values())
    ]  # fmt: skip


def examine(
    model: object,
    layers: Sequence[str] | None,
    tasks: Tasks,
    candidates: Sequence[Candidate],
    mean_square: float,
    *,
    seed: int,
) -> Mechanism | None:
    """Return the mechanism of a model whose layers can be read, else None."""
    stream = readable(model, layers)
    if stream is None:
        return None
    fitted, held_out = tasks.halves()
    read = [[stream.read(group) for group in half.groups] for half in (fitted, held_out)]
    twin = _read_twin(model, layers, (fitted, held_out), seed)
    found = {}
    for hypothesis in hypotheses(candidates, mean_square, stream.steps, tasks.covariance):
        found[hypothesis.name] = _test(hypothesis, stream, (fitted, held_out), read, twin, seed)
    return Mechanism(found)


Reads: TypeAlias = "list[list[list[Tensor]]]"
"""Streams by half, group and site, (T, k, hidden)."""


def _read_twin(model: object, layers: Sequence[str] | None, halves: tuple[Tasks, Tasks], seed: int) -> Reads | None:
    """Return the streams of an untrained twin, or None where there is none or they are not finite."""
    made = untrained(model, seed)
    stream = None if made is None else readable(made, layers)
    if stream is None:
        return None
    read = [[stream.read(group) for group in half.groups] for half in halves]
    finite = all(bool(torch.isfinite(site).all()) for half in read for group in half for site in group)
    return read if finite else None


def _test(
    hypothesis: Hypothesis, stream: Readable, halves: tuple[Tasks, Tasks], read: Reads, twin: Reads | None, seed: int
) -> tuple[StateTest, ...]:
    runs = [[hypothesis.run(group) for group in half.groups] for half in halves]
    tests = []
    for step in range(1, hypothesis.steps):
        residuals = torch.cat([run[step - 1].get("r", run[step - 1]["alpha"]).flatten() for run in runs[0]])
        targets = torch.cat([group.y.flatten() for group in halves[0].groups])
        if float(residuals.norm()) < CONVERGED * float(targets.norm()):
            break
        for state in hypothesis.states:
            one = _test_state(hypothesis, stream, halves, read, runs, step, state, seed)
            if one is not None:
                values = [torch.cat([run[step - 1][state].flatten() for run in half]) for half in runs]
                tests.append(one if twin is None else replace(one, twin=max(_probes(twin, values))))
    return tuple(tests)


def _tokens(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten(0, 1) for part in parts])


def _r_squared(design: Tensor, target: Tensor, held: Tensor, held_target: Tensor) -> float:
    weights = torch.linalg.lstsq(design, target[:, None], rcond=1e-10, driver="gelsd").solution[:, 0]
    return 1 - float((held_target - held @ weights).square().mean() / held_target.var().clamp_min(1e-300))


def _probes(read: Reads, values: Sequence[Tensor]) -> list[float]:
    """Return the held-out R^2 of a state from the stream at every site."""
    scores = []
    for site in range(len(read[0][0])):
        H = [_with_one(_tokens([one[site] for one in half])) for half in read]
        scores.append(_r_squared(H[0], values[0], H[1], values[1]))
    return scores


def _test_state(
    hypothesis: Hypothesis, stream: Readable, halves: tuple[Tasks, Tasks], read: Reads,
    runs: list[list[list[dict[str, Tensor]]]], step: int, state: str, seed: int,
) -> StateTest | None:  # fmt: skip
    """Return the test of one state, or None where it is not finite or is known from the input alone."""
    values = [torch.cat([run[step - 1][state].flatten() for run in half]) for half in runs]
    inputs = [torch.cat([_given(group) for group in half.groups]) for half in halves]
    if not bool(torch.isfinite(values[0]).all() and torch.isfinite(values[1]).all()):
        return None
    baseline = _r_squared(inputs[0], values[0], inputs[1], values[1])
    if baseline > INPUT:
        return None
    scores = _probes(read, values)
    best = max(range(len(scores)), key=lambda place: round(scores[place], 4) - 1e-6 * place)
    direction = _direction(hypothesis, [one[best] for one in read[0]], halves[0], runs[0], step, state)
    generator = torch_generator(seed, "patch", state, step)
    changes: list[tuple[Tensor, Tensor]] = []
    effects, controls, sizes = 0.0, 0.0, 0.0
    random = torch.randn(direction.shape, generator=generator, dtype=torch.float64)
    unit = direction / direction.norm().clamp_min(1e-300)
    random = random - (random @ unit) * unit
    random = random * direction.norm() / random.norm().clamp_min(1e-300)
    for group, run in zip(halves[1].groups, runs[1], strict=True):
        spread = float(run[step - 1][state].std())
        delta = 0.5 * spread * torch.randn(run[step - 1][state].shape, generator=generator, dtype=torch.float64)
        base = stream.patch(group, best, torch.zeros(*delta.shape, len(direction), dtype=torch.float64))
        moved = stream.patch(group, best, delta[..., None] * direction) - base
        aside = stream.patch(group, best, delta[..., None] * random) - base
        changed = {**run[step - 1], state: run[step - 1][state] + delta}
        expected = hypothesis.finish(changed, step, group) - run[-1]["f"]
        unit_size = float(base.square().mean().sqrt()) or 1.0
        changes.append((moved / unit_size, expected / unit_size))
        effects += float((moved / unit_size).square().mean())
        controls += float(torch.nan_to_num(aside / unit_size, nan=1e3, posinf=1e3, neginf=-1e3).square().mean())
        sizes += 1
    ours, theirs = (torch.cat([pair[side].flatten() for pair in changes]) for side in (0, 1))
    concordance = 2 * float((ours * theirs).sum()) / max(float(ours.square().sum() + theirs.square().sum()), 1e-300)
    concordance = concordance if isfinite(concordance) else 0.0
    driving = float(theirs.square().mean().sqrt()) >= INERT
    return StateTest(
        step, state, stream.sites[best], scores[best], baseline, concordance if driving else None,
        (effects / sizes) ** 0.5, (controls / sizes) ** 0.5, driving,
    )  # fmt: skip


def _given(group: TaskGroup) -> Tensor:
    return _with_one(torch.cat([group.X, group.y[..., None]], -1).flatten(0, 1))


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], 1)


def _direction(
    hypothesis: Hypothesis,
    read: Sequence[Tensor],
    tasks: Tasks,
    runs: Sequence[list[dict[str, Tensor]]],
    step: int,
    state: str,
) -> Tensor:
    """Return the state's coefficient in the regression of the stream on all states, x, y, 1 and scalars."""
    columns = []
    names = [name for name in runs[0][step - 1] if name != "f"]
    for group, run in zip(tasks.groups, runs, strict=True):
        now = run[step - 1]
        parts = [now[name].expand(group.y.shape).flatten()[:, None] for name in names]
        k = group.X.shape[1]  # networks may carry means where the algorithm has sums
        means = [part / k for name, part in zip(names, parts, strict=True) if now[name].shape[-1] == 1]
        columns.append(torch.cat([*parts, *means, _given(group), torch.full((len(parts[0]), 1), 1.0 / k)], 1))
    design, stream = torch.cat(columns), _tokens(read)
    scale = design.square().mean(0).sqrt().clamp_min(1e-300)
    weights = torch.linalg.lstsq(design / scale, stream, rcond=1e-10, driver="gelsd").solution
    return (weights / scale[:, None])[names.index(state)]
