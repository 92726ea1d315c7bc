"""Random kernel matrices with a known spectrum, and sketches of them: the worlds the bounds are tried in."""

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

KINDS = ("flat", "polynomial", "exponential", "rank_deficient", "log_uniform", "spike", "at_ridge")


def cases(count):
    """Run a property on `count` examples, the same ones every time."""
    return settings(max_examples=count, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Problem:
    """K = U diag(spectrum) U' with a descending spectrum, and everything random that goes with it."""

    spectrum: np.ndarray
    ridge: float
    rng: np.random.Generator
    basis: np.ndarray

    @property
    def n(self):
        return len(self.spectrum)

    @property
    def kernel(self):
        return symmetric((self.basis * self.spectrum) @ self.basis.T)

    @property
    def root(self):
        """F with F F' = K and columns along the eigenvectors."""
        return self.basis * np.sqrt(self.spectrum)

    def top(self, width):
        """K cut to its top `width` eigendirections."""
        kept = np.where(np.arange(self.n) < width, self.spectrum, 0.0)
        return symmetric((self.basis * kept) @ self.basis.T)

    def sketches(self, width):
        """Positive semidefinite matrices of rank <= width: good, random, useless and adversarial ones."""
        gaussian = self.rng.standard_normal((self.n, width))
        haar = np.linalg.qr(gaussian)[0][:, :width] if width else gaussian
        spread = self.rng.standard_normal((self.n, width)) * np.sqrt(self.spectrum.max() + self.ridge)
        factors = [
            self.root @ gaussian / np.sqrt(max(width, 1)),
            self.root @ haar,
            self.root @ haar * np.sqrt(self.n / max(width, 1)),
            self.root[:, self.n - min(width, self.n) :],
            self.root[:, :width],
            self.root[:, :width] * self.rng.uniform(0, 2, min(width, self.n)),
            np.zeros((self.n, 1)),
            spread,
        ]
        return np.stack([symmetric(factor @ factor.T) for factor in factors])


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def resolvent(matrices, ridge):
    """(K + l I)^-1 of one matrix or a stack, scaled so that no entry leaves float64."""
    return np.linalg.inv(np.eye(matrices.shape[-1]) + matrices / ridge) / ridge


def norm(matrices):
    """Spectral norms of one matrix or a stack."""
    return np.linalg.norm(matrices, 2, axis=(-2, -1))


def _relative_spectrum(kind, n, rng, ridge):
    i = np.arange(1, n + 1)
    if kind == "flat":
        return np.ones(n)
    if kind == "polynomial":
        return i ** -rng.uniform(0.5, 4.0)
    if kind == "exponential":
        return rng.uniform(0.1, 0.95) ** i
    if kind == "rank_deficient":
        return np.where(i <= rng.integers(0, n + 1), rng.uniform(0, 1, n), 0.0)
    if kind == "log_uniform":
        return 10.0 ** rng.uniform(-6, 0, n)
    if kind == "spike":
        return np.where(i == 1, 1.0, 1e-4 * rng.uniform(0, 1, n))
    return ridge * rng.choice([1.0, 0.25, 4.0], n)


@st.composite
def problems(draw, max_n=8, max_log_scale=60, min_log_ridge=-4):
    """Problems of every kind, from tiny to huge scales, with ridges from 1e-4 to 1e2 of the scale."""
    n = draw(st.sampled_from(range(1, max_n + 1)))
    kind = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = 10.0 ** draw(st.integers(-max_log_scale, max_log_scale))
    ridge = 10.0 ** draw(st.floats(min_log_ridge, 2))
    spectrum = np.sort(_relative_spectrum(kind, n, rng, ridge))[::-1] * scale
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return Problem(spectrum, ridge * scale, rng, basis)
