"""A fuzzer of RPC mode: bursts of commands on real pipes, and a model of the order that events must keep.

``scenario`` makes the bursts from a seed, ``server`` is the model's API that answers them, ``extension`` an extension
that gets in the way, ``play`` runs all three against a real process and returns a ``Log``. ``grammar`` and ``promises``
judge the frames of a log, ``files`` the session files. ``shrink`` makes a scenario that fails as small as it can be,
and ``python -m fuzz`` (in the directory ``tests``) does all that for many seeds.
"""
