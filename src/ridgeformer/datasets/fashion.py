"""Fashion-MNIST: articles of clothing, 60,000 + 10,000."""

from __future__ import annotations

from ridgeformer.datasets import idx
from ridgeformer.datasets.image_set import ImageSet, RawFile

__all__ = ["FASHION"]

FASHION = ImageSet(
    name="fashion",
    shape=(28, 28),
    counts=(60_000, 10_000),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    files=(
        RawFile(
            "train-images-idx3-ubyte",
            47_040_016,
            sha256="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        RawFile(
            "train-labels-idx1-ubyte",
            60_008,
            sha256="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        RawFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            sha256="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        RawFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            sha256="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    folders=("usr/share/datasets/fashion-mnist", "FashionMNIST/raw"),
    decode=idx.decode,
    digest="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
    sources={"debian": "dataset-fashion-mnist", "openml": "Fashion-MNIST"},
    licence="MIT",
    citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv 1708.07747, 2017.",
    description="Articles of clothing of 28 x 28 pixels, in [0, 1].",
)
