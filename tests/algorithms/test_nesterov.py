from ridgeformer.algorithms import Nesterov
from tests.solving.solver_case import IterativeCase


class TestNesterov(IterativeCase):
    algorithm = Nesterov()
