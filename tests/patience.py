"""How long tests wait for a process: only to end what hangs, never to say what is slow.

Everything here takes seconds on an idle machine. On a busy one it takes many minutes, and must pass all the same.
"""

PATIENCE = 3600.0  # seconds
