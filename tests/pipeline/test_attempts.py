from pipeline import attempts
from pipeline.attempts import Attempts


def test_the_processes_that_began_something_and_did_not_end_it_are_counted() -> None:
    kept = Attempts()
    a, b = ("read", "a"), ("read", "b")
    assert kept.begin([a, b], "first") == [0, 0]
    assert kept.begin([a], "second") == [1]
    kept.end([b, ("read", "unknown")])
    assert kept.begin([a, b], "third") == [2, 0]
    kept.end([a])
    assert kept.begin([a], "fourth") == [0]


def test_what_ray_repeats_is_counted_once() -> None:
    kept = Attempts()
    assert [kept.begin([("a",)], "first") for _ in range(3)] == [[0]] * 3
    assert [kept.begin([("a",)], "second") for _ in range(2)] == [[1]] * 2


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    kept = Attempts()
    kept.begin([("old",), ("busy",)], "first")
    kept.begin([(str(number),) for number in range(attempts._KEPT - 2)], "first")
    assert kept.begin([("busy",)], "second") == [1]  # begun again: young
    kept.begin([("one more",)], "second")
    assert kept.begin([("old",)], "third") == [0]
    assert kept.begin([("busy",)], "third") == [2]
