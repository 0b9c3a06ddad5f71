"""What can be downloaded: addresses and checksums as their publishers, or everyone who uses them, give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from surefoot.data._places import DataFile


@dataclass(frozen=True)
class Remote:
    """One file on the net.

    Attributes:
        url: Where it is.
        algorithm: Of the checksum.
        checksum: In hexadecimal digits.
        megabytes: About how many; for people only.
    """

    url: str
    algorithm: Literal["md5", "sha256"]
    checksum: str
    megabytes: float

    @property
    def file(self) -> str:
        """Name of the file."""
        return self.url.partition("?")[0].rpartition("/")[2]


@dataclass(frozen=True)
class Published:
    """A data set as it is published.

    Attributes:
        files: To be downloaded.
        marks: How it is recognised; the first is what the download brings.
        about: One line for people.
        folder: Where single files go; an archive brings a folder of its own.
    """

    files: Sequence[Remote]
    marks: Sequence[DataFile]
    about: str
    folder: str = ""


_TORONTO = "https://www.cs.toronto.edu/~kriz"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_SVHN = "http://ufldl.stanford.edu/housenumbers"
_VOTES = "https://raw.githubusercontent.com/jcpeterson/cifar-10h/48da312b193b82e6939ec20f23d1f09cbdd849c8/data"
_NOISY = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/49df7d8a69e355470c77c1c2f2424916325a394b/data"


def _idx(base: str, sums: Sequence[str], megabytes: Sequence[float]) -> tuple[Remote, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    rows = zip(names, sums, megabytes, strict=True)
    return tuple(Remote(f"{base}/{name}-ubyte.gz", "md5", checksum, size) for name, checksum, size in rows)


PUBLISHED: Mapping[str, Published] = {
    "cifar10": Published(
        (Remote(f"{_TORONTO}/cifar-10-binary.tar.gz", "md5", "c32a1d4ab5d03f1284b67883e8d87530", 170),),
        (DataFile("data_batch_1.bin", "cifar-10-batches-bin"),),
        "CIFAR-10, binary version",
    ),
    "cifar10_python": Published(
        (Remote(f"{_TORONTO}/cifar-10-python.tar.gz", "md5", "c58f30108f718f92721af3b95e74349a", 170),),
        (DataFile("data_batch_1", "cifar-10-batches-py"),),
        "CIFAR-10, python version",
    ),
    "cifar100": Published(
        (Remote(f"{_TORONTO}/cifar-100-binary.tar.gz", "md5", "03b5dce01913d631647c71ecec9e9cb8", 169),),
        (DataFile("train.bin", "cifar-100-binary"),),
        "CIFAR-100, binary version",
    ),
    "cifar100_python": Published(
        (Remote(f"{_TORONTO}/cifar-100-python.tar.gz", "md5", "eb9058c3a382ffc7106e4002c42a8d85", 169),),
        (DataFile("train", "cifar-100-python"),),
        "CIFAR-100, python version",
    ),
    "cifar10c": Published(
        (
            Remote(
                "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar?download=1",
                "md5",
                "56bf5dcef84df0e2308c6dcbcbbd8499",
                2918,
            ),
        ),
        (DataFile("labels.npy", "CIFAR-10-C"),),
        "CIFAR-10-C: corrupted test images",
    ),
    "cifar100c": Published(
        (
            Remote(
                "https://zenodo.org/records/3555552/files/CIFAR-100-C.tar?download=1",
                "md5",
                "11f0ed0f1191edbf9fa23466ae6021d3",
                2918,
            ),
        ),
        (DataFile("labels.npy", "CIFAR-100-C"),),
        "CIFAR-100-C: corrupted test images",
    ),
    "cifar10h": Published(
        (
            Remote(
                f"{_VOTES}/cifar10h-counts.npy",
                "sha256",
                "9b36b4550349af56c79083356312eb4af856cc5fd3caf1f669d40b9d0bbb69ff",
                0.8,
            ),
        ),
        (DataFile("cifar10h-counts.npy", "cifar10h"), DataFile("cifar10h_test_votes.npz")),
        "CIFAR-10H: people's votes on the test images",
        "cifar10h",
    ),
    "cifar10n": Published(
        (
            Remote(
                f"{_NOISY}/CIFAR-10_human.pt",
                "sha256",
                "873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
                2.4,
            ),
        ),
        (DataFile("CIFAR-10_human.pt", "cifar-n"), DataFile("cifar10n_train_labels.npz")),
        "CIFAR-10N: people's labels of the training images",
        "cifar-n",
    ),
    "cifar100n": Published(
        (
            Remote(
                f"{_NOISY}/CIFAR-100_human.pt",
                "sha256",
                "bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
                1.0,
            ),
        ),
        (DataFile("CIFAR-100_human.pt", "cifar-n"), DataFile("cifar100n_train_labels.npz")),
        "CIFAR-100N: people's labels of the training images",
        "cifar-n",
    ),
    "fashion_full": Published(
        _idx(
            _FASHION,
            (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
            (26.4, 0.03, 4.4, 0.005),
        ),
        (DataFile("train-images-idx3-ubyte.gz", "fashion-mnist"),),
        "Fashion-MNIST",
        "fashion-mnist",
    ),
    "mnist": Published(
        _idx(
            _MNIST,
            (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
            (9.9, 0.03, 1.6, 0.005),
        ),
        (DataFile("train-images-idx3-ubyte.gz", "mnist"),),
        "MNIST",
        "mnist",
    ),
    "svhn": Published(
        (
            Remote(f"{_SVHN}/train_32x32.mat", "md5", "e26dedcc434d2e4c54c9b2d4a06d8373", 182),
            Remote(f"{_SVHN}/test_32x32.mat", "md5", "eb5a983be6a315427106f1b164d9cef3", 64),
        ),
        (DataFile("train_32x32.mat", "svhn"),),
        "SVHN, cropped digits",
        "svhn",
    ),
    "tiny_imagenet": Published(
        (Remote("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5", "90528d7ca1a48142e341f4ef8d21d0de", 248),),
        (DataFile("wnids.txt", "tiny-imagenet-200"),),
        "Tiny-ImageNet",
    ),
}
