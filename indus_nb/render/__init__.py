"""Views of a session: text made safe for HTML, Markdown and terminals, a session as a page, and its tree as rows.

``markup`` escapes and sanitises hostile text and knows the styles of all front ends; ``cards`` draws tool calls,
``context`` what went to the model besides a prompt; ``session_page`` is the page that an export writes; ``tree`` lists
the branches of a session.
"""
