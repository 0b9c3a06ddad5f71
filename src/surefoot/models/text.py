"""Networks that read tokens: a text classifier and a character language model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.models._transformer import Encoder, embed_init
from surefoot.registry import MODELS


class Reader(nn.Module):
    """Embed tokens with their positions and run transformer blocks over them.

    Args:
        length: Longest text.
        vocabulary: Number of different tokens.
        width: Of the embedding; a multiple of heads.
        depth: Number of blocks.
        heads: Of the attention.
        dropout: Probability inside the blocks.
        causal: Let a token see those before it only.

    Raises:
        InputError: If an option makes no network.
    """

    def __init__(
        self, length: int, vocabulary: int, width: int, depth: int, heads: int, dropout: float, *, causal: bool
    ) -> None:
        if min(length, vocabulary, width, depth, heads) < 1 or width % heads or not 0 <= dropout < 1:
            raise InputError(
                f"Expected positive sizes, width a multiple of heads and dropout in [0, 1), but got "
                f"vocabulary={vocabulary}, width={width}, depth={depth}, heads={heads}, dropout={dropout:g}. "
                "Leave them out for the defaults."
            )
        super().__init__()
        self.vocabulary = vocabulary
        self.embed, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            Encoder(width, heads, 4 * width, dropout=dropout, causal=causal) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return one vector per token, shape ``(n, length, width)``.

        Args:
            tokens: Whole numbers below the vocabulary's size, shape ``(n, length)``.
            hidden: Which of them nobody may look at.

        Returns:
            The vectors.

        Raises:
            InputError: If a token is not in the vocabulary.
        """
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.vocabulary:
            raise InputError(
                f"Expected tokens in 0…{self.vocabulary - 1}, but got {int(tokens.min())} to {int(tokens.max())}. "
                "Set vocabulary= to the number of different tokens; for tokens of an npz file, write inputs=raw."
            )
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, hidden)
        vectors: Tensor = self.norm(x)
        return vectors


class TextClassifier(nn.Module):
    """The mean over all tokens of a text, then a linear layer; token 0 is padding.

    Args:
        reader: Reads the text.
        width: Of its vectors.
        n_classes: Number of logits.
    """

    takes_tokens = True

    def __init__(self, reader: Reader, width: int, n_classes: int) -> None:
        super().__init__()
        self.reader, self.head = reader, nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of each text; tokens may come as floats, as all inputs of a split do."""
        tokens = tokens.long()
        padding = tokens == 0
        vectors = self.reader(tokens, padding)
        seen = (~padding).to(vectors.dtype)[:, :, None]
        mean = (vectors * seen).sum(1) / seen.sum(1).clamp(min=1)
        logits: Tensor = self.head(mean)
        return logits


class CharacterModel(nn.Module):
    """Return which character comes next; every character sees those before it only.

    Args:
        reader: Reads the text; causal.
        width: Of its vectors.
        n_classes: Number of different characters.
    """

    takes_tokens = True

    def __init__(self, reader: Reader, width: int, n_classes: int) -> None:
        super().__init__()
        self.reader, self.head = reader, nn.Linear(width, n_classes)

    def everywhere(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next character at every place, shape ``(n, length, characters)``."""
        logits: Tensor = self.head(self.reader(tokens.long()))
        return logits

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the character after the last one."""
        return self.everywhere(tokens)[:, -1]


def _length(name: str, input_shape: tuple[int, ...]) -> int:
    if len(input_shape) != 1:
        raise InputError(
            f"Expected rows of tokens for {name}, but got shape {input_shape}. Use --model cnn for images."
        )
    return input_shape[0]


@MODELS.register("text_transformer", example_shape=(12,), tokens=True, reference="Vaswani et al. 2017")
def text_transformer(
    input_shape: tuple[int, ...],
    n_classes: int,
    *,
    vocabulary: int = 256,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    dropout: float = 0.0,
) -> nn.Module:
    """Small text classifier: embedding, transformer blocks, mean over the text; token 0 is padding."""
    length = _length("text_transformer", input_shape)
    reader = Reader(length, vocabulary, width, depth, heads, dropout, causal=False)
    return embed_init(TextClassifier(reader, width, n_classes))


@MODELS.register("char_lm", example_shape=(12,), tokens=True, reference="Vaswani et al. 2017")
def char_lm(
    input_shape: tuple[int, ...],
    n_classes: int,
    *,
    vocabulary: int | None = None,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    dropout: float = 0.0,
) -> nn.Module:
    """Tiny character language model: which character comes next; by default as many as there are classes."""
    length = _length("char_lm", input_shape)
    reader = Reader(length, vocabulary or n_classes, width, depth, heads, dropout, causal=True)
    return embed_init(CharacterModel(reader, width, n_classes))
