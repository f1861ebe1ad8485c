"""Typed answers: what a model is asked to answer with, how that is checked, and the tool that it gives it by."""

from indus_nb.core.answers.final import FinalAnswer
from indus_nb.core.answers.kind import FRAME, AnswerKind, InvalidValueError
from indus_nb.core.answers.kinds import answer_kind
from indus_nb.core.answers.schemas import tool_schema

__all__ = ["FRAME", "AnswerKind", "FinalAnswer", "InvalidValueError", "answer_kind", "tool_schema"]
