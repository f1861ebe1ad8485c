"""One streaming request: connections, TLS, server-sent events, and failures in words."""
