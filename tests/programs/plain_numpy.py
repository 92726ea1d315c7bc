"""Every program that ships, written again in plain numpy, one task at a time: what the compiled ones must reproduce."""

import numpy as np


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def ista(X, y, Xq, steps, penalty, step_size):
    w, found = np.zeros(X.shape[1]), []
    for _ in range(steps):
        w = soft(w - step_size * X.T @ (X @ w - y) / len(X), step_size * penalty)
        found.append({"w": w, "f": Xq @ w})
    return found


def fista(X, y, Xq, steps, penalty, step_size):
    w = z = np.zeros(X.shape[1])
    t, found = 1.0, []
    for _ in range(steps):
        new = soft(z - step_size * X.T @ (X @ z - y) / len(X), step_size * penalty)
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        z = new + (t - 1) / t_new * (new - w)
        w, t = new, t_new
        found.append({"w": w, "f": Xq @ w})
    return found


def elastic_net(X, y, Xq, steps, penalty, ridge, step_size):
    w, found = np.zeros(X.shape[1]), []
    for _ in range(steps):
        w = soft(w - step_size * X.T @ (X @ w - y) / len(X), step_size * penalty) / (1 + step_size * ridge)
        found.append({"w": w, "f": Xq @ w})
    return found


def logistic_descent(X, y, Xq, steps, ridge, step_size):
    w, found = np.zeros(X.shape[1]), []
    for _ in range(steps):
        w = w - step_size * (X.T @ (sigmoid(X @ w) - y) / len(X) + ridge * w)
        found.append({"w": w, "f": sigmoid(Xq @ w)})
    return found


def cg(A, b, steps):
    """Return the iterates of conjugate gradients from zero."""
    x, r = np.zeros_like(b), b
    p, found = r, []
    for _ in range(steps):
        if r @ r < 1e-280:
            found.append(x)
            continue
        gamma = r @ r / (p @ A @ p)
        x, new = x + gamma * p, r - gamma * A @ p
        p, r = new + new @ new / (r @ r) * p, new
        found.append(x)
    return found


def logistic_newton(X, y, Xq, steps, ridge, inner):
    w, found = np.zeros(X.shape[1]), []
    for _ in range(steps):
        p = sigmoid(X @ w)
        H = X.T * (p * (1 - p)) @ X / len(X) + ridge * np.eye(len(w))
        w = w + cg(H, -(X.T @ (p - y) / len(X) + ridge * w), inner)[-1]
        found.append({"w": w, "f": sigmoid(Xq @ w)})
    return found


def huber(X, y, Xq, steps, delta, ridge, inner):
    w, found = np.zeros(X.shape[1]), []
    for _ in range(steps):
        e = X @ w - y
        h = np.minimum(1, delta / np.maximum(np.abs(e), 1e-300))
        A = X.T * h @ X / len(X) + ridge * np.eye(len(w))
        w = w + cg(A, -(X.T @ (h * e) / len(X) + ridge * w), inner)[-1]
        found.append({"w": w, "f": Xq @ w})
    return found


def newton_schulz(X, y, Xq, steps):
    A = X.T @ X
    V, found = np.eye(X.shape[1]) / np.trace(A), []
    for _ in range(steps):
        V = 2 * V - V @ A @ V
        found.append({"u": X @ V, "f": Xq @ V @ X.T @ y})
    return found


def preconditioned_descent(X, y, Xq, steps, step_size, floor):
    w, d, found = np.zeros(X.shape[1]), 1 / (np.mean(X**2, 0) + floor), []
    for _ in range(steps):
        w = w - step_size * d * (X.T @ (X @ w - y) / len(X))
        found.append({"w": w, "f": Xq @ w})
    return found


def barzilai_borwein(X, y, Xq, steps, ridge, step_size):
    w, eta, found = np.zeros(X.shape[1]), step_size, []
    g = X.T @ (X @ w - y) / len(X) + ridge * w
    for _ in range(steps):
        s = -eta * g
        w = w + s
        new = X.T @ (X @ w - y) / len(X) + ridge * w
        eta, g = s @ s / (s @ (new - g)), new
        found.append({"w": w, "eta": eta, "f": Xq @ w})
    return found


def power_iteration(X, y, Xq, steps, temperature):
    K, cross = X @ X.T, Xq @ X.T
    if temperature is not None:
        K, cross = np.exp(K / temperature), np.exp(cross / temperature)
    v, found = y, []
    for _ in range(steps):
        quotient = v @ K @ v / (v @ v)
        f, v = cross @ v / quotient, K @ v / quotient
        found.append({"v": v, "l": quotient, "f": f})
    return found


def nearest_neighbour(X, y, Xq, steps, temperature):
    nearest = ((Xq[:, None] - X[None]) ** 2).sum(2).argmin(1)
    return [{"f": y[nearest]}]


def least_mean_squares(X, y, Xq, steps, step_size):
    """One pass over the stream; entry t of `found` is what t steps must have right: the first t errors."""
    w, e = np.zeros(X.shape[1]), np.zeros(len(X))
    for t in range(len(X)):
        e[t] = y[t] - X[t] @ w
        w = w + step_size * e[t] * X[t]
    return [{"e": e, "f": Xq @ w}]


def recursive_least_squares(X, y, Xq, steps, ridge):
    found = []
    for t in range(steps):
        prefixes = [cg(X[:s].T @ X[:s] + ridge * np.eye(X.shape[1]), X[:s].T @ y[:s], t + 1)[-1] for s in range(len(X))]
        w = cg(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ y, t + 1)[-1]
        found.append({"w": np.array(prefixes), "prefix": (np.array(prefixes) * X).sum(1), "f": Xq @ w})
    return found


def process_variance(X, y, Xq, steps, noise):
    A = X.T @ X + noise * np.eye(X.shape[1])
    found = []
    for t in range(steps):
        v = np.array([cg(A, x, t + 1)[-1] for x in Xq])
        found.append({"v": v, "f": noise * (v * Xq).sum(1)})
    return found
