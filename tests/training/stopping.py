"""A tracker that ends a run at a known step: once, as a user or as a machine would."""

import os
import signal
from pathlib import Path


class Stop:
    """Is due at one step, and then stops this process if nobody has been stopped there before."""

    def __init__(self, horizon, *, step: int, marker: str, rank: int = -1) -> None:
        self.step, self.marker, self.rank = step, Path(marker), rank

    def due(self, step):
        return step == self.step

    def measure(self, moment):
        ranks = moment.ranks
        if ranks.told(self.marker.exists()):
            return {}
        ranks.wait()
        if ranks.is_first:
            self.marker.touch()
        ranks.wait()
        if self.rank == -1:
            raise KeyboardInterrupt
        if ranks.rank == self.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        return {}
