"""A running Jupyter kernel, from outside: the tools of the notebook for the console program and for other agents."""

from indus_nb.kernel.attached.attached_kernel import AttachedKernel, open_kernel, working_in

__all__ = ["AttachedKernel", "open_kernel", "working_in"]
