"""Crash points: every write, fsync and rename of a command fails, is torn or is dropped, one after another.

As in the tests of SQLite: :mod:`disk` counts and disturbs what a command does to files, :mod:`nursery` starts
processes that have imported everything already, :mod:`commands` has the tiny commands, and :mod:`points` goes through
all points of one and says what was wrong.
"""
