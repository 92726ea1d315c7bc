"""Scores of dattri and captum: the packages themselves are run, and their numbers are those of the formulas."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import DataLoader, TensorDataset

from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import captum_scores, dattri_scores, draw_subsets, judge_scores, linear_datamodeling_score

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages, about their own dependencies

N, Q, D, C = 60, 12, 6, 3


@pytest.fixture(scope="module")
def trained():
    """Rows of three classes, and a linear classifier trained on them."""
    generator = torch_generator(0, "adapters")
    labels = torch.arange(N + Q) % C
    X = torch.randn(N + Q, D, generator=generator) + 2 * torch.eye(C, D)[labels]
    model = torch.nn.Linear(D, C, bias=False)
    with torch.no_grad():
        model.weight.zero_()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(100):
        optimiser.zero_grad()
        (cross_entropy(model(X[:N]), labels[:N]) + 0.05 * model.weight.square().sum()).backward()
        optimiser.step()
    loaders = [DataLoader(TensorDataset(X[part], labels[part]), 25) for part in (slice(N), slice(N, None))]
    return model, X, labels, loaders


def gradient_products(model, X, labels):
    """What TracIn is at one checkpoint: products of the gradients of the two losses."""
    error = (model(X).softmax(1) - one_hot(labels, C)).detach().double()
    X = X.double()
    return (error[:N] @ error[N:].T) * (X[:N] @ X[N:].T)


def test_captum_is_transposed_into_place(trained):
    influence = pytest.importorskip("captum.influence")
    model, X, labels, (train, _) = trained
    method = influence.TracInCPFast(
        model, model, train.dataset, ["only"], lambda model, path: 1.0, torch.nn.CrossEntropyLoss(reduction="sum"), 25
    )
    expected = gradient_products(model, X, labels)
    torch.testing.assert_close(captum_scores(method, (X[N:], labels[N:])), expected, rtol=1e-4, atol=1e-5)
    report = judge_scores(expected, X[:N], labels[:N].numpy(), X[N:], labels[N:].numpy(), subsets=60)
    assert report.methods[0].agreement.mean > 0.1  # the sign is the expected one
    method.train_dataloader = DataLoader(train.dataset, 5, shuffle=True)
    with pytest.raises(InputError, match="train_dataset is shuffled"):
        captum_scores(method, (X[N:], labels[N:]))


def task_of(model):
    from dattri.task import AttributionTask

    def loss(params, data):
        outputs = torch.func.functional_call(model, params, data[0].unsqueeze(0) if data[0].ndim == 1 else data[0])
        return cross_entropy(outputs, data[1].reshape(-1))

    return AttributionTask(loss, model, [model.state_dict()])


def test_dattri_scores_are_those_of_the_formula(trained):
    algorithm = pytest.importorskip("dattri.algorithm")
    model, X, labels, (train, queries) = trained
    method = algorithm.TracInAttributor(task_of(model), weight_list=torch.ones(1), normalized_grad=False)
    method.projector_kwargs = None  # its default projects gradients at random
    torch.testing.assert_close(
        dattri_scores(method, train, queries), gradient_products(model, X, labels), rtol=1e-4, atol=1e-5
    )


def test_dattri_influence_functions_are_judged_above_chance(trained):
    algorithm = pytest.importorskip("dattri.algorithm")
    model, X, labels, (train, queries) = trained
    whole = DataLoader(train.dataset, N)
    scores = dattri_scores(algorithm.IFAttributorExplicit(task_of(model), regularization=0.1), whole, queries)
    report = judge_scores(scores, X[:N], labels[:N].numpy(), X[N:], labels[N:].numpy(), subsets=60)
    assert report.methods[0].agreement.mean > 0.3
    with pytest.raises(InputError, match="train is shuffled"):
        dattri_scores(
            algorithm.IFAttributorExplicit(task_of(model)), DataLoader(train.dataset, 5, shuffle=True), queries
        )


def test_dattris_trak_keeps_what_it_has_cached(trained):
    algorithm = pytest.importorskip("dattri.algorithm")
    model, _, _, (train, queries) = trained

    def probability(params, image_label_pair):
        image, label = image_label_pair
        outputs = torch.func.functional_call(model, params, image.unsqueeze(0))
        return torch.exp(-cross_entropy(outputs, label.unsqueeze(0)))

    projector = {"proj_dim": 18, "proj_max_batch_size": 32, "proj_seed": 0, "device": "cpu"}
    method = algorithm.TRAKAttributor(task_of(model), probability, projector_kwargs=projector)
    scores = dattri_scores(method, train, queries)
    assert scores.shape == (N, Q)
    assert bool(torch.isfinite(scores).all())
    assert float(scores.std()) > 0


def test_another_number_of_scores_is_refused(trained):
    _, _, _, (train, queries) = trained

    class Halved:
        def cache(self):
            pass

        def attribute(self, train_dataloader, test_dataloader):
            return torch.zeros(N // 2, Q)

    with pytest.raises(ShapeError, match=rf"\({N}, {Q}\) was expected"):
        dattri_scores(Halved(), train, queries)


def test_the_datamodeling_score_is_dattris():
    metric = pytest.importorskip("dattri.metric")
    generator = torch_generator(1, "adapters")
    kept = draw_subsets(20, 30, seed=4)
    outputs, scores = (torch.randn(*shape, generator=generator).double() for shape in ((30, 4), (20, 4)))
    theirs, _ = metric.lds(scores, (outputs, torch.stack([row.nonzero()[:, 0] for row in kept])))
    np.testing.assert_allclose(linear_datamodeling_score(scores, kept, outputs).by_query, theirs, atol=1e-12)
