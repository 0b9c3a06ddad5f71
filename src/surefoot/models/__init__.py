"""Networks, one file each: a function of the input shape and the number of classes.

A function that has the name of its module is imported here, so that ``surefoot.models.mlp`` is the function,
whatever is imported first.
"""

from surefoot.models._build import build_model, try_out
from surefoot.models.cnn import cnn
from surefoot.models.mlp import mlp
from surefoot.models.pyramidnet import pyramidnet
from surefoot.models.resnet import resnet18, resnet50
from surefoot.models.resnet_cifar import resnet8, resnet20, resnet56, resnet110
from surefoot.models.text import char_lm, text_transformer
from surefoot.models.vit import vit_s16, vit_s32, vit_tiny
from surefoot.models.wrn import wrn

__all__ = [
    "build_model",
    "char_lm",
    "cnn",
    "mlp",
    "pyramidnet",
    "resnet8",
    "resnet18",
    "resnet20",
    "resnet50",
    "resnet56",
    "resnet110",
    "text_transformer",
    "try_out",
    "vit_s16",
    "vit_s32",
    "vit_tiny",
    "wrn",
]
