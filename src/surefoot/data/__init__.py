"""Data sets, one file each: a function that returns :class:`~surefoot.schema.Splits`, or arrays by name.

A function that has the name of its module is imported here, so that ``surefoot.data.fashion`` is the function,
whatever is imported first.
"""

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._load import load_splits
from surefoot.data.characters import characters
from surefoot.data.cifar import cifar10, cifar100
from surefoot.data.cifar_c import cifar10c, cifar100c
from surefoot.data.digits import digits
from surefoot.data.fashion import fashion, fashion_full
from surefoot.data.hf import hf
from surefoot.data.idx import idx, mnist
from surefoot.data.image_folder import image_folder, imagenet
from surefoot.data.label_noise import noisy
from surefoot.data.make_classification import make_classification
from surefoot.data.npz import npz
from surefoot.data.redivided import redivided
from surefoot.data.set_aside import set_aside
from surefoot.data.svhn import svhn
from surefoot.data.text import text
from surefoot.data.tiny_imagenet import tiny_imagenet

__all__ = [
    "characters",
    "cifar10",
    "cifar10c",
    "cifar100",
    "cifar100c",
    "digits",
    "fashion",
    "fashion_full",
    "hf",
    "idx",
    "image_folder",
    "imagenet",
    "load_splits",
    "make_classification",
    "mnist",
    "noisy",
    "npz",
    "redivided",
    "set_aside",
    "splits_from_arrays",
    "svhn",
    "text",
    "tiny_imagenet",
]
