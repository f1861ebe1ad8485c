"""Tools of a session for other agents, over the Model Context Protocol.

Every call goes through the session (``indus_nb.core.session.outside``), as the model's calls do.
"""
