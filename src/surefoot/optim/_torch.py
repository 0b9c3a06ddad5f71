"""The names of torch with an underscore that are used in this room: five, looked up nowhere but by these constants.

Each is asked for with a default, so that a torch without it loses what is said here and nothing else.
"""

# Tensor: how often it has been written to in place. It tells gradients that came after a step from those that the step
# has used, and losses that were changed after torch computed them.
# Without it: gradients added to used ones are cleared with them, and p_y is known only where it is given.
VERSION = "_version"

# Node of torch's log_softmax: the dimension it sums over (a saved value, see "Autograd mechanics" in torch's notes).
# Without it: p_y is known only where it is given.
SOFTMAX_DIM = "_saved_dim"

# Optimizer: what GradScaler.step asks an optimizer for before it steps it. Nothing else tells it from a user's call.
# Without it: a closure that is handed to scaler.step, clears the gradients and scales its loss is not refused.
ASKED_BY_SCALER = "_step_supports_amp_scaling"

# DistributedDataParallel.reducer: stops waiting for a backward pass that will not come, since its closure raised.
# Without it: the next clean pass is averaged over the ranks, which then climb together for one step.
STOP_WAITING = "_reset_state"

# DistributedDataParallel: whether it runs under torch's Join, where ranks may have run out of batches.
# Without it: methods that exchange more than gradients are not refused there, and wait.
JOIN = "_join_config"
