"""MLQA with English contexts and questions in six languages (section 4.2.4 and Appendix C.4)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.base import InputError
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.files import json_of, list_of, string_of

# In the order of Table 6.
LANGUAGES = ("es", "de", "hi", "vi", "zh", "ar")
_PUBLISHED_AT = "https://github.com/facebookresearch/MLQA (MLQA_V1.zip, folder test)"


def mlqa(path: Path) -> Benchmark:
    """Every question of the six languages; its group is the language.

    `path` is the folder of one split of MLQA, with files test-context-en-question-LANGUAGE.json.

    Raises:
        InputError: one of the files is missing, or broken; it names the question.
    """
    examples = [
        _example(language, own_id, context, question, answers)
        for language in LANGUAGES
        for own_id, context, question, answers in _questions(path, language)
    ]
    return _benchmark("mlqa", examples, {})


def mlqa_in_english(path: Path) -> Benchmark:
    """The same questions as `mlqa` asks, in English: the upper bound, the rows "All En" of Table 6.

    A language's group has the questions that MLQA has in this language: hence the six different
    scores of one model in the table. `path` as in `mlqa`, with the file of English questions too.

    Raises:
        InputError: one of the files is missing, or broken; it names the question.
    """
    english = {own_id: question for own_id, _, question, _ in _questions(path, "en")}
    examples: list[Example] = []
    skipped: Counter[str] = Counter()
    for language in LANGUAGES:
        for own_id, context, _, answers in _questions(path, language):
            if own_id in english:
                examples.append(_example(language, own_id, context, english[own_id], answers))
            else:
                skipped["not in English"] += 1
    return _benchmark("mlqa_in_english", examples, dict(skipped))


def mlqa_prompt(context: str, question: str) -> str:
    """What a model is asked: the paper's words around the paragraph and before the question."""
    return (
        f"Your task is to answer a question based on the following paragraph: {context} "
        f"Now answer the following question in English: {question}"
    )


def _benchmark(name: str, examples: list[Example], skipped: dict[str, int]) -> Benchmark:
    return Benchmark(
        name=name,
        examples=tuple(examples),
        criterion="answer_within_10",
        without_tools=(),
        skipped=skipped,
    )


def _example(
    language: str, own_id: str, context: str, question: str, answers: tuple[str, ...]
) -> Example:
    # A question has one id in all languages.
    return Example(
        id=f"{language}/{own_id}",
        prompt=mlqa_prompt(context, question),
        answers=answers,
        group=language,
    )


def _questions(path: Path, language: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """The id, English context, question and English answers of each question of a language."""
    file = path / f"test-context-en-question-{language}.json"
    content = json_of(file, from_where=_PUBLISHED_AT)
    for article_number, article in enumerate(list_of(content, "data", str(file)), start=1):
        where = f"{file}: article {article_number}"
        for paragraph in list_of(article, "paragraphs", where):
            context = string_of(paragraph, "context", where)
            for entry in list_of(paragraph, "qas", where):
                own_id = string_of(entry, "id", where)
                at = f"{file}: question {own_id}"
                texts = [string_of(answer, "text", at) for answer in list_of(entry, "answers", at)]
                # A blank one would be in whatever a model says.
                answers = tuple(dict.fromkeys(text for text in texts if text))
                if not answers:
                    raise InputError(f"{at}: no answer")
                yield own_id, context, string_of(entry, "question", at), answers
