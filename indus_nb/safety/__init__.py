"""What protects the user: secrets and where they are kept, the sandbox, and what becomes of each effect."""
