"""The shared vocabulary of all packages: messages, events, text, files, errors. It imports nothing above it."""
