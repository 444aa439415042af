"""The texts Atlas was trained on: whatever differs by a space is another model.

The query of the retriever is the whole prompt, mask token included, not the bare question.
"""

import re

from tools.calls import unquoted

QUERY = "question: {question} answer: <extra_id_0>"
READER_ROW = "{query} title: {title} context: {text}"
TEXT_MAXLENGTH = 512  # tokens of a reader row or a query, end tokens included; the rest is cut


def clean_question(text: str, *, normalize: bool) -> str:
    """`text` in one line without the quotation marks around it, "" if nothing is left.

    With `normalize` as the questions of NQ-open are: in lower case, without "?" at the end.
    """
    # Half a surrogate pair is text to a language model and to nobody else.
    plain = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    question = unquoted(plain)
    if normalize:
        question = re.sub(r"[\s?]+$", "", question.lower())
    return question


def query_of(question: str) -> str:
    return QUERY.format(question=question)


def reader_row(query: str, *, title: str, text: str) -> str:
    return READER_ROW.format(query=query, title=title, text=text)
