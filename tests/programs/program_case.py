"""What every program that ships must do: agree, step by step, with plain numpy and with its interpreter."""

import numpy as np
import pytest

import ridgeformer as rf


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def cg(A, b, steps):
    """Return the iterates of conjugate gradients from zero; a residual of zero stays."""
    x, r = np.zeros_like(b), b
    p, found = r, []
    for _ in range(steps):
        if r @ r > 1e-280:
            gamma = r @ r / (p @ A @ p)
            x, new = x + gamma * p, r - gamma * A @ p
            p, r = new + new @ new / (r @ r) * p, new
        found.append(x)
    return found


def draw(seed=0, tasks=50, k=12, q=4, m=3, labels=False):
    """Random tasks: X (tasks, k, m), y (tasks, k), Xq (tasks, q, m)."""
    rng = np.random.default_rng(seed)
    X, y, Xq = rng.normal(size=(tasks, k, m)), rng.normal(size=(tasks, k)), rng.normal(size=(tasks, q, m))
    return X, (y > 0).astype(float) if labels else y, Xq


class ProgramCase:
    """Inherited by the test class of every program.

    Attributes:
        program: The program; `options` are given to it, and to `reference`.
        steps: Of the comparison.
        tolerance: Largest difference, relative to the largest value of a channel (1 at least).
        compiled: Options of `compile` for stock SwiGLU units.
        labels: Whether targets are 0 or 1.
        last_only: Whether only the last step has a reference.
    """

    program, options, steps, tolerance = None, {}, 6, 1e-10
    compiled, labels, last_only = {}, False, False

    def reference(self, X, y, Xq, steps, **options):
        """One task in plain numpy: a dictionary a step, by the names of the program's records."""
        raise NotImplementedError

    def value(self, steps=None):
        return self.program(steps=steps or self.steps, **self.options)

    @pytest.mark.parametrize("primitives", ["exact", "swiglu"])
    def test_equals_plain_numpy_and_its_interpreter_at_every_step_on_50_tasks(self, primitives):
        X, y, Xq = draw(labels=self.labels)
        extra = self.compiled if primitives == "swiglu" else {}
        model = rf.compile(self.value(), features=3, primitives=primitives, **extra)
        trace, plain = model.trace(X, y[..., None], Xq).values, model.interpret(X, y[..., None], Xq).values
        expected = [self.reference(*task, self.steps, **self.options) for task in zip(X, y, Xq, strict=True)]
        assert set(trace) == set(plain) == set(expected[0][0])
        for name in trace:
            by_numpy = np.stack([[np.asarray(step[name]) for step in task] for task in expected], axis=1)
            for run in (trace, plain):
                value = run[name].numpy()[-1:] if self.last_only else run[name].numpy()
                value = _like(value, by_numpy.shape)
                scale = max(1.0, np.abs(by_numpy).max())
                assert np.abs(value - by_numpy).max() <= self.tolerance * scale, name

    def test_several_targets_are_answered_as_numpy_answers_each(self):
        """In one network where the program mixes no target with features, else in one pass for each."""
        X, y, Xq = (part[0] for part in draw(labels=self.labels))
        Y = np.stack([y, np.roll(y, 1), y[::-1]], 1)
        given, several = self.value(), {} if self.value().program.one_output else {"outputs": 3}
        found = rf.compile(given, features=3, **several)(X, Y, Xq).numpy()
        each = [self.reference(X, column, Xq, self.steps, **self.options)[-1]["f"] for column in Y.T]
        expected = np.stack([np.asarray(f).reshape(len(Xq)) for f in each], 1)
        assert found.shape == (len(Xq), 3) or np.ptp(expected, axis=1).max() == 0  # what depends on no target
        assert np.abs(found - expected).max() <= self.tolerance * max(1.0, np.abs(expected).max())
        if several:
            return
        with pytest.raises(rf.errors.InputError, match="one pass each"):
            rf.compile(given, features=3, outputs=3)
        batch = rf.compile(given, features=3)(np.stack([X, X]), np.stack([Y, Y[:, ::-1]]), np.stack([Xq, Xq])).numpy()
        assert np.abs(batch - np.stack([expected, expected[:, ::-1]])).max() <= self.tolerance * max(
            1.0, np.abs(expected).max()
        )

    def test_other_weights_than_the_program_s_would_be_noticed(self):
        """The comparison could fail: a program of another option differs by more than its tolerance."""
        X, y, Xq = (part[0] for part in draw(labels=self.labels))
        given = self.value()
        found = given.interpret(X, y, Xq)["f"]
        moved = given.interpret(X + 1e-3 * np.sin(np.arange(36).reshape(12, 3)), y + 1e-3 * np.cos(np.arange(12)), Xq)[
            "f"
        ]
        assert float((found - moved).abs().max()) > 1e3 * 1e-10


def _like(value, shape):
    """A record (steps, tasks, tokens, columns) in the shape of its reference, which leaves out what is the same."""
    if value.ndim == len(shape) and value.shape[:-1] == shape[:-1]:
        return value
    if value.shape[-1] == 1 and value.shape[:-1] == shape:
        return value[..., 0]
    if value.ndim == len(shape) + 1:  # the same on every token
        return value[:, :, 0]
    return value[:, :, 0, 0]
