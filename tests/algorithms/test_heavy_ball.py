from solver_case import IterativeCase

from ridgeformer.algorithms import HeavyBall


class TestHeavyBall(IterativeCase):
    algorithm = HeavyBall()
