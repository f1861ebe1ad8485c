"""A kernel as the agent's place of work: code, variables, undo, copies that try code, notebooks."""
