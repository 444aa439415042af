from pipeline import attempts
from pipeline.attempts import Attempts


def test_what_is_begun_and_not_ended_is_counted() -> None:
    kept = Attempts()
    a, b = ("read", "a"), ("read", "b")
    assert kept.begin([a, b]) == [0, 0]
    assert kept.begin([a]) == [1]
    kept.end([b, ("read", "unknown")])
    assert kept.begin([a, b]) == [2, 0]
    kept.end([a])
    assert kept.begin([a]) == [0]


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    kept = Attempts()
    kept.begin([("old",), ("busy",)])
    kept.begin([(str(number),) for number in range(attempts._KEPT - 2)])
    assert kept.begin([("busy",)]) == [1]  # begun again: young
    kept.begin([("one more",)])
    assert kept.begin([("old",)]) == [0]
    assert kept.begin([("busy",)]) == [2]
