import numpy as np
from kernel_case import KernelCase

from ridgeformer.kernels import DotProduct


class TestDotProduct(KernelCase):
    def kernel(self):
        return DotProduct()

    def formula(self, x, z):
        return float(np.dot(x, z))
