"""Text, messages and sessions as HTML and as rows."""
