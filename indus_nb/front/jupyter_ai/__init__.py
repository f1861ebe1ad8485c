"""The agent in the chat of Jupyter AI 3, which finds it by the entry point group ``jupyter_ai.personas``.

Nothing else imports this package: Jupyter AI has to be there, see the extra ``jupyter-ai``.
"""
