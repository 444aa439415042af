"""What a chat model would see of a C*, by the code that renders templates."""

from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.pipeline.made_runs import built_run
from tests.pipeline.tiny_checkpoints import END, byte_level_tokenizer
from tests.training.chat_export.exported import Row, chat_export, parquet_rows
from tests.training.finetune.made_dataset import made_run

# In the manner of Hermes: tools in the system message, calls and results in XML tags.
HERMES = """\
{{- '<|system|>' }}
{%- for tool in tools %}
    {{- '\\n' + tool.function.name + ': ' + tool.function.description }}
{%- endfor %}
{%- for message in messages %}
    {{- '\\n<|' + message.role + '|>' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {{- message.content }}
            {%- for call in message.tool_calls %}
                {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
                {{- call.function.arguments | tojson + '}</tool_call>' }}
            {%- endfor %}
            {{- '<|end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}"""

# What templates of Llama 3.1 and Mistral refuse: keys that are there but null, several calls in a
# message, other ids, and users and assistants that do not take turns.
STRICT = """\
{%- set turn = namespace(number=0) %}
{%- for message in messages %}
    {%- if 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 or message.tool_calls[0].id | length != 9 %}
            {{- raise_exception('one call with an id of nine') }}
        {%- endif %}
    {%- elif message.role == 'tool' %}
        {%- if message.tool_call_id | length != 9 %}{{- raise_exception('another id') }}{%- endif %}
    {%- else %}
        {%- if (message.role == 'user') != (turn.number % 2 == 0) %}
            {{- raise_exception('no turns') }}
        {%- endif %}
        {%- set turn.number = turn.number + 1 %}
    {%- endif %}
    {{- message.content | trim }}
{%- endfor %}"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=byte_level_tokenizer(), bos_token=END, eos_token=END
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Two documents with four calls: at the beginning, twice at one place, after a character of
    two bytes.
    """
    directory = tmp_path_factory.mktemp("templates")
    built_run(directory / "run")
    out = directory / "chats"
    assert chat_export(directory / "run", "--out", out, "--instruction", "Write.").exit_code == 0
    return parquet_rows(out)


def test_a_document_reads_so(tokenizer: Any, rows: list[Row]) -> None:
    text = tokenizer.apply_chat_template(
        rows[0]["messages"], tools=rows[0]["tools"], chat_template=HERMES, tokenize=False
    )
    assert text == (
        "<|system|>\n"
        "Calculator: Computes an expression exactly.\n"
        "Calendar: Says what day it is today.\n"
        "<|user|>Write.<|end|>\n"
        '<|assistant|><tool_call>{"name": "Calendar", "arguments": {"input": ""}}</tool_call>'
        "<|end|>\n"
        "<|tool|>Today is Monday, January 30, 2023.<|end|>\n"
        "<|assistant|>In 2023, 3 + 4 is"
        '<tool_call>{"name": "Calculator", "arguments": {"input": "3 + 4"}}</tool_call><|end|>\n'
        "<|tool|>7<|end|>\n"
        '<|assistant|><tool_call>{"name": "Calendar", "arguments": {"input": ""}}</tool_call>'
        "<|end|>\n"
        "<|tool|>Today is Monday, January 30, 2023.<|end|>\n"
        "<|assistant|> 7.<|end|>"
    )


def test_what_is_trained_is_the_text_and_the_calls_and_no_result(
    tokenizer: Any, rows: list[Row]
) -> None:
    for row in rows:
        encoded = tokenizer.apply_chat_template(
            row["messages"],
            tools=row["tools"],
            chat_template=HERMES,
            return_assistant_tokens_mask=True,
            return_dict=True,
        )
        pairs = zip(encoded["input_ids"], encoded["assistant_masks"], strict=True)
        trained = tokenizer.decode([token for token, mask in pairs if mask])
        said = ""
        for message in row["messages"]:
            if message["role"] == "assistant":
                said += message["content"]
                for call in message.get("tool_calls", ()):
                    function = call["function"]
                    argument = f'{{"input": "{function["arguments"]["input"]}"}}'
                    said += f'<tool_call>{{"name": "{function["name"]}", "arguments": {argument}}}'
                    said += "</tool_call>"
                said += "<|end|>"
        assert trained == said


def test_templates_that_refuse_much_refuse_no_conversation(tokenizer: Any, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", 10, long=1)
    assert chat_export(run, "--out", tmp_path / "chats").exit_code == 0
    for row in parquet_rows(tmp_path / "chats"):
        text = tokenizer.apply_chat_template(
            row["messages"], tools=row["tools"], chat_template=STRICT, tokenize=False
        )
        assert row["messages"][-1]["content"].strip() in text
