from ridgeformer.algorithms import HeavyBall
from tests.solving.solver_case import IterativeCase


class TestHeavyBall(IterativeCase):
    algorithm = HeavyBall()
