from solver_case import IterativeCase

from ridgeformer.algorithms import Nesterov


class TestNesterov(IterativeCase):
    algorithm = Nesterov()
