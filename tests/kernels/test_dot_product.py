import numpy as np

from ridgeformer.kernels import DotProduct
from tests.kernels.kernel_case import KernelCase


class TestDotProduct(KernelCase):
    def kernel(self):
        return DotProduct()

    def formula(self, x, z):
        return float(np.dot(x, z))
