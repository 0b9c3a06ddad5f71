"""Train runs on this rank, one after another: ``torchrun on_ranks.py '[{"out": …, "method": …}, …]'``."""

import json
import sys

import torch
import torch.distributed as dist

import surefoot as sf

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for job in json.loads(sys.argv[1]):
        try:
            sf.train(**job)
        except KeyboardInterrupt:  # of tests.training.stopping
            dist.barrier()
        except sf.InputError as error:
            if not error.is_told_elsewhere:
                print(error, file=sys.stderr)
    dist.destroy_process_group()
