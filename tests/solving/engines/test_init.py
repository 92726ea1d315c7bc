import pytest

from ridgeformer import errors
from ridgeformer.kernels import DotProduct, Exponential, ReluNTK
from ridgeformer.solving.engines import ENGINES, build_engine
from tests.solving.engines.engine_case import rows


@pytest.mark.parametrize("name", sorted(ENGINES.keys() - {"dask"}))  # which needs a cluster, and has tests of its own
def test_every_engine_is_built_by_its_name(name):
    kernel = DotProduct() if name == "features" else Exponential(1.0)
    X = rows()
    assert build_engine(name, kernel, X, X.dtype).name == name


@pytest.mark.parametrize(
    ("name", "kernel", "words"),
    [
        ("tyles", Exponential(1.0), "did you mean 'tiles'"),
        ("attention", ReluNTK(), "needs an exponential or Gaussian kernel, and 'relu_ntk'"),
        ("features", Exponential(1.0), "needs a kernel with a feature map"),
    ],
)
def test_an_engine_that_cannot_be_built_is_refused(name, kernel, words):
    X = rows()
    with pytest.raises(errors.InputError, match=words):
        build_engine(name, kernel, X, X.dtype)
