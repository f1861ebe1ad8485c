"""The console program ``indus-nb``, and the protocol that it speaks over standard input and output.

``cli`` reads the command line and starts one of two modes: ``once`` answers the prompts of the command line, ``rpc``
serves commands (declared in ``commands``, documented in ``docs/commands.md``). Both write through ``stdio``, which owns
descriptors 0 and 1, in the shapes that ``frames`` and ``strict`` know. ``client`` is the other end of ``rpc``.
"""
