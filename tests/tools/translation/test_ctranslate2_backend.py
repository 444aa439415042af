"""Translations by CTranslate2: the same as by transformers, one batch for each source."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.base import ConfigError, InputError, ToolRequest
from tools.translation.ctranslate2_backend import CTranslate2Translator
from tools.translation.tool import MT
from tools.translation.transformers_backend import TransformersTranslator
from tools.translation.translator import Source

pytestmark = pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs ctranslate2")

SOURCES = [
    Source(language="por_Latn", text="O homem suprimido"),
    Source(language="deu_Latn", text="der klassische jüdische Mann"),
    Source(language="zho_Hans", text="南京高淳县"),
    Source(language="rus_Cyrl", text="описание"),
    Source(language="fra_Latn", text="la sûreté nucléaire en France " * 3),
    Source(language="deu_Latn", text="Mann"),
]
OPTIONS = {"max_source_tokens": 256, "device": "cpu", "dtype": None}


@pytest.fixture(scope="module")
def converted(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ctranslate2.converters import TransformersConverter

    directory = tmp_path_factory.mktemp("converted") / "model"
    copied = ["tokenizer.json", "tokenizer_config.json"]
    TransformersConverter(str(checkpoint), copy_files=copied).convert(str(directory))
    return directory


def translator(directory: Path, **options: object) -> CTranslate2Translator:
    settings = OPTIONS | {"beam_size": 4, "num_threads": 1} | options
    return CTranslate2Translator(directory, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_both_backends_translate_alike(checkpoint: Path, converted: Path, beam_size: int) -> None:
    reference = TransformersTranslator(
        checkpoint, beam_size=beam_size, num_threads=1, **OPTIONS  # type: ignore[arg-type]
    )  # fmt: skip
    expected = reference.translate(SOURCES)
    assert translator(converted, beam_size=beam_size).translate(SOURCES) == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_translation_does_not_depend_on_its_batch(converted: Path, dtype: str) -> None:
    backend = translator(converted, dtype=dtype, num_threads=2)
    together = backend.translate(SOURCES)
    assert [backend.translate([source])[0] for source in SOURCES] == together
    assert backend.translate(SOURCES[::-1]) == together[::-1]
    assert backend.translate([]) == []


def test_the_tool_takes_what_the_directory_holds(checkpoint: Path, converted: Path) -> None:
    requests = [ToolRequest(input="der klassische jüdische Mann")]
    both = [MT(path=str(directory), beam_size=1) for directory in (checkpoint, converted)]
    assert both[0].run(requests) == both[1].run(requests)
    assert "transformers=" in both[0].version
    assert "ctranslate2=" in both[1].version
    assert MT(path=str(converted), num_threads=2, beam_size=1).version == both[1].version
    assert MT(path=str(converted), dtype="int8", beam_size=1).version != both[1].version


def test_a_conversion_without_its_tokenizer_is_refused(converted: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(converted, tmp_path / "model")
    (directory / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"no tokenizer\.json; the tokenizer of NLLB is needed"):
        translator(directory)


def test_torn_conversions_and_types_of_other_devices_are_named(
    converted: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cannot load it on cpu as float16: "):
        translator(converted, dtype="float16").load()
    with pytest.raises(ConfigError, match="dtype is 'int4', expected one of default, auto, int8"):
        translator(converted, dtype="int4")
    directory = shutil.copytree(converted, tmp_path / "model")
    (directory / "model.bin").write_bytes((directory / "model.bin").read_bytes()[:1000])
    with pytest.raises(InputError, match="CTranslate2 cannot load it on cpu as default"):
        translator(directory).load()
    (directory / "shared_vocabulary.json").unlink()
    with pytest.raises(ConfigError, match=r"no shared_vocabulary\.json beside model\.bin"):
        translator(directory)
