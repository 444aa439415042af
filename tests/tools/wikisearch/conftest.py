from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def quick_java() -> Iterator[None]:
    """Java for seconds of work: compiling well what runs often does not pay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield
