"""Frontmatter has one grammar, whether or not the parser of YAML is needed for it."""

from __future__ import annotations

import pytest

from indus_nb.core.resources.frontmatter import UnusableFileError, read_fields, split_frontmatter


@pytest.mark.parametrize(
    ("front", "fields"),
    [
        ("", {}),
        ("name: notes\ndescription: Use it", {"name": "notes", "description": "Use it"}),
        ('description: "Use it: then"', {"description": "Use it: then"}),
        ("condition:\n  - one\n  - 2", {"condition": ["one", "2"]}),
        ("when: 2026-01-01\non: yes\nname: ~", {"when": "2026-01-01", "on": "yes", "name": "~"}),
        ("name: a # comment\nname: b", {"name": "b"}),
    ],
)
def test_fields_are_texts_and_lists_of_texts(front: str, fields: dict[str, object]) -> None:
    assert read_fields(front) == fields


def test_a_colon_within_a_text_must_be_quoted_and_the_error_says_where() -> None:
    with pytest.raises(UnusableFileError, match=r"no YAML in line 3 .* quote texts that hold `: ` or `#`"):
        read_fields("name: notes\ndescription: Use when: asked")


def test_fields_end_at_the_second_mark() -> None:
    assert split_frontmatter("---\nname: a\n---\nText\n---\n") == ("name: a\n", "Text\n---")
    assert split_frontmatter("Text\n---\n") == ("", "Text\n---")
