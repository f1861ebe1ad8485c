"""Protection of the user: secrets and where they are kept, the sandbox, and the policy for each effect."""
