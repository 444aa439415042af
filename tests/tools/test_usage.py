import pytest

from tools.usage import ToolUsage, total_usage


def test_quantiles_of_batch_times_are_within_ten_percent() -> None:
    usage = ToolUsage()
    for hundredths in range(1, 101):
        usage.add_batch(4, hundredths / 100)
    assert usage.quantile_s(0.5) == pytest.approx(0.50, rel=0.1)
    assert usage.quantile_s(0.95) == pytest.approx(0.95, rel=0.1)
    assert (usage.batches, usage.asked, usage.seconds) == (100, 400, 50.5)


def test_a_tool_that_was_not_asked_has_no_batch_time() -> None:
    usage = ToolUsage(requests=3, from_disk=3)
    assert (usage.quantile_s(0.5), usage.quantile_text(0.5)) == (None, "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0004, "0.38 ms"), (0.075, "81 ms"), (1.3, "1.3 s"), (139.6, "140 s")]
)
def test_batch_times_are_shown_with_two_digits(seconds: float, text: str) -> None:
    usage = ToolUsage()
    usage.add_batch(1, seconds)
    assert usage.quantile_text(0.5) == text


def test_a_batch_of_no_time_is_a_batch() -> None:
    usage = ToolUsage()
    usage.add_batch(1, 0.0)
    assert usage.quantile_s(0.5) == pytest.approx(1e-6, rel=0.2)


def test_units_add_up_by_tool() -> None:
    one = ToolUsage(requests=5, from_memory=1, from_disk=1, shared=1, retries=2, warnings=["w"])
    one.add_statuses(["ok", "failed", "ok"])
    two = ToolUsage(requests=2, restarts=1, warnings=["w", "v"])
    two.add_statuses(["timeout", "ok"])
    two.add_batch(2, 0.25)
    totals = total_usage([{"A": one}, {"A": two, "B": one}])
    assert list(totals) == ["A", "B"]
    both = totals["A"]
    assert (both.requests, both.from_cache, both.retries, both.restarts) == (7, 3, 2, 1)
    assert both.statuses == {"failed": 1, "ok": 3, "timeout": 1}
    assert both.failures == 2
    assert (both.batches, both.seconds, both.warnings) == (1, 0.25, ["w", "v"])
    assert one.requests == 5
