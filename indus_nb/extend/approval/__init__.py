"""Which calls are asked about, and what the answer "always" covers."""
