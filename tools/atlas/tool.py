"""The QA tool: a factoid question in, a short answer out (paper section 3, Question Answering)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tools.atlas.formats import clean_question
from tools.atlas.options import AtlasOptions, IndexGoneError, check_at_least
from tools.atlas.saved import open_meta
from tools.base import ToolRequest, ToolResult
from tools.calls import sanitize_result

if TYPE_CHECKING:
    from tools.atlas.answering import Atlas


class AtlasQA:
    """Atlas (Izacard et al. 2022): retrieves passages and reads the answer from all of them.

    The paper generates C* with Atlas-large and answers live calls with Atlas-xxl (Appendix A.1).

    Args:
        path: directory written by `python -m tools convert-atlas`.
        size: instead, `path` has a directory for each size, and this is the one to take.
        n_context: passages read for a question. The paper does not say; 40 is Atlas' own number
            for NaturalQuestions.
        max_new_tokens: length of an answer in tokens.
        normalize_question: ask in lower case and without "?", as NaturalQuestions does.
        device: where the networks run, and the search if no actors hold the index. On a CPU they
            use one thread.
        dtype: of the reader, float32 or bfloat16.
        decoder_batch: questions in one pass of the decoder, fewer where memory is short.
        index_actors: Ray actors that hold the index; with 0 it is searched in this process.
        index_num_gpus: of each of these actors.
        max_question_chars: longer questions are invalid.

    Raises:
        ConfigError: a path is missing or an option out of its range.
        InputError: the directory is torn.
    """

    name = "QA"

    def __init__(
        self,
        *,
        path: str,
        size: Literal["base", "large", "xl", "xxl"] | None = None,
        n_context: int = 40,
        max_new_tokens: int = 31,
        normalize_question: bool = False,
        device: Literal["cpu", "cuda"] = "cpu",
        dtype: str = "float32",
        decoder_batch: int = 16,
        index_actors: int = 0,
        index_num_gpus: float = 0.0,
        max_question_chars: int = 500,
    ) -> None:
        check_at_least("max_question_chars", max_question_chars, 1)
        self._options = AtlasOptions(
            n_context=n_context,
            max_new_tokens=max_new_tokens,
            device=device,
            dtype=dtype,
            decoder_batch=decoder_batch,
            index_actors=index_actors,
            index_num_gpus=index_num_gpus,
        )
        self._directory = Path(path) / size if size is not None else Path(path)
        self._meta = open_meta(self._directory)
        self._normalize_question = normalize_question
        self._max_question_chars = max_question_chars
        self._atlas: Atlas | None = None
        self.version = (
            f"1:{self._meta.content_hash[:16]}:{self._options.version()}"
            f":normalize_question={normalize_question}:max_question_chars={max_question_chars}"
        )

    def load(self) -> None:
        """Load the networks and open the index; repeating it does nothing.

        Raises:
            ConfigError: there is no such device, or no Ray cluster or no place in it for the index.
            InputError: the files are torn or of different models.
        """
        if self._atlas is None:
            from tools.atlas.answering import Atlas  # torch

            self._atlas = Atlas(
                self._directory, self._options, content_hash=self._meta.content_hash
            )

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        self.load()
        assert self._atlas is not None
        checked = [self._checked(request.input) for request in requests]
        questions = list(dict.fromkeys(text for text in checked if isinstance(text, str)))
        try:
            answers = dict(zip(questions, self._atlas.answer(questions), strict=True))
        except IndexGoneError as error:
            return [
                ToolResult.failed(str(error), retryable=True) if isinstance(text, str) else text
                for text in checked
            ]
        return [_result(answers[text]) if isinstance(text, str) else text for text in checked]

    def _checked(self, text: str) -> str | ToolResult:
        """The question in `text`, or why there is none."""
        question = clean_question(text, normalize=self._normalize_question)
        if not question:
            return ToolResult.invalid("an empty question")
        if len(question) > self._max_question_chars:
            return ToolResult.invalid(
                f"a question of {len(question)} characters, expected at most "
                f"{self._max_question_chars}"
            )
        return question


def _result(answer: str) -> ToolResult:
    text = sanitize_result(answer)
    return ToolResult.ok(text) if text else ToolResult.empty("no answer")
