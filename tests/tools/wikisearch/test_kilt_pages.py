"""Pages of the KILT knowledge source."""

import pytest

from tools.wikisearch.kilt import Paragraph, parse_heading, parse_page


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("Section::::History.", ("History",)),
        ("Section::::History.:Typographic variants.", ("History", "Typographic variants")),
        ("Section::::Natural resources.:Flora.:Trees.", ("Natural resources", "Flora", "Trees")),
        ("Section::::Who is it?:In the book.", ("Who is it?", "In the book")),
        ("Section::::Act 1: the start.", ("Act 1: the start",)),
        ("Section::::Vol.: a note.", ("Vol.: a note",)),
        ("Section::::No full stop", ("No full stop",)),
        ("Section::::Abstract.", ()),
        ("Section::::.", ()),
    ],
)
def test_a_heading_is_a_path_without_its_full_stops(line: str, path: tuple[str, ...]) -> None:
    assert parse_heading(line) == path


def test_a_page_keeps_paragraphs_with_the_section_they_stand_in() -> None:
    page = parse_page(
        "Tilde",
        [
            "Tilde\n",
            "The tilde is a\tmark.\n",
            "Section::::History.\n",
            "It is old.\n",
            "Section::::History.:Variants.\n",
            "BULLET::::- one of them\n",
            "BULLET::::2. another one\n",
            " BULLET::::  - a deeper one\n",
            "BULLET::::- 1984 was a year\n",
            "\n",
        ],
    )
    assert page.title == "Tilde"
    assert page.paragraphs == (
        Paragraph(section=(), text="The tilde is a mark."),
        Paragraph(section=("History",), text="It is old."),
        Paragraph(section=("History", "Variants"), text="one of them"),
        Paragraph(section=("History", "Variants"), text="another one"),
        Paragraph(section=("History", "Variants"), text="a deeper one"),
        Paragraph(section=("History", "Variants"), text="1984 was a year"),
    )


def test_a_first_paragraph_that_is_not_the_title_is_kept() -> None:
    page = parse_page("Tilde", ["The tilde is a mark."])
    assert page.paragraphs == (Paragraph(section=(), text="The tilde is a mark."),)


def test_reference_sections_and_what_is_nested_in_them_are_dropped() -> None:
    page = parse_page(
        "T",
        [
            "T",
            "Section::::See also.",
            "BULLET::::- Something else",
            "Section::::References.",
            "A book.",
            "Section::::References.:Web.",
            "A site.",
            "Section::::Legacy.",
            "It is remembered.",
            "Section::::EXTERNAL LINKS.",
            "A link.",
        ],
    )
    assert [paragraph.text for paragraph in page.paragraphs] == ["It is remembered."]


def test_headings_without_a_marker_are_found_when_no_heading_has_one() -> None:
    born = "She was born by the sea."
    page = parse_page(
        "T", ["T", "Short lead.", "Early life.", born, "He said so:", "References.", "A book."]
    )
    assert page.paragraphs == (
        Paragraph(section=(), text="Short lead."),  # the first paragraph is never a heading
        Paragraph(section=("Early life",), text=born),
        Paragraph(section=("Early life",), text="He said so:"),
    )


def test_a_short_sentence_is_no_heading_where_headings_are_marked() -> None:
    page = parse_page("T", ["T", "A lead.", "He died.", "Section::::Legacy.", "Fame came."])
    assert page.paragraphs == (
        Paragraph(section=(), text="A lead."),
        Paragraph(section=(), text="He died."),
        Paragraph(section=("Legacy",), text="Fame came."),
    )
