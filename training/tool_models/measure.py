"""How often the demo's tools answer exactly right, on the held-out world."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from tools.atlas import saved
from tools.atlas.formats import query_of
from tools.atlas.retriever import Retriever
from tools.base import Tool, ToolRequest, ToolResult
from tools.registry import build_tool
from training.tool_models.passages import entity_passages
from training.world.corpus import held_out_corpus
from training.world.lexicon import LANGUAGES, Phrase, draw_phrase
from training.world.questions import questions_about

N_CONTEXT = 1  # passages with which most answers are right; of more it mixes up similar ones
_OTHER_CONTEXTS = (2, 4)
_PHRASES_PER_LANGUAGE = 100
_WORDINGS = ((False, "a wording of training"), (True, "a new wording"))

Figures = list[tuple[str, str]]


def qa_tool(folder: Path, *, n_context: int = N_CONTEXT) -> Tool:
    """The QA tool on an Atlas of the demo."""
    options = {"path": str(folder), "n_context": n_context, "device": "cpu"}
    return build_tool("QA", factory="tools.atlas.tool:AtlasQA", options=options)


def mt_tool(folder: Path) -> Tool:
    """The MT tool on a translator of the demo."""
    options = {"path": str(folder), "device": "cpu"}
    return build_tool("MT", factory="tools.translation.tool:MT", options=options)


def held_out_questions(*, new_wording: bool) -> list[tuple[str, str, str]]:
    """(question, answer, title of the passage) for every fact of the demo's encyclopedia."""
    world = held_out_corpus().world
    titles = {
        (entity.title, fact.relation): passage["title"]
        for number, entity in enumerate(world.entities)
        for fact, passage in zip(entity.facts, entity_passages(entity, number)[1:], strict=True)
    }
    rng = random.Random("held-out questions")
    return [
        (question, answer, titles[entity.title, fact.relation])
        for question, answer, entity, fact in questions_about(world, rng, held_out=new_wording)
    ]


def held_out_phrases(language: str, count: int) -> list[Phrase]:
    """Phrases whose English training never saw."""
    rng = random.Random(f"held-out phrases {language}")
    return [draw_phrase(rng, held_out=True, language=language) for _ in range(count)]


def answers(tool: Tool, inputs: Sequence[str]) -> list[ToolResult]:
    return tool.run([ToolRequest(input=text) for text in inputs])


def measure_atlas(folder: Path) -> Figures:
    """Retrieval and answers for every fact of the demo's encyclopedia, asked in two ways.

    Raises ConfigError where there is no Atlas, InputError where its index is another.
    """
    tools = {n: qa_tool(folder, n_context=n) for n in (N_CONTEXT, *_OTHER_CONTEXTS)}
    figures: Figures = []
    for new_wording, label in _WORDINGS:
        asked = held_out_questions(new_wording=new_wording)
        ranks = passage_ranks(folder, asked)
        figures += [
            (f"{label}: questions", str(len(asked))),
            (f"{label}: right passage first", _share([rank < 1 for rank in ranks])),
            (f"{label}: right passage among 4", _share([rank < 4 for rank in ranks])),
        ]
        for n_context, tool in tools.items():
            results = answers(tool, [question for question, _, _ in asked])
            right = [result.result == asked[row][1] for row, result in enumerate(results)]
            passages = "1 passage" if n_context == 1 else f"{n_context} passages"
            figures.append((f"{label}: answers exactly right, of {passages}", _share(right)))
    return figures


def passage_ranks(folder: Path, asked: Sequence[tuple[str, str, str]]) -> list[int]:
    """How many passages are nearer to each question than the right one."""
    retriever = Retriever(folder / saved.RETRIEVER, device=torch.device("cpu"))
    queries_QD = retriever.embed([query_of(question) for question, _, _ in asked])
    passages_ND = torch.from_numpy(np.load(folder / saved.INDEX / saved.EMBEDDINGS)).float()
    scores_QN = queries_QD @ passages_ND.T
    rows = {title: row for row, title in enumerate(_titles(folder))}
    right_Q = torch.tensor([rows[title] for _, _, title in asked])
    of_right_Q1 = scores_QN.gather(1, right_Q[:, None])
    ranks: list[int] = (scores_QN > of_right_Q1).sum(1).tolist()
    return ranks


def measure_translator(folder: Path) -> Figures:
    """Held-out phrases of each language, the language identified by the tool."""
    tool = mt_tool(folder)
    figures: Figures = []
    for language in LANGUAGES:
        phrases = held_out_phrases(language, _PHRASES_PER_LANGUAGE)
        results = answers(tool, [phrase.foreign for phrase in phrases])
        right = [
            result.result == phrase.english for phrase, result in zip(phrases, results, strict=True)
        ]
        figures.append((f"{language}: {len(phrases)} phrases exactly right", _share(right)))
    return figures


def _titles(folder: Path) -> list[str]:
    import pyarrow as pa

    with pa.memory_map(str(folder / saved.INDEX / saved.PASSAGES)) as source:
        titles: list[str] = pa.ipc.open_file(source).read_all()["title"].to_pylist()
    return titles


def _share(values: Sequence[bool]) -> str:
    return f"{100 * sum(values) / len(values):.1f} %"
