"""The language that all rooms speak: messages, events, text, files, errors. It imports nothing above it."""
