"""Small pictures on disk: as folders, and as files of parquet as on the Hugging Face hub."""

import datasets
import numpy as np
from PIL import Image


def write_folders(root):
    """Write two classes of small pictures, one a little brighter, and return their folder."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 40), ("test", 10)):
        for label, name in enumerate(("dark", "light")):
            folder = root / part / name
            folder.mkdir(parents=True)
            for number in range(n):
                pixels = rng.integers(0, 200, (8, 8, 3)) + 40 * label
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    return root


def write_parquet(root):
    """Write small pictures, four files to a part, and return their folder."""
    rng = np.random.default_rng(1)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    for part, n in (("train", 60), ("test", 21)):
        rows = {
            "image": [Image.fromarray(rng.integers(0, 255, (6, 6, 3), np.uint8)) for _ in range(n)],
            "label": [number % 2 for number in range(n)],
        }
        table = datasets.Dataset.from_dict(rows, features=features)
        for number in range(4):
            file = root / "data" / f"{part}-0000{number}-of-00004.parquet"
            table.shard(4, number, contiguous=True).to_parquet(file)
    return root
