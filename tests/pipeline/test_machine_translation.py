"""MT from paragraph to C*: what M reads, where its calls stand, and which must not be made."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tokenizers import Tokenizer

from pipeline.build import build
from pipeline.config import MtFilterConfig, RunConfig, SamplingConfig
from pipeline.engine_config import KINDS
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.torch_engine import TorchEngine
from pipeline.execution import distinct_requests, record_results
from pipeline.fingerprint import changes, fingerprint_of
from pipeline.inspect_run import summary_table
from pipeline.look_ahead import looking_ahead
from pipeline.method import Method, resolve_method
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument
from pipeline.report import collect_stats
from pipeline.report.html import render
from pipeline.report.survey import survey
from pipeline.sampling import sample_calls
from pipeline.schemas import SCORED, conform
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from tests.pipeline.letters import ScriptedEngine, letter_codec, letter_method
from tests.pipeline.tiny_checkpoints import byte_level_tokenizer, save_checkpoint
from tools.base import ConfigError, ToolResult
from tools.calls import ApiCall
from tools.prompt import load_prompt
from tools.translation.language_id import bundled_model

CODEC = letter_codec()
# Paragraphs whose words begin with E are English, with F foreign; chunks are single words.
FILTER = MtFilterConfig(chunk_tokens=1)
TEXT = "E only\nEs Fr\u00fch Et\n\nEin Fu\u00df Eis\nEn"
FIRST, SECOND = "Es Fr\u00fch Et", "Ein Fu\u00df Eis"


def identify(chunk: str) -> tuple[bool, float]:
    return chunk[0] != "F", 1.0


def mt_method(tools: Sequence[str] = ("MT",), **changes: Any) -> Method:
    method = letter_method(tools=tools, **changes)
    few_tokens = SamplingConfig(max_new_tokens=4)
    return replace(method, mt_filter=FILTER, sampling=few_tokens)


def prepared(text: str, method: Method, codec: TokenCodec = CODEC) -> pa.Table:
    document = SourceDocument(
        doc_id="d", text=text, url=None, date_download=None, language="en", dropped=None
    )
    return prepare([document], "u", method, codec, identify)


def annotated(text: str, method: Method, engine: ScriptedEngine) -> pa.Table:
    """The unit after all stages; the tool translates into capitals."""
    unit = sample_calls(prepared(text, method), method, CODEC, engine)
    results = {
        tool: {request: ToolResult.ok(request.input.upper()) for request in requests}
        for tool, requests in distinct_requests(unit).items()
    }
    unit = record_results(unit, results, CODEC, max_result_tokens=method.max_result_tokens)
    return score_calls(unit, method, CODEC, engine)


def translator(call_input: str, *, before: str) -> ScriptedEngine:
    """Asks for a translation of `call_input` before the word `before`; it is worth 2 nats."""

    def p_api(text: str, position: int) -> float:
        body = f" {text}".encode()
        return 0.9 if body[position:].startswith(f" {before}".encode()) else 1e-6

    return ScriptedEngine(
        CODEC,
        p_api=p_api,
        samples=lambda text, position: [f"MT({call_input})]"] * 2,
        loss=lambda z, text, position: 1.0 if "->" in z and not z.endswith("->]") else 3.0,
    )


def test_every_paragraph_has_a_verdict_and_its_bytes() -> None:
    (row,) = prepared(TEXT, mt_method()).to_pylist()
    data = TEXT.encode()
    assert [
        (data[p["byte_start"] : p["byte_end"]].decode(), p["verdict"]) for p in row["paragraphs"]
    ] == [
        ("E only", "too_short"), (FIRST, "offered"), (SECOND, "offered"), ("En", "too_short"),
    ]  # fmt: skip
    assert row["offers"] == [{"tool": "MT", "reason": "foreign_text"}]


def test_a_document_without_foreign_text_is_not_offered() -> None:
    (row,) = prepared("E o p q\nE f", mt_method()).to_pylist()
    assert (row["dropped"], row["offers"]) == ("not_offered", [])
    assert [p["verdict"] for p in row["paragraphs"]] == ["no_foreign_text", "too_short"]


def test_without_mt_no_paragraph_is_looked_at() -> None:
    (row,) = prepared("1 + 1 = 2", letter_method()).to_pylist()
    assert row["paragraphs"] is None


def test_a_paragraph_that_is_other_text_by_itself_is_not_offered() -> None:
    """Its tokenizer rewrites an E after a space, and only the window has a space there."""
    spec = json.loads(byte_level_tokenizer().to_str())
    spec["normalizer"] = {"type": "Replace", "pattern": {"String": " Es"}, "content": " es"}
    codec = TokenCodec(Tokenizer.from_str(json.dumps(spec)), bos_id=0, eos_id=0)
    (row,) = prepared(f"x\n{FIRST}", mt_method(), codec).to_pylist()
    assert [p["verdict"] for p in row["paragraphs"]] == ["too_short", "unusable"]
    assert (row["dropped"], row["offers"]) == ("not_offered", [])


def test_the_parts_of_a_long_paragraph_are_judged_each_by_itself() -> None:
    text = "E1 F1 E2 E3 F2 F3 E4 E5"
    rows = prepared(text, mt_method(max_document_tokens=12)).to_pylist()
    assert [(row["text"], [p["verdict"] for p in row["paragraphs"]]) for row in rows] == [
        ("E1 F1 E2 E3 ", ["offered"]),
        ("F2 F3 E4 E5", ["not_between_english"]),  # in the whole paragraph they would be between
    ]


def test_m_reads_the_paragraph_alone_in_all_three_steps() -> None:
    engine = translator("x", before="Et")
    annotated(TEXT, mt_method(), engine)
    assert {text for text, _ in engine.sampled_at} == {FIRST}
    assert {text for _, text, _ in engine.scored} == {FIRST}


def test_a_call_stands_in_the_document_where_it_was_sampled_in_its_paragraph() -> None:
    unit = annotated(TEXT, mt_method(), translator("Fu\u00df", before="Eis"))
    (row,) = unit.to_pylist()
    (call,) = row["calls"]
    assert TEXT.encode()[call["byte_offset"] :].decode() == " Eis\nEn"
    assert call["byte_offset"] == call["position"] - 1  # one token for each byte
    assert call["gain"] == pytest.approx(2.0)


def test_other_tools_still_read_the_whole_document() -> None:
    engine = translator("x", before="Et")
    annotated(TEXT, mt_method(["MT", "Mine"]), engine)
    assert {text for text, _ in engine.sampled_at} == {FIRST, TEXT}


def test_the_call_of_a_paragraph_goes_into_c_star(tmp_path: Path) -> None:
    unit = annotated(TEXT, mt_method(), translator("Fu\u00df", before="Eis"))
    (tmp_path / "units").mkdir()
    path = tmp_path / "units" / "u.parquet"
    pq.write_table(conform(unit, SCORED, stage="test"), path)
    build([path], config(tools={"MT": {}}), CODEC, tmp_path)
    (augmented,) = pq.read_table(tmp_path / "dataset").to_pylist()
    assert augmented["text"] == TEXT.replace("Fu\u00df Eis", "Fu\u00df [MT(Fu\u00df) -> FUSS] Eis")


@pytest.mark.parametrize(
    ("call_input", "before", "after", "is_ahead"),
    [
        ("Fu\u00df", "He said ", "Fu\u00df.", True),
        ("Fu\u00df", "He said Fu\u00df", " or foot.", False),
        ("Fu\u00df", "Fu\u00df and ", "Fu\u00df.", False),
        # On neither side, or on both: that is nothing the model read ahead.
        ("foot", "He said ", "Fu\u00df.", False),
        ("kleiner Fu\u00df", "ein kleiner ", "Fu\u00df.", False),
        ("", "He said ", "Fu\u00df.", False),
        # Case, white space and compatibility forms do not hide it, on either side of it.
        ("FUSS  x", "He said ", "fu\u00df\n x.", True),
        ('"Fu\u00df"', "He said ", "Fu\u00df.", True),
        ("\u201eFu\u00df\u201c", "A Fu\u00df is a ", "\u201eFu\u00df\u201c.", False),
        ("ABC", "He said ", "\uff41\uff42\uff43.", True),
        ("caf\u00e9", "A cafe\u0301 is a ", "caf\u00e9.", False),
    ],
)
def test_an_input_that_stands_only_after_its_call_looks_ahead(
    call_input: str, before: str, after: str, is_ahead: bool
) -> None:
    call = ApiCall("MT", call_input)
    found = looking_ahead([call], before + after, len(before.encode()))
    assert found == ({call} if is_ahead else set())
    assert looking_ahead([ApiCall("QA", call_input)], before + after, len(before.encode())) == set()


def test_of_the_papers_own_examples_the_third_looks_ahead() -> None:
    """Its call stands at the very beginning, before the Chinese text it translates."""
    lines = load_prompt("MT").splitlines()
    inputs = [line.removeprefix("Input: ") for line in lines if line.startswith("Input: ")]
    outputs = [line.removeprefix("Output: ") for line in lines if line.startswith("Output: ")]
    ahead = []
    for text, output in zip(inputs, outputs, strict=False):
        before, _, call = output.partition("[MT(")
        found = looking_ahead(
            [ApiCall("MT", call.partition(")]")[0])], text, len(before.strip().encode())
        )
        ahead.append(bool(found))
    assert ahead == [False, False, True]


def test_a_call_that_looks_ahead_is_neither_executed_nor_scored_and_is_counted(
    tmp_path: Path,
) -> None:
    engine = translator("eis", before="Eis")
    unit = annotated(TEXT, mt_method(), engine)
    (row,) = unit.to_pylist()
    (call,) = row["calls"]
    assert (call["dropped"], call["status"], call["result"]) == ("looks_ahead", None, None)
    assert all(z == "" for z, _, _ in engine.scored)
    (tmp_path / "units").mkdir()
    path = tmp_path / "units" / "u.parquet"
    pq.write_table(conform(unit, SCORED, stage="test"), path)
    summary = build([path], config(tools={"MT": {}}), CODEC, tmp_path)
    counts = summary.tools["MT"]
    assert (counts.candidates, counts.looks_ahead, counts.no_result, counts.kept) == (1, 1, 0, 0)
    stats = collect_stats([path], [], config(tools={"MT": {}})).tools["MT"]
    assert (stats.candidates, stats.looks_ahead, stats.executed) == (1, 1, 0)
    assert stats.documents == 1
    assert stats.paragraphs == {"offered": 2, "too_short": 2}


def test_the_report_and_the_summary_say_how_many_paragraphs_were_read(tmp_path: Path) -> None:
    unit = annotated(TEXT, mt_method(), translator("eis", before="Eis"))
    path = tmp_path / "u.parquet"
    pq.write_table(conform(unit, SCORED, stage="test"), path)
    stats = collect_stats([path], [], config(tools={"MT": {}}))
    said = "2 of 4 paragraphs (2 too short)"
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(summary_table(stats))
    assert f"MT reads {said}" in capture.get()
    page = render(survey([path], [], config(tools={"MT": {}})), config(tools={"MT": {}}))
    assert f"1 documents (1 by foreign_text),\n{said}, " in page
    assert "1 ask for what stands only after them: not executed" in page


def test_calls_of_other_tools_may_look_ahead() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=lambda text, position: 0.9 if position == 2 else 1e-6,
        samples=lambda text, position: ["Mine(Eis)]"] * 2,
        loss=lambda z, text, position: 3.0,
    )
    (row,) = annotated(TEXT, mt_method(["Mine"]), engine).to_pylist()
    assert [call["status"] for call in row["calls"]] == ["ok"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("tiny"), "gpt2")


Numbers = dict[str, list[float]]


def numbers(text: str, tool: str, method: Method, tiny: Path, engine: TorchEngine) -> Numbers:
    """p_i and L_i(eps), bit for bit, and the byte of the text they belong to."""
    codec = TokenCodec.load(str(tiny))
    unit = sample_calls(prepared(text, method, codec), method, codec, engine)
    positions = [p for row in unit.to_pylist() for p in row["positions"] if p["tool"] == tool]
    return {
        name: [p[name] for p in positions]
        for name in ("position", "byte_offset", "p_api", "loss_empty")
    }


def test_a_document_of_one_paragraph_gives_the_numbers_of_the_whole_document(tiny: Path) -> None:
    text = "\n Es Fr\u00fch [Et und 1400 Out of.\t\n"
    engine = TorchEngine.load(str(tiny))
    windowed = numbers(text, "MT", mt_method(["MT"], tau_s=0.0, k=9), tiny, engine)
    whole = numbers(text, "Mine", mt_method(["Mine"], tau_s=0.0, k=9), tiny, engine)
    assert len(whole["position"]) == 9
    assert windowed == whole


def test_a_paragraph_gives_the_numbers_it_gives_as_a_document(tiny: Path) -> None:
    paragraph = "Es Fr\u00fch [Et und 1400 Out of."
    text = f"E \u6771\n  {paragraph}\nEnd"
    engine, method = TorchEngine.load(str(tiny)), mt_method(["MT"], tau_s=0.0, k=1000)
    alone = numbers(paragraph, "MT", method, tiny, engine)
    inside = numbers(text, "MT", method, tiny, engine)
    before = len("E \u6771\n  ".encode())
    # A call before the paragraph stands before the space that is there in the document.
    expected = [before + offset for offset in alone["byte_offset"]]
    assert inside["byte_offset"] == [before - 1, *expected[1:]]
    assert inside["p_api"] == alone["p_api"]
    assert inside["loss_empty"] == alone["loss_empty"]
    assert np.all(np.diff(inside["position"]) > 0)


def config(**settings: Any) -> RunConfig:
    base = {"run": "r", "input": "d", "model": {"path": "m"}, "tools": {"MT": {}}}
    return RunConfig.model_validate(base | settings)


def fingerprint(settings: RunConfig) -> dict[str, Any]:
    info = EngineInfo("torch", "1", "cpu", "float32", 4096, 1000, "weights")
    method = resolve_method(settings, CODEC, context=4096)
    versions: dict[str, str] = dict.fromkeys(settings.tools, "1")
    engines = dict.fromkeys(KINDS, info)
    return fingerprint_of(settings, method, engines, versions, "s")


def test_the_filter_is_in_the_fingerprint_where_it_is_used(tmp_path: Path) -> None:
    stricter = {"min_confidence": 0.9}
    used = changes(fingerprint(config()), fingerprint(config(mt_filter=stricter)))
    assert used == ["mt_filter.min_confidence: 0.8 -> 0.9"]
    unused: dict[str, Any] = {"tools": {"Calculator": {}}}
    assert fingerprint(config(**unused)) == fingerprint(config(**unused, mt_filter=stricter))
    assert not any(key.startswith("mt_filter") for key in fingerprint(config(**unused)))
    version = fingerprint(config())["mt_filter.language_id"]
    copy = tmp_path / "elsewhere.ftz"
    copy.write_bytes(bundled_model().read_bytes())
    moved = fingerprint(config(mt_filter={"language_id": str(copy)}))
    assert moved["mt_filter.language_id"] == version  # what is in the file counts, not where it is


def test_a_run_without_its_classifier_is_refused_before_it_begins() -> None:
    missing = config(mt_filter={"language_id": "no/lid.bin"})
    with pytest.raises(ConfigError, match=r"no/lid\.bin: no such file"):
        resolve_method(missing, CODEC, context=4096)


def test_the_papers_values_are_the_defaults() -> None:
    assert config().mt_filter == MtFilterConfig(
        chunk_tokens=10, min_confidence=0.8, english_confidence=0.5, language_id=None
    )
