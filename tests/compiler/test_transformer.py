import copy
import pickle
from itertools import islice

import pytest
import torch

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.language.roles import QUERY
from ridgeformer.solving import RidgeSystem
from tests.compiler.tasks import (
    MODELS,
    compiled,
    interpreted,
    kernel_of,
    model,
    problem_with_condition,
    relative,
    task,
    textbook_cg,
)


@pytest.mark.parametrize("name", ["linear cg", "softmax cg", "softmax cg, aggregator", "gaussian cg"])
def test_weights_do_not_know_the_data(name):
    """One model, twenty problems of other sizes and spectra: the iterates are textbook CG's, the weights stay."""
    net = model(name, steps=8, ridge=0.5)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    for seed in range(20):
        k, q, scale = 4 + 3 * seed, 1 + seed % 5, 0.5 + 0.025 * seed
        X, y, Xq = task(k=k, q=q, seed=seed)
        X, Xq = X * scale, Xq * scale
        A = kernel_of(net)(X) + 0.5 * torch.eye(k, dtype=torch.float64)
        expected = textbook_cg(A, y[:, 0], 8)
        trace = net.trace(X, y, Xq)
        exact = torch.linalg.solve(A, y[:, 0])
        for step in range(8):
            if relative(expected[step], exact) < 1e-9:
                break  # converged: what follows is round-off on both sides
            assert relative(trace.alpha[step, :, 0], expected[step]) < 1e-10, (seed, step)
            cross = kernel_of(net)(Xq, X)
            gap = (trace.f[step, :, 0] - cross @ expected[step]).abs()
            assert bool((gap < 1e-10 * cross.norm(dim=1) * expected[step].norm()).all())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_after_orthogonality_is_lost_it_drifts_as_textbook_cg_drifts_from_itself():
    """Rule 4: beyond a few steps at kappa 1e3 the right comparison is the same algorithm with tokens permuted."""
    X, y = problem_with_condition(1e3, 60, 30)
    net = compiled("linear", features=30, ridge=1.0, steps=30)
    A = X @ X.T + torch.eye(60, dtype=torch.float64)
    order = torch.randperm(60, generator=torch_generator(0, "order"))
    plain = textbook_cg(A, y, 30)
    permuted = textbook_cg(A[order][:, order], y[order], 30)
    ours = net.trace(X, y, X[:1]).alpha[:, :, 0]
    control = max(relative(permuted[t], plain[t][order]) for t in range(30))
    assert max(relative(ours[t], plain[t]) for t in range(30)) < 100 * control + 1e-10
    assert relative(ours[29], plain[29]) < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_supports_never_depend_on_queries(name):
    """The Jacobian of every other token's stream with respect to the queries is exactly zero, at every sublayer."""
    X, y, Xq = task(k=5, q=2)
    net = model(name, steps=2)
    rest = slice(0, net.tokens(5, 2).rows(QUERY).start)
    Xq = Xq.requires_grad_()
    layers = []

    def leak(place, sublayer, before, after):
        weights = torch.randn(after[rest].shape, generator=torch_generator(0, place), dtype=torch.float64)
        (gradient,) = torch.autograd.grad((after[rest] * weights).sum(), Xq, retain_graph=True, allow_unused=True)
        layers.append(place)
        assert gradient is None or bool((gradient == 0.0).all()), place

    net.run_with_hook(leak, X, y, Xq)
    assert len(layers) == net.budget.sublayers


@pytest.mark.parametrize("name", MODELS)
def test_predictions_of_one_query_do_not_depend_on_another(name):
    X, y, Xq = task(k=6, q=3)
    net = model(name, steps=3)
    jacobian = torch.autograd.functional.jacobian(lambda Q: net(X, y, Q)[:, 0], Xq)
    for i in range(3):
        for j in range(3):
            assert bool((jacobian[i, j] == 0).all()) == (i != j)


@pytest.mark.parametrize("name", MODELS)
def test_tied_and_unrolled_weights_are_the_same_function(name):
    X, y, Xq = task(outputs=2)
    tied, unrolled = (model(name, outputs=2, tied=tied) for tied in (True, False))
    assert torch.equal(tied(X, y, Xq), unrolled(X, y, Xq))
    if "chebyshev" not in name and "nadaraya_watson" not in name:
        assert unrolled.budget.parameters > tied.budget.parameters
        assert unrolled.budget.sublayers == tied.budget.sublayers


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_tasks_is_each_task(name):
    X, y, Xq = task(outputs=2, tasks=4)
    net = model(name, outputs=2, steps=4)
    together = net(X, y, Xq)
    assert together.shape == (4, 4, 2)
    for i in range(4):
        torch.testing.assert_close(together[i], net(X[i], y[i], Xq[i]), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["linear cg", "softmax cg", "vanilla"])
def test_outputs_are_independent_runs(name):
    X, y, Xq = task(outputs=3)
    three, one = model(name, outputs=3), model(name, outputs=1)
    for column in range(3):
        torch.testing.assert_close(three(X, y, Xq)[:, column], one(X, y[:, column], Xq), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "name", ["linear cg", "linear pcg", "softmax cg", "vanilla", "gaussian cg", "gaussian vanilla"]
)
def test_enough_steps_give_ridge_regression(name):
    X, y, Xq = task(k=12)
    steps = 4000 if "vanilla" in name else 25
    net = model(name, steps=steps, ridge=0.5)
    expected = rf.solve(kernel_of(net), X, y, 0.5).predict(Xq)
    assert relative(net(X, y, Xq), expected) < 1e-8


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("kind", [rf.Richardson, rf.Neumann, rf.Chebyshev, rf.HeavyBall, rf.Nesterov])
def test_every_step_is_that_of_iterate(kind, attention):
    """Compiled and iterated, an algorithm with fixed coefficients has the same alpha after every step."""
    X, y, Xq = task(k=12, outputs=2)
    kernel = DotProduct() if attention == "linear" else Exponential(0.5)
    ridge = 300.0 if kind is rf.Neumann else 0.3
    ends = (ridge, ridge + float(kernel(X).sum(1).abs().max()))
    options = {"spectrum": ends} if issubclass(kind, rf.algorithms.Accelerated) else {}
    options |= {"step_size": 1 / ends[1]} if kind is rf.Richardson else {}
    algorithm = kind(steps=9, **options)
    net = rf.compile(kernel, algorithm, features=3, outputs=2, ridge=ridge)
    system = RidgeSystem(kernel, X, ridge)
    states = algorithm.iterate(system, y, spectrum=ends, precondition=lambda r: r)
    alphas = torch.stack([state.alpha for state in islice(states, 9)])
    trace, by_interpreter = net.trace(X, y, Xq), interpreted(net, X, y, Xq)
    assert relative(trace.alpha, alphas) < 1e-12
    assert relative(by_interpreter["alpha"], alphas) < 1e-12
    assert relative(trace.f, kernel(Xq, X) @ alphas) < 1e-12
    assert relative(by_interpreter["f"], trace.f) < 1e-12


def test_the_gaussian_kernel_costs_one_column_and_one_sublayer():
    plain, gaussian = model("softmax cg").budget, model("gaussian cg").budget
    assert gaussian.width == plain.width + 1
    assert gaussian.sublayers == plain.sublayers + 1
    assert gaussian.heads_per_step == plain.heads_per_step
    assert model("gaussian cg", primitives="swiglu").budget.beyond_stock == ()
    assert model("gaussian vanilla").budget.width == 2 * 3 + 8
    assert model("gaussian vanilla").budget.beyond_stock == ()


def test_the_imitation_solves_with_features_centred_over_the_supports():
    X, y, Xq = task(k=40, p=4)
    mean = X.mean(0)
    expected = rf.solve(DotProduct(), X - mean, y, 0.3).predict(Xq - mean)
    errors_ = [
        relative(model("imitation", features=4, epsilon=e, steps=5)(X, y, Xq), expected) for e in (1e-2, 1e-3, 1e-4)
    ]
    assert errors_[2] < errors_[1] < errors_[0] < 0.5
    assert errors_[2] < 5e-3


def test_a_projection_is_applied_by_the_embedding():
    X, y, Xq = task(p=3)
    U = torch.randn(2, 3, generator=torch_generator(0, "U"), dtype=torch.float64)
    net = model("softmax cg", projection=U, steps=25, sink=3.0)
    expected = rf.solve(Exponential(0.5, projection=U), X, y, 0.3).predict(Xq)
    assert relative(net(X, y, Xq), expected) < 1e-6
    assert net.budget.width == 2 + net.budget.overhead


def test_nadaraya_watson_is_scikit_faced_too():
    X, y, Xq = task()
    expected = rf.NadarayaWatsonRegressor(temperature=0.5).fit(X.numpy(), y[:, 0].numpy()).predict(Xq.numpy())
    torch.testing.assert_close(model("nadaraya_watson")(X, y[:, 0], Xq), torch.from_numpy(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["linear cg", "linear pcg", "softmax cg", "softmax cg, aggregator"])
def test_a_converged_network_idles_for_200_more_steps(name, dtype):
    X, y, Xq = task(k=8, dtype=dtype)
    short, long = (model(name, steps=steps, ridge=1.0, dtype=dtype) for steps in (30, 230))
    trace = long.trace(X, y, Xq)
    assert all(bool(torch.isfinite(value).all()) for value in trace.values.values())
    torch.testing.assert_close(trace.f[-1], short(X, y, Xq), rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=1e-6)


@pytest.mark.parametrize(("kappa", "most"), [(1e1, 3e-6), (1e3, 1e-2)])
def test_float32_is_as_good_as_textbook_float32(kappa, most):
    """Claim A8 and rule 5: the network's float32 error is that of textbook CG in float32."""
    X, y = problem_with_condition(kappa, 60, 40)
    exact = torch.linalg.solve(X @ X.T + torch.eye(60, dtype=torch.float64), y)
    net = compiled("linear", features=40, ridge=1.0, steps=40, dtype="float32")
    ours = relative(net.trace(X.float(), y.float(), X[:1].float()).alpha[-1, :, 0], exact)
    A = (X @ X.T).float() + torch.eye(60)
    theirs = relative(textbook_cg(A, y.float(), 40)[-1], exact)
    assert ours < most
    assert ours < 10 * theirs + 1e-6


@pytest.mark.parametrize("kappa", [1e1, 1e2, 1e3, 1e4, 1e5])
def test_depth_and_accuracy_follow_the_cg_bound(kappa):
    """Claim B2 on the network itself: the A-norm error after every step is below 2 rho^t, down to round-off."""
    X, y = problem_with_condition(kappa, 60, 40)
    A = X @ X.T + torch.eye(60, dtype=torch.float64)
    exact = torch.linalg.solve(A, y)
    whole = float(exact @ A @ exact) ** 0.5
    alphas = compiled("linear", features=40, ridge=1.0, steps=40).trace(X, y, X[:1]).alpha[:, :, 0]
    for step, alpha in enumerate(alphas, start=1):
        error = max(float((alpha - exact) @ A @ (alpha - exact)), 0.0) ** 0.5 / whole
        assert error <= rf.bounds.cg_error_factor(kappa, step) + 16 * kappa * torch.finfo(torch.float64).eps
    assert float((alphas[0] - exact).norm()) > 1e-3 * float(exact.norm())


@pytest.mark.parametrize(
    ("name", "options", "size", "words"),
    [
        ("linear cg", {}, 1e160, "float64 overflows"),
        ("linear chebyshev", {"steps": 200}, 10.0, "a spectrum that holds all"),
        ("softmax richardson, given step", {"step_size": 1e9, "steps": 60}, 1.0, "smaller step_size"),
    ],
)
def test_what_overflows_on_the_way_is_refused_and_not_returned(name, options, size, words):
    X, y, Xq = task()
    for run in (model(name, **options), model(name, **options).trace):
        with pytest.raises(errors.InputError, match=words):
            run(X * size, y, Xq)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_model_moved_to_another_precision_says_so(dtype):
    X, y, Xq = task()
    net = model("softmax cg").to(dtype)
    with pytest.raises(errors.DtypeError, match="compile it with dtype="):
        net(X, y, Xq)


@pytest.mark.parametrize("letter", ["W_Q", "W_V"])
def test_one_weight_alone_can_be_learnt(letter):
    """Its gradient is the difference quotient's, also after a run that needed none."""
    X, y, Xq = task()
    net = model("softmax cg", steps=2)
    net(X, y, Xq)
    weight = getattr(net.steps[0][0], letter)[0].requires_grad_()
    net(X, y, Xq).sum().backward()
    row, column = divmod(int(weight.grad.abs().argmax()), weight.shape[1])
    found, values = float(weight.grad[row, column]), []
    for shift in (1e-6, -2e-6):
        weight.detach()[row, column] += shift
        values.append(float(net(X, y, Xq).detach().sum()))
    assert found == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_a_model_that_has_run_can_still_be_pickled():
    X, y, Xq = task()
    net = model("softmax cg")
    before = net(X, y, Xq)
    again = pickle.loads(pickle.dumps(net))
    assert torch.equal(again(X, y, Xq), before)
    assert torch.equal(copy.deepcopy(net)(X, y, Xq), before)


# -- looking inside ----------------------------------------------------------------------------------


def test_the_cache_holds_inputs_outputs_and_patterns_by_name():
    X, y, Xq = task(k=5, q=2)
    net = model("softmax cg", steps=2)
    trace, cache = net.run_with_cache(X, y, Xq)
    pattern = cache["step 2.kernel product.pattern.kernel product"]
    assert pattern.shape == (8, 8)
    torch.testing.assert_close(pattern[:5].sum(1), torch.ones(5, dtype=torch.float64))
    assert float(pattern[:, 6:].abs().max()) == 0  # nobody reads a query
    torch.testing.assert_close(cache["step 2.curvature.in"], cache["step 2.undo normalisation.out"])
    assert trace.alpha.shape == (2, 5, 1)


@pytest.mark.parametrize("primitives", ["exact", "swiglu"])
@pytest.mark.parametrize("name", MODELS)
def test_the_cache_holds_every_sublayer_under_a_name_of_its_own(name, primitives):
    X, y, Xq = task(k=5, q=2)
    net = model(name, steps=2, primitives=primitives)
    _, cache = net.run_with_cache(X, y, Xq)
    for end in (".in", ".out"):
        assert sum(key.endswith(end) for key in cache) == net.budget.sublayers


def test_a_hook_can_patch_a_channel():
    X, y, Xq = task()
    net = model("softmax cg", steps=3)

    def stop(place, sublayer, before, after):
        if place == "step 1.step size":
            after = after.clone()
            after[..., list(net.layout.columns["gamma"])] = 0.0
            return after
        return None

    assert float(net.run_with_hook(stop, X, y, Xq).alpha[0].abs().max()) == 0


@pytest.mark.parametrize(
    ("head", "consequence"),
    [
        ("kernel product", "curvature is the ridge alone, so one step goes far too far"),
        ("mean", "no step size: nothing moves"),
    ],
)
def test_ablation_does_what_the_theory_says(head, consequence):
    X, y, Xq = task()
    net = model("softmax cg", steps=1)
    sound = net.trace(X, y, Xq)
    with net.ablated(head):
        ablated = net.trace(X, y, Xq)
    if head == "mean":
        assert float(ablated.alpha.abs().max()) == 0
    else:  # u = ridge p: gamma = 1 / ridge, and no prediction reaches the queries
        torch.testing.assert_close(ablated.alpha[0], y / 0.3)
        assert float(ablated.f.abs().max()) == 0
        assert float(ablated.alpha.norm()) > 2 * float(sound.alpha.norm())
    torch.testing.assert_close(net.trace(X, y, Xq).alpha, sound.alpha)


def test_without_its_sink_a_head_cannot_undo_the_normalisation():
    """Claim A2: softmax alone sees ratios; shutting the sink leaves nothing to divide by, so nothing moves."""
    X, y, Xq = task()
    net = model("softmax cg", steps=2)
    sound = net.trace(X, y, Xq).f
    columns = list(net.layout.columns["agg"])
    net.embed["aggregator"].detach()[:, columns] = 0.0
    blind = net.trace(X, y, Xq)
    assert float(blind.f.abs().max()) == 0
    assert float(sound.abs().max()) > 0.1


def test_an_unknown_head_gets_the_nearest():
    with (
        pytest.raises(errors.UnknownNameError, match="did you mean 'kernel product'"),
        model("softmax cg").ablated("kernel prodct"),
    ):
        pass


def test_explain_names_every_channel_and_sublayer():
    net = model("softmax cg")
    text = net.explain()
    for name, channel in net.program.channels.items():
        assert name in text
        assert channel.meaning in text
    for _, instruction, sublayer in net.schedule:
        if sublayer is not None:
            assert instruction.caption in text


def test_the_budget_counts_what_is_there():
    budget = model("linear pcg").budget
    assert (budget.attention_per_step, budget.gated_per_step, budget.heads_per_step) == (4, 2, 9)
    assert "linear attention (no softmax)" in budget.beyond_stock
    budget = model("softmax cg").budget
    assert (budget.attention_per_step, budget.gated_per_step) == (3, 7)
    assert (model("softmax cg, aggregator").budget.attention_per_step) == 5
    assert model("vanilla").budget.beyond_stock == ()
    assert model("vanilla").budget.width == 2 * 3 + 6
    assert model("softmax richardson, given step").budget.overhead <= 8


def test_records_say_after_which_sublayer_they_read():
    X, y, Xq = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 3), (5,), (2, 3)))
    model = compiled("softmax", features=3, ridge=0.5, steps=2)
    streams = [model.stream(X, y[:, None], Xq)]
    model.run_with_hook(lambda place, sublayer, before, after: streams.append(after), X, y, Xq)
    assert len(streams) == len(model.sublayers) + 1
    trace, tokens = model.trace(X, y, Xq), model.tokens(5, 2)
    (section, record, after) = next(found for found in reversed(model.records) if found[1].name == "f")
    found = record.scale * model.channel(record.channel, streams[after], record.role, tokens)
    assert section == "step 2"
    torch.testing.assert_close(found, trace.f[-1])


def test_a_channel_is_zero_outside_its_life():
    X, y, Xq = (torch.randn(*shape, dtype=torch.float64) for shape in ((5, 3), (5,), (2, 3)))
    model = compiled("softmax", features=3, ridge=0.5, steps=2, share_channels=False)
    streams = [model.stream(X, y[:, None], Xq)]
    model.run_with_hook(lambda place, sublayer, before, after: streams.append(after), X, y, Xq)
    for name in model.program.channels:
        held = {number for life in model.life(name) for number in life}
        filled = [
            number for number, stream in enumerate(streams) if stream[..., list(model.layout.columns[name])].any()
        ]
        assert set(filled) <= held, name
    assert len(model.life("gamma")) == 2
    assert model.life("phi") == (range(len(streams)),)
    with pytest.raises(errors.UnknownNameError, match="unknown channel"):
        model.life("beta_")
