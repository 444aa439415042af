from tools.base import ToolRequest, ToolResult
from tools.result_memory import ResultMemory


def request(text: str) -> ToolRequest:
    return ToolRequest(input=text)


def test_the_answer_unused_longest_goes_first() -> None:
    memory = ResultMemory(max_entries=2)
    for text in ("a", "b"):
        memory.put(request(text), ToolResult.ok(text))
    assert memory.get(request("a")) == ToolResult.ok("a")
    memory.put(request("c"), ToolResult.ok("c"))
    assert memory.get(request("b")) is None
    assert memory.get(request("a")) == ToolResult.ok("a")
    assert len(memory) == 2


def test_long_answers_push_out_more_than_short_ones() -> None:
    memory = ResultMemory(max_bytes=100_000)
    for number in range(20):
        memory.put(request(str(number)), ToolResult.ok("short"))
    assert len(memory) == 20
    memory.put(request("long"), ToolResult.ok("x" * 24_000))
    assert 1 < len(memory) < 20
    assert memory.get(request("long")) is not None
    assert memory.num_bytes <= 100_000


def test_an_answer_that_is_put_again_counts_once() -> None:
    memory = ResultMemory()
    memory.put(request("a"), ToolResult.ok("xx"))
    before = memory.num_bytes
    memory.put(request("a"), ToolResult.ok("xx"))
    assert (len(memory), memory.num_bytes) == (1, before)


def test_an_answer_larger_than_the_memory_is_not_kept() -> None:
    memory = ResultMemory(max_bytes=1_000)
    memory.put(request("a"), ToolResult.ok("x" * 1_000))
    assert (len(memory), memory.num_bytes) == (0, 0)
