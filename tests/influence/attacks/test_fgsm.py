import foolbox

from ridgeformer.influence.attacks import FGSM
from tests.influence.attacks.attack_case import AttackCase


class TestFGSM(AttackCase):
    def make(self, eps, norm="linf", bounds=None):
        return FGSM(eps, norm, bounds)

    def foolboxs(self, norm):
        return {"linf": foolbox.attacks.LinfFastGradientAttack, "l2": foolbox.attacks.L2FastGradientAttack}[norm]()
