from ridgeformer.kernels import DotProduct, GramPower
from ridgeformer.solving.engines import Features
from tests.solving.engines.engine_case import EngineCase, rows, small_tiles  # noqa: F401


class TestFeatures(EngineCase):
    kernel = DotProduct()

    def build(self, X, working):
        return Features(self.kernel, X, working)


class TestFeaturesOfLinearisedAttention(TestFeatures):
    kernel = GramPower(3, rows() / 3)
