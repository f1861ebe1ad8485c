"""Views of a session: text made safe for HTML, Markdown and terminals, a session as a page, and its tree as rows.

What is shown is a small tree of ``nodes``, and ``writers`` has its three forms. ``markup`` and ``markdown`` escape and
sanitise hostile text for them; ``markup`` knows the styles of all front ends. ``cards`` draws tool calls, ``context``
what went to the model besides a prompt; ``session_page`` is the page that an export writes; ``tree`` lists the branches
of a session.
"""
