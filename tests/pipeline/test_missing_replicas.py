from pipeline.missing_replicas import lines

AGAIN = "Ray starts the others again, but for any whose process cannot even begin"


def test_only_what_changed_is_told() -> None:
    missing: dict[str, int] = {}
    assert list(lines(missing, {"loss": (2, 2), "sample": (8, 8)})) == []
    assert list(lines(missing, {"loss": (2, 2), "sample": (7, 8)})) == [
        f"pool sample: 7 of 8 replicas answer; {AGAIN}"
    ]
    assert list(lines(missing, {"loss": (2, 2), "sample": (7, 8)})) == []
    assert list(lines(missing, {"loss": (0, 2), "sample": (8, 8)})) == [
        f"pool loss: 0 of 2 replicas answer; {AGAIN}",
        "pool sample: all 8 replicas answer again",
    ]
